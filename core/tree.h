// Trees: the containers in which functions take and return tensors.
//
// A tree is a Tensor; a std::vector, array, optional, pair, tuple or map (by its values) of trees; or any aggregate of up to
// 32 members, nested: struct Mlp { Tensor w1, b1, w2, b2; } needs no macro and no base class. Members that are not trees
// (numbers, strings, functions, streams) are passed over. For a class of your own that is no aggregate, specialise
//
//   template <> struct stave::TreeTraits<MyLayer> {
//     template <class L, class F> static void visit(L& layer, F&& f) { f(layer.weights()); }   // f on each tree inside
//   };
//
// There is one walker, `visit_tensors`; everything else here is written with it.
#pragma once

#include <array>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/reduce.h>
#include <stave/core/tensor.h>

namespace stave {

/// The customisation point: specialise with a static `visit(tree, f)` that calls f on each tree inside.
template <class T>
struct TreeTraits;

}  // namespace stave

namespace stave_detail {

using namespace stave;

// ---- members of aggregates -------------------------------------------------------------------------------
// The number of members is the largest number of initialisers that S{...} takes. An initialiser that converts to anything is
// given as an lvalue (copyable members) or an rvalue (move-only ones). A C array takes one for each of its elements ("brace
// elision"), which is found out and corrected. (The idea is that of Boost.PFR.)

// Never called, but defined: the constructor templates of std::optional make compilers instantiate them.
struct AnyLvalue {
  template <class T>
  operator T&() const&& noexcept {
    std::abort();
  }
  template <class T>
  operator T&() const& noexcept {
    std::abort();
  }
};
struct AnyRvalue {
  template <class T>
  operator T() const&& noexcept {
    std::abort();
  }
};

template <std::size_t>
using AnyL = AnyLvalue;

template <class S, class Any, std::size_t... i>
constexpr bool initialises(std::index_sequence<i...>) {
  return requires { S{(static_cast<void>(i), Any())...}; };
}
template <class S, std::size_t n>
constexpr bool takes = initialises<S, AnyLvalue>(std::make_index_sequence<n>()) ||
                       initialises<S, AnyRvalue>(std::make_index_sequence<n>());

inline constexpr std::size_t most_members = 32;

template <class S, std::size_t n = most_members + 1>
constexpr std::size_t count_initialisers() {
  if constexpr (n == 0) return 0;
  else if constexpr (takes<S, n>) return n;
  else return count_initialisers<S, n - 1>();
}

// S{any x before, {any x inside}, any x after}
template <class S, std::size_t... before, std::size_t... inside, std::size_t... after>
constexpr bool nests(std::index_sequence<before...>, std::index_sequence<inside...>, std::index_sequence<after...>) {
  return requires { S{AnyL<before>()..., {AnyL<inside>()...}, AnyL<after>()...}; };
}
template <class S, std::size_t before, std::size_t inside, std::size_t after>
constexpr bool nested =
    nests<S>(std::make_index_sequence<before>(), std::make_index_sequence<inside>(), std::make_index_sequence<after>());

// The length of the C array at initialiser `at` of `total`; 1 if there is none. A class there would leave room for more after it.
template <class S, std::size_t at, std::size_t total, std::size_t length = total - at>
constexpr std::size_t array_length() {
  if constexpr (length < 2) return 1;
  else if constexpr (nested<S, at, length, total - at - length> && !nested<S, at, length, total - at - length + 1>)
    return length;
  else return array_length<S, at, total, length - 1>();
}

template <class S, std::size_t total, std::size_t at = 0>
constexpr std::size_t count_from() {
  if constexpr (at >= total) return 0;
  else return 1 + count_from<S, total, at + array_length<S, at, total>()>();
}

template <class S>
inline constexpr std::size_t initialiser_count = count_initialisers<S>();
template <class S>
inline constexpr std::size_t member_count = count_from<S, initialiser_count<S>>();

// ---- what is a tree --------------------------------------------------------------------------------------

enum class TreeKind { none, tensor, custom, range, map, optional, tuple, c_array, aggregate };

template <class T>
struct TreeKindOf {
  static constexpr TreeKind value = [] {
    if constexpr (requires(T& t) { TreeTraits<T>::visit(t, [](auto&) {}); }) return TreeKind::custom;
    else if constexpr (std::is_class_v<T> && std::is_aggregate_v<T> && !std::is_polymorphic_v<T>)
      return TreeKind::aggregate;
    else return TreeKind::none;
  }();
};
template <TreeKind kind>
struct Is {
  static constexpr TreeKind value = kind;
};
template <class T>
struct TreeKindOf<const T> : TreeKindOf<T> {};
template <>
struct TreeKindOf<void> : Is<TreeKind::none> {};
template <>
struct TreeKindOf<Tensor> : Is<TreeKind::tensor> {};
template <class T, class A>
struct TreeKindOf<std::vector<T, A>> : Is<TreeKindOf<T>::value == TreeKind::none ? TreeKind::none : TreeKind::range> {};
template <class T, std::size_t n>
struct TreeKindOf<std::array<T, n>> : Is<TreeKindOf<T>::value == TreeKind::none ? TreeKind::none : TreeKind::range> {};
template <class T, std::size_t n>
struct TreeKindOf<T[n]> : Is<TreeKindOf<T>::value == TreeKind::none ? TreeKind::none : TreeKind::c_array> {};
template <class K, class T, class C, class A>
struct TreeKindOf<std::map<K, T, C, A>> : Is<TreeKindOf<T>::value == TreeKind::none ? TreeKind::none : TreeKind::map> {
};
template <class T>
struct TreeKindOf<std::optional<T>> : Is<TreeKindOf<T>::value == TreeKind::none ? TreeKind::none : TreeKind::optional> {
};
template <class... T>
struct TreeKindOf<std::tuple<T...>>
    : Is<((TreeKindOf<std::remove_cvref_t<T>>::value == TreeKind::none) && ...) ? TreeKind::none : TreeKind::tuple> {};
template <class A, class B>
struct TreeKindOf<std::pair<A, B>> : TreeKindOf<std::tuple<A, B>> {};

}  // namespace stave_detail

