// Trees: the containers in which functions take and return tensors (pytrees in JAX).
//
// A tree is one of these:
// - a Tensor;
// - a container of trees: std::vector, list, deque, array, optional, variant, pair, tuple,
//   unique_ptr, shared_ptr, the values of a map or unordered_map, or any other range whose elements
//   can be assigned;
// - an aggregate with up to 32 members, nested, without a macro or a base class:
//     struct Mlp { Tensor w1, b1, w2, b2; }
//
// Other members (numbers, strings, functions, streams) are skipped. A member that may hold tensors
// in a way that the walk cannot follow (a pointer, std::any, a class with private members) does
// not compile. tree_kind.h decides which types these are. For a class that is not an aggregate,
// specialise TreeTraits:
//
//   template <> struct stave::TreeTraits<MyLayer> {
//     // f on each tree inside
//     template <class L, class F> static void visit(L& layer, F&& f) { f(layer.weights()); }
//   };
//   // it holds no tensors
//   template <> struct stave::TreeTraits<Logger> {};
//
// - The order of tensors is the order of declaration, of iteration, and of keys.
//   Unordered maps are also visited by key if their keys have `<`.
// - A smart pointer is the tree that it points to, so a gradient has objects of its own.
//   An object that two pointers share is in the tree twice, and the results of transforms hold two
//   separate copies of it.
// - A Key holds no tensor that a function on tensors should change, so these functions leave it
//   as it is. vmap maps keys over lanes, and files store them.
//
// `visit_children` is the only function that looks into a tree; everything
// else here is written with it.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/reduce.h>
#include <stave/core/ops/tree_kind.h>
#include <stave/core/tensor/tensor.h>

namespace stave_detail {

// ---- visiting the children of a tree --------------------------------------------------------

[[noreturn]] void fail_reference_member();

// This function does not compile if T is not a tree but may hold tensors that visit_children cannot
// reach, for example behind a pointer. The error appears once for each type.
template <class T>
constexpr bool check_no_hidden_tensors() {
  constexpr bool followed = tree_kind<T> != TreeKind::unreachable || !holds_tensors<T>;
  static_assert(followed,
                "stave: inside a tree, this type reaches tensors where transforms cannot follow (a pointer, reference, "
                "view, set, std::any ...): hold them by value, in a container or in a smart pointer");
  static_assert(tree_kind<T> != TreeKind::opaque,
                "stave: inside a tree, this class may hold tensors where transforms cannot follow, as its members are "
                "private: specialise stave::TreeTraits for it (see stave/core/ops/tree.h)");
  return true;
}

// Throws if a member that holds tensors is not stored within its aggregate, that is, if it is a
// reference.
template <class S, class M>
void check_member([[maybe_unused]] const S& aggregate, [[maybe_unused]] const M& member) {
  if constexpr (!std::is_move_assignable_v<S> && holds_tensors<M>) {
    const auto* const begin = reinterpret_cast<const char*>(std::addressof(aggregate));
    const auto* const at = reinterpret_cast<const char*>(std::addressof(member));
    if (at < begin || at >= begin + sizeof(S)) fail_reference_member();
  }
}

/// Calls f(child) on each direct child of a tree that is neither a Tensor nor a Key.
template <class T, class F>
void visit_children(T& tree, F&& f) {
  constexpr TreeKind kind = tree_kind<T>;
  if constexpr (kind == TreeKind::custom) TreeTraits<std::remove_const_t<T>>::visit(tree, f);
  else if constexpr (kind == TreeKind::aggregate)
    with_members(tree, [&](auto&... child) { ((check_member(tree, child), f(child)), ...); });
  else visit_parts(tree, f);
}

// Returns the uint32 tensor of a random Key, which holds one key or an array of keys.
template <class K>
auto& key_data(K& key) {
  return KeyData::of(key);
}

/// Wraps a visitor that visit_tensors calls on the tensors of random Keys, too.
template <class F>
class WithKeys {
 public:
  explicit WithKeys(F f) : f_(std::move(f)) {}
  template <class... A>
    requires std::is_invocable_v<F&, A...>
  void operator()(A&&... args) {
    f_(std::forward<A>(args)...);
  }

