// Classes that TreeTraits visit, as arguments of compiled functions and as results of steps: their
// number of tensors counts, also inside other trees.
#include <stave/stave.h>

#include "matchers.h"

namespace custom_trees_test {

using namespace stave;
using namespace stave_test;

class Bag {
 public:
  explicit Bag(std::vector<Tensor> tensors) : tensors_(std::move(tensors)) {}
  auto& tensors() { return tensors_; }
  const auto& tensors() const { return tensors_; }

 private:
  std::vector<Tensor> tensors_;
};

}  // namespace custom_trees_test

template <>
struct stave::TreeTraits<custom_trees_test::Bag> {
  template <class B, class F>
  static void visit(B& bag, F&& f) {
    for (auto& x : bag.tensors()) f(x);
  }
  static bool same(const custom_trees_test::Bag&, const custom_trees_test::Bag&) { return true; }
};

namespace custom_trees_test {
namespace {

struct Two {
  Bag a, b;
};

TEST(CustomTrees, NumberOfTensorsIsPartOfTheSignature) {
  const auto by_part = compile([](const Two& two) { return add_all(two.a) - 2. * add_all(two.b); });
  const auto whole = compile([](const Bag& bag) { return add_all(bag); });
  const Tensor one = tensor(1.), two = tensor(2.), ten = tensor(10.);
  for (int call = 0; call < 3; ++call) {
    EXPECT_EQ(by_part(Two{Bag({one, two}), Bag({ten})}).item<double>(), 3 - 20);
    EXPECT_EQ(by_part(Two{Bag({one}), Bag({two, ten})}).item<double>(), 1 - 24);
    EXPECT_EQ(whole(Bag({one, ten})).item<double>(), 11);
    EXPECT_EQ(whole(Bag({one, two, ten})).item<double>(), 13);
  }
}

TEST(CustomTrees, StepsOfAScanMustReturnTheSameNumber) {
  for (const int first : {1, 2}) {
    int steps = 0;
    const auto step = [&](const Tensor& carry, const Tensor& x) {
      const int count = steps++ == 0 ? first : 3 - first;
      return std::pair(carry, std::pair(Bag(std::vector<Tensor>(static_cast<std::size_t>(count), x)), x));
    };
    EXPECT_THROW(scan(step)(tensor(0.), tensor({1., 2., 3.})), TransformError);
  }
}

// An effect with a pointer to a class that is not defined: it is not recordable, and compiles.
struct Undefined;
template <class T>
struct Holder {
  T held;
};
struct Ask {
  using Result = int;
  Holder<Undefined>* where;
};
struct AnswersOne : Handles<Ask> {
  int handle(Ask&) override { return 1; }
};

TEST(CustomTrees, EffectsMayPointToUndefinedClasses) {
  AnswersOne handler;
  EXPECT_EQ(with(handler, [] { return perform(Ask{nullptr}); }), 1);
}

}  // namespace
}  // namespace custom_trees_test