namespace stave {

/// True for the types that hold tensors where transforms look for them; see the top of this file. An aggregate counts as one
/// whatever its members are.
template <class T>
inline constexpr bool is_tree = stave_detail::TreeKindOf<std::remove_cvref_t<T>>::value != stave_detail::TreeKind::none;

}  // namespace stave

namespace stave_detail {

template <class S, class F>
constexpr void visit_members(S& s, F&& f) {
  constexpr std::size_t n = member_count<std::remove_const_t<S>>;
  static_assert(
      n <= most_members,
      "stave: an aggregate of more than 32 members is not a tree: group members, or specialise stave::TreeTraits");
#define STAVE_MEMBERS(count, ...)                            \
  else if constexpr (n == count) {                           \
    auto& [__VA_ARGS__] = s;                                 \
    [&](auto&... member) { (f(member), ...); }(__VA_ARGS__); \
  }
  if constexpr (n == 0) {
  }
  STAVE_MEMBERS(1, a)
  STAVE_MEMBERS(2, a, b)
  STAVE_MEMBERS(3, a, b, c)
  STAVE_MEMBERS(4, a, b, c, d)
  STAVE_MEMBERS(5, a, b, c, d, e)
  STAVE_MEMBERS(6, a, b, c, d, e, g)
  STAVE_MEMBERS(7, a, b, c, d, e, g, h)
  STAVE_MEMBERS(8, a, b, c, d, e, g, h, i)
  STAVE_MEMBERS(9, a, b, c, d, e, g, h, i, j)
  STAVE_MEMBERS(10, a, b, c, d, e, g, h, i, j, k)
  STAVE_MEMBERS(11, a, b, c, d, e, g, h, i, j, k, l)
  STAVE_MEMBERS(12, a, b, c, d, e, g, h, i, j, k, l, m)
  STAVE_MEMBERS(13, a, b, c, d, e, g, h, i, j, k, l, m, o)
  STAVE_MEMBERS(14, a, b, c, d, e, g, h, i, j, k, l, m, o, p)
  STAVE_MEMBERS(15, a, b, c, d, e, g, h, i, j, k, l, m, o, p, q)
  STAVE_MEMBERS(16, a, b, c, d, e, g, h, i, j, k, l, m, o, p, q, r)
#define STAVE_16 a, b, c, d, e, g, h, i, j, k, l, m, o, p, q, r
  STAVE_MEMBERS(17, STAVE_16, t)
  STAVE_MEMBERS(18, STAVE_16, t, u)
  STAVE_MEMBERS(19, STAVE_16, t, u, v)
  STAVE_MEMBERS(20, STAVE_16, t, u, v, w)
  STAVE_MEMBERS(21, STAVE_16, t, u, v, w, x)
  STAVE_MEMBERS(22, STAVE_16, t, u, v, w, x, y)
  STAVE_MEMBERS(23, STAVE_16, t, u, v, w, x, y, z)
  STAVE_MEMBERS(24, STAVE_16, t, u, v, w, x, y, z, a1)
  STAVE_MEMBERS(25, STAVE_16, t, u, v, w, x, y, z, a1, a2)
  STAVE_MEMBERS(26, STAVE_16, t, u, v, w, x, y, z, a1, a2, a3)
  STAVE_MEMBERS(27, STAVE_16, t, u, v, w, x, y, z, a1, a2, a3, a4)
  STAVE_MEMBERS(28, STAVE_16, t, u, v, w, x, y, z, a1, a2, a3, a4, a5)
  STAVE_MEMBERS(29, STAVE_16, t, u, v, w, x, y, z, a1, a2, a3, a4, a5, a6)
  STAVE_MEMBERS(30, STAVE_16, t, u, v, w, x, y, z, a1, a2, a3, a4, a5, a6, a7)
  STAVE_MEMBERS(31, STAVE_16, t, u, v, w, x, y, z, a1, a2, a3, a4, a5, a6, a7, a8)
  STAVE_MEMBERS(32, STAVE_16, t, u, v, w, x, y, z, a1, a2, a3, a4, a5, a6, a7, a8, a9)
#undef STAVE_16
#undef STAVE_MEMBERS
}

}  // namespace stave_detail