 private:
  F f_;
};
template <class F>
WithKeys(F) -> WithKeys<F>;
template <class F>
inline constexpr bool visits_keys = false;
template <class F>
inline constexpr bool visits_keys<WithKeys<F>> = true;

// The library's own visitors are these named types rather than lambdas, so that visit_tensors is
// compiled only a few times for each tree.
struct CollectLeaves {
  std::vector<Tensor>& leaves;
  void operator()(const Tensor& leaf) const { leaves.push_back(leaf); }
};
struct PutLeaves {
  const Tensor* next;  // null: leaves become empty tensors
  void operator()(Tensor& leaf) { leaf = next ? *next++ : Tensor(); }
};

}  // namespace stave_detail

namespace stave {

/// Calls f on every tensor of a tree, in a fixed order. Keys are skipped. A type that is not a tree
/// has no tensors.
template <class T, class F>
void visit_tensors(T& tree, F&& f) {
  using stave_detail::TreeKind;
  constexpr TreeKind kind = stave_detail::tree_kind<T>;
  if constexpr (kind == TreeKind::tensor) {
    constexpr bool may = std::is_invocable_v<F&, T&>;
    static_assert(may,
                  "stave: a tensor of this tree is const, or is held by a pointer to const, and cannot be replaced");
    if constexpr (may) f(tree);
  } else if constexpr (kind == TreeKind::key) {
    if constexpr (stave_detail::visits_keys<std::remove_cvref_t<F>>) f(stave_detail::key_data(tree));
  } else if constexpr (stave_detail::is_tree_kind(kind)) {
    stave_detail::visit_children(tree, [&f](auto& child) { visit_tensors(child, f); });
  } else {
    stave_detail::check_no_hidden_tensors<std::remove_cv_t<T>>();
  }
}

/// The tensors of a tree, in the order of visit_tensors.
template <class T>
std::vector<Tensor> tree_leaves(const T& tree) {
  static_assert(is_tree<T>, "stave: tree_leaves of a type that is not a tree (see stave/core/ops/tree.h)");
  std::vector<Tensor> leaves;
  visit_tensors(tree, stave_detail::CollectLeaves{leaves});
  return leaves;
}

}  // namespace stave

