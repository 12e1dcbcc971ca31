// Types that are not trees, and members that a tree must not have. Each case fails with one error,
// which has the expected text.
#include <stave/stave.h>

#include <any>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <stack>
using namespace stave;

// A tree that has an M beside a tensor.
template <class M>
struct With {
  M member;
  Tensor x;
};
struct Layer {
  Tensor w;
};
class Private {
 public:
  explicit Private(Tensor x) : x_(std::move(x)) {}

 private:
  Tensor x_;
};
class Derived : public Tensor {
 public:
  explicit Derived(Tensor x) : Tensor(std::move(x)) {}
};
struct Virtual {
  virtual ~Virtual() = default;
  Tensor x;
};
struct Deeper : Layer {
  Tensor b;
};
struct Wide {
  Tensor t0, t1, t2, t3, t4, t5, t6, t7, t8, t9, t10, t11, t12, t13, t14, t15, t16, t17, t18, t19, t20, t21, t22, t23,
      t24, t25, t26, t27, t28, t29, t30, t31, t32;
};
struct Constant {
  const Tensor w;
  Tensor b;
};

template <class T>
void leaves_of(const T* tree = nullptr) {
  tree_leaves(*tree);
}

void f() {
#if CASE == 1
  // expect: stave: inside a tree, this type reaches tensors where transforms cannot follow
  leaves_of<With<Tensor*>>();
#elif CASE == 2
  // expect: stave: inside a tree, this type reaches tensors where transforms cannot follow
  leaves_of<With<const Layer*>>();
#elif CASE == 3
  // expect: stave: inside a tree, this type reaches tensors where transforms cannot follow
  leaves_of<With<std::reference_wrapper<Tensor>>>();
#elif CASE == 4
  // expect: stave: inside a tree, this type reaches tensors where transforms cannot follow
  leaves_of<With<std::set<Tensor>>>();
#elif CASE == 5
  // expect: stave: inside a tree, this type reaches tensors where transforms cannot follow
  leaves_of<With<std::any>>();
#elif CASE == 6
  // expect: stave: inside a tree, this type reaches tensors where transforms cannot follow
  leaves_of<With<std::span<Tensor>>>();
#elif CASE == 7
  // expect: stave: inside a tree, this type reaches tensors where transforms cannot follow
  leaves_of<With<std::weak_ptr<Layer>>>();
#elif CASE == 8
  // expect: stave: inside a tree, this type reaches tensors where transforms cannot follow
  leaves_of<With<std::stack<Layer>>>();
#elif CASE == 9
  // expect: stave: inside a tree, this type reaches tensors where transforms cannot follow
  leaves_of<With<std::unique_ptr<Tensor[]>>>();
#elif CASE == 10
  // expect: stave: inside a tree, this type reaches tensors where transforms cannot follow
  leaves_of<With<Derived>>();
#elif CASE == 11
  // expect: stave: inside a tree, this class may hold tensors where transforms cannot follow
  leaves_of<With<Private>>();
#elif CASE == 12
  // expect: stave: inside a tree, this class may hold tensors where transforms cannot follow
  leaves_of<With<std::shared_ptr<Virtual>>>();
#elif CASE == 13
  // expect: stave: an aggregate with a base class is not a tree: make the base a member, or specialise
  tree_leaves(Deeper());
#elif CASE == 14
  // expect: stave: an aggregate of more than 32 members is not a tree: group members, or specialise
  tree_leaves(Wide());
#elif CASE == 15
  // expect: stave: a tensor of this tree is const, or is held by a pointer to const, and cannot be replaced
  zeros_like(Constant());
#elif CASE == 16
  // expect: stave: a tensor of this tree is const, or is held by a pointer to const, and cannot be replaced
  zeros_like(std::shared_ptr<const Tensor>());
#elif CASE == 17
  // expect: stave: tree_leaves of a type that is not a tree
  tree_leaves(std::string("text"));
#elif CASE == 18
  // expect: stave: global_norm of a type that is not a tree
  global_norm(std::vector<float>{1});
#elif CASE == 19
  // expect: stave: tree_map over a type that is not a tree
  tree_map([](const Tensor& x) { return x; }, 3);
#elif CASE == 20
  // expect: stave: tree_map needs trees of one type
  tree_map([](const Tensor& a, const Tensor&) { return a; }, std::vector<Tensor>(), std::array<Tensor, 1>());
#elif CASE == 21
  // expect: stave: this tree has a member that cannot be copied
  zeros_like(With<std::unique_ptr<int>>());
#endif
}