namespace stave {

/// Calls f on every tensor of a tree, in a fixed order: members as declared, maps by key. On anything else it does nothing.
template <class T, class F>
void visit_tensors(T& tree, F&& f) {
  using stave_detail::TreeKind;
  constexpr TreeKind kind = stave_detail::TreeKindOf<std::remove_const_t<T>>::value;
  const auto inner = [&f](auto& member) { visit_tensors(member, f); };
  if constexpr (kind == TreeKind::tensor) f(tree);
  else if constexpr (kind == TreeKind::custom) TreeTraits<std::remove_const_t<T>>::visit(tree, inner);
  else if constexpr (kind == TreeKind::range || kind == TreeKind::c_array)
    for (auto& member : tree) inner(member);
  else if constexpr (kind == TreeKind::map)
    for (auto& entry : tree) inner(entry.second);
  else if constexpr (kind == TreeKind::optional) tree ? inner(*tree) : void();
  else if constexpr (kind == TreeKind::tuple) std::apply([&](auto&... member) { (inner(member), ...); }, tree);
  else if constexpr (kind == TreeKind::aggregate) stave_detail::visit_members(tree, inner);
}

/// The tensors of a tree, in the order of visit_tensors.
template <class T>
std::vector<Tensor> tree_leaves(const T& tree) {
  static_assert(is_tree<T>, "stave: tree_leaves of a type that is not a tree (see stave/core/tree.h)");
  std::vector<Tensor> leaves;
  visit_tensors(tree, [&](const Tensor& leaf) { leaves.push_back(leaf); });
  return leaves;
}

}  // namespace stave

namespace stave_detail {

[[noreturn]] void fail_tree_mismatch(const char* operation, std::size_t expected, std::size_t got);

// A copy of `tree` with other tensors in it.
template <class T, class Tensors>
T with_leaves(const T& tree, const Tensors& leaves) {
  T result = tree;
  std::size_t next = 0;
  visit_tensors(result, [&](Tensor& leaf) { leaf = leaves[next++]; });
  return result;
}

}  // namespace stave_detail

namespace stave {

/// f on the corresponding tensors of trees of one type and structure; what is no tensor is taken from the first.
///   mlp = tree_map([](const Tensor& w, const Tensor& g) { return w - 0.1 * g; }, mlp, gradient);
template <class F, class T, class... Rest>
T tree_map(F&& f, const T& tree, const Rest&... rest) {
  static_assert(is_tree<T>, "stave: tree_map over a type that is not a tree (see stave/core/tree.h)");
  static_assert((std::is_same_v<T, Rest> && ...), "stave: tree_map needs trees of one type");
  const std::array<std::vector<Tensor>, sizeof...(Rest)> others{tree_leaves(rest)...};
  T result = tree;
  std::size_t count = 0, next = 0;
  visit_tensors(tree, [&](const Tensor&) { ++count; });
  for (const auto& leaves : others)
    if (leaves.size() != count) stave_detail::fail_tree_mismatch("tree_map", count, leaves.size());
  visit_tensors(result, [&](Tensor& leaf) {
    leaf = [&]<std::size_t... i>(std::index_sequence<i...>) {
      return f(leaf, others[i][next]...);
    }(std::make_index_sequence<sizeof...(Rest)>());
    ++next;
  });
  return result;
}

/// The tree with zeros in place of its tensors.
template <class T>
  requires(is_tree<T> && !std::is_same_v<T, Tensor>)
T zeros_like(const T& tree) {
  return tree_map([](const Tensor& leaf) { return zeros_like(leaf); }, tree);
}

/// sqrt of the sum of the squares of all elements of all tensors; float32 (float64 if a tensor is).
template <class T>
Tensor global_norm(const T& tree) {
  static_assert(is_tree<T>, "stave: global_norm of a type that is not a tree (see stave/core/tree.h)");
  Tensor total;
  visit_tensors(tree, [&](const Tensor& leaf) {
    const Tensor squares = sum(square(leaf));
    total = total.defined() ? total + squares : squares;
  });
  return total.defined() ? sqrt(total) : zeros({});
}

}  // namespace stave