namespace stave_detail {

// ---- copies ---------------------------------------------------------------------------------

// Whether copies of a T may share objects, because T holds a shared_ptr or a custom tree.
template <class T>
inline constexpr bool may_share = Contains<TreeKind::shared, TreeKind::custom>::template in<T>();

template <class T>
T copy_tree(const T& tree);

// Gives each shared_ptr in a copied tree an object of its own.
template <class T>
void unshare([[maybe_unused]] T& tree) {
  if constexpr (!holds_tensors<T>) return;
  else if constexpr (tree_kind<T> == TreeKind::shared) {
    if (tree) tree = std::make_shared<typename T::element_type>(copy_tree(*tree));
  } else if constexpr (is_tree_kind(tree_kind<T>) && may_share<T>) {
    visit_children(tree, [](auto& child) { unshare(child); });
  }
}

// Assigns a copy of `from` to `to`, one child after the other.
template <class T>
void assign_copy(T& to, const T& from) {
  constexpr TreeKind kind = tree_kind<T>;
  if constexpr (!Contains<TreeKind::unique>::template in<T>() && !std::is_array_v<T>) to = copy_tree(from);
  else if constexpr (kind == TreeKind::unique)
    to = from ? std::make_unique<typename T::element_type>(copy_tree(*from)) : nullptr;
  else if constexpr (kind == TreeKind::shared)
    to = from ? std::make_shared<typename T::element_type>(copy_tree(*from)) : nullptr;
  else if constexpr (kind == TreeKind::optional) from ? void(to.emplace(copy_tree(*from))) : to.reset();
  else if constexpr (kind == TreeKind::variant)
    std::visit([&]<class A>(const A& held) { to.template emplace<A>(copy_tree(held)); }, from);
  else if constexpr (kind == TreeKind::map) {
    to.clear();
    visit_entries(from, [&](const auto& key, const auto& value) { to.emplace(key, copy_tree(value)); });
  } else if constexpr (kind == TreeKind::range && requires { to.emplace(to.end(), std::move(*to.begin())); }) {
    to.clear();
    for (const auto& child : from) to.emplace(to.end(), copy_tree(child));
  } else if constexpr (kind == TreeKind::range) {
    static_assert(
        std::is_array_v<T> || requires { std::tuple_size<T>::value; },
        "stave: a range with a std::unique_ptr inside is copied by emplace(end(), element), which this one lacks");
    auto next = std::begin(to);
    for (const auto& child : from) assign_copy(*next++, child);
  } else {
    with_parts(to, [&](auto&... t) { with_parts(from, [&](const auto&... f) { (assign_copy(t, f), ...); }); });
  }
}

/// A copy of `tree` that shares no object with it through smart pointers.
template <class T>
T copy_tree(const T& tree) {
  if constexpr (Contains<TreeKind::unique>::template in<T>()) {
    constexpr bool begins = std::is_default_constructible_v<T>;
    static_assert(begins, "stave: a tree with a std::unique_ptr inside is copied part by part, and must begin as T{}");
    if constexpr (begins) {
      T result{};
      assign_copy(result, tree);
      return result;
    }
  } else {
    constexpr bool copyable = std::is_copy_constructible_v<T>;
    static_assert(copyable, "stave: this tree has a member that cannot be copied");
    if constexpr (copyable) {
      T result = tree;
      unshare(result);
      return result;
    }
  }
}

/// A copy of `tree` in which `leaves` replace the tensors.
template <class T, class Tensors>
T with_leaves(const T& tree, const Tensors& leaves) {
  T result = copy_tree(tree);
  visit_tensors(result, PutLeaves{leaves.data()});
  return result;
}

/// A copy of `tree` with empty tensors in place of its tensors.
template <class T>
T structure_of(const T& tree) {
  T structure = copy_tree(tree);
  visit_tensors(structure, PutLeaves{nullptr});
  return structure;
}

// ---- trees that correspond ------------------------------------------------------------------

/// Throws ShapeError unless `same` is true. `what` begins the text of the error.
void check_same_structure(bool same, const char* what);  // such as "tree_map: the trees"

// Whether two trees of type T may differ in structure.
template <class T>
inline constexpr bool varies = Contains<TreeKind::range, TreeKind::map, TreeKind::optional, TreeKind::unique,
                                        TreeKind::shared, TreeKind::variant, TreeKind::custom>::template in<T>();

template <class K>
bool same_key(const K& a, const K& b) {
  if constexpr (requires { bool(a == b); }) return bool(a == b);
  else return !(a < b) && !(b < a);
}

/// Returns true if lengths, keys and variant alternatives agree and the same optional parts are
/// present.
template <class T>
bool same_structure(const T& a, const T& b) {
  if constexpr (!varies<T>) return true;
  else if constexpr (tree_kind<T> == TreeKind::custom) return tree_leaves(a).size() == tree_leaves(b).size();
  else
    return same_parts(
        a, b, [](const auto& x, const auto& y) { return same_key(x, y); },
        [](const auto& x, const auto& y) { return same_structure(x, y); });
}

// ---- functions on trees ---------------------------------------------------------------------

// How many trees tree_map returns for a function with result R: 0 stands for a single Tensor
// (and so one tree), else R is a std::tuple, pair or array of that many tensors.
template <class R>
inline constexpr std::size_t result_trees = 0;
template <class... R>
inline constexpr std::size_t result_trees<std::tuple<R...>> = sizeof...(R);
template <class A, class B>
inline constexpr std::size_t result_trees<std::pair<A, B>> = 2;
template <std::size_t n>
inline constexpr std::size_t result_trees<std::array<Tensor, n>> = n;

using TensorTypes = std::vector<std::pair<Shape, Dtype>>;
Tensor ravel_leaves(const std::vector<Tensor>& leaves);
std::vector<Tensor> unravel_leaves(const Tensor& vector, const TensorTypes& types);

}  // namespace stave_detail

namespace stave {

/// Applies f to the corresponding tensors of trees of one type and structure. Members that are
/// not tensors are taken from the first tree. If f returns a std::tuple (pair, array) of tensors,
/// the result is a std::tuple of as many trees. Throws ShapeError if the trees differ in structure.
///   mlp = tree_map([](const Tensor& w, const Tensor& g) { return w - 0.1 * g; }, mlp, gradient);
///   auto [mlp2, moments2] = tree_map(step, mlp, moments, gradient);
template <class F, class T, class... Rest>
auto tree_map(F&& f, const T& tree, const Rest&... rest) {
  using namespace stave_detail;
  static_assert(is_tree<T>, "stave: tree_map over a type that is not a tree (see stave/core/ops/tree.h)");
  static_assert((std::is_same_v<T, Rest> && ...), "stave: tree_map needs trees of one type");
  if constexpr (is_tree<T> && (std::is_same_v<T, Rest> && ...)) {
    (check_same_structure(same_structure(tree, rest), "tree_map: the trees"), ...);
    const std::vector<Tensor> first = tree_leaves(tree);
    const std::array<std::vector<Tensor>, sizeof...(Rest)> others{tree_leaves(rest)...};
    const auto at = [&]<std::size_t... i>(std::size_t leaf, std::index_sequence<i...>) {
      return f(first[leaf], others[i][leaf]...);
    };
    using Indices = std::index_sequence_for<Rest...>;
    constexpr std::size_t count = result_trees<decltype(at(0, Indices()))>;
    std::array<std::vector<Tensor>, count == 0 ? 1 : count> leaves;
    for (std::size_t i = 0; i < first.size(); ++i) {
      if constexpr (count == 0) leaves[0].push_back(at(i, Indices()));
      else
        [&, next = leaves.begin()](auto&& results) mutable {
          std::apply([&](auto&... result) { ((next++)->push_back(result), ...); }, results);
        }(at(i, Indices()));
    }
    if constexpr (count == 0) return with_leaves(tree, leaves[0]);
    else return std::apply([&](const auto&... l) { return std::tuple(with_leaves(tree, l)...); }, leaves);
  }
}

/// A copy of `tree` with zeros in place of its tensors.
template <class T>
  requires(is_tree<T> && !std::is_same_v<T, Tensor>)
T zeros_like(const T& tree) {
  return tree_map([](const Tensor& leaf) { return zeros_like(leaf); }, tree);
}

/// The sum of all tensors of a tree, for example of a std::vector. The tensors broadcast.
/// Returns 0 for a tree without tensors.
template <class T>
Tensor add_all(const T& tree) {
  static_assert(is_tree<T>, "stave: add_all of a type that is not a tree (see stave/core/ops/tree.h)");
  Tensor total;
  visit_tensors(tree, [&](const Tensor& leaf) { total = total.defined() ? total + leaf : leaf; });
  return total.defined() ? total : zeros({});
}

/// The square root of the sum of the squares of all elements of all tensors; default_dtype()
/// for integers.
template <class T>
Tensor global_norm(const T& tree) {
  static_assert(is_tree<T>, "stave: global_norm of a type that is not a tree (see stave/core/ops/tree.h)");
  std::vector<Tensor> norms;
  visit_tensors(tree, [&](const Tensor& leaf) { norms.push_back(norm(leaf)); });
  return norms.empty() ? zeros({}) : norm(stack(norms));
}

/// The function that turns a vector back into a tree; see ravel.
template <class T>
class Unravel {
 public:
  explicit Unravel(const T& tree) : structure_(stave_detail::structure_of(tree)) {
    visit_tensors(tree, [&](const Tensor& leaf) { types_.emplace_back(leaf.shape(), leaf.dtype()); });
  }
  /// Returns the tree whose tensors hold the elements of `vector`, with the shapes and dtypes
  /// of the tree that was ravelled. Throws ShapeError unless the vector has as many elements
  /// as that tree.
  T operator()(const Tensor& vector) const {
    return stave_detail::with_leaves(structure_, stave_detail::unravel_leaves(vector, types_));
  }

 private:
  T structure_;
  stave_detail::TensorTypes types_;
};

/// Returns all elements of a tree as one vector, and the function that turns such a vector back
/// into a tree, as jax.flatten_util.ravel_pytree. Dtypes are promoted to one.
///   auto [vector, unravel] = ravel(mlp);
///   Mlp same = unravel(vector);
template <class T>
std::pair<Tensor, Unravel<T>> ravel(const T& tree) {
  static_assert(is_tree<T>, "stave: ravel of a type that is not a tree (see stave/core/ops/tree.h)");
  return {stave_detail::ravel_leaves(tree_leaves(tree)), Unravel<T>(tree)};
}

}  // namespace stave
