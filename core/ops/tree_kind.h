// What is a tree, and what of: the one place that decides for each type whether transforms look into it (tree.h).
//
//   tensor, key, custom, range, map, optional, unique, shared, variant, tuple, aggregate   trees: what they hold is visited
//   none      numbers, strings, functions, streams: no tensors inside, passed over
//   unseen    reaches tensors, or may, where the walk cannot follow or cannot assign: Tensor*, std::reference_wrapper, std::span,
//             std::set, std::any, std::weak_ptr, any other template of a tree: an error inside a tree
//   unknown   a class of which it cannot be told, as its members are private: an error inside a tree; an argument of that type
//             passes through transforms, as a captured value does
//
// A kind says nothing of the members of aggregates, so that types may be recursive. `contains` looks into them.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

#include <stave/core/effects/members.h>
#include <stave/core/ops/random.h>
#include <stave/core/tensor/tensor.h>

namespace stave {

/// The customisation point: specialise with a static `visit(tree, f)` that calls f on each tree inside.
/// An empty specialisation declares that a class holds no tensors.
template <class T>
struct TreeTraits;

}  // namespace stave

namespace stave_detail {

using namespace stave;

enum class TreeKind {
  none,
  unseen,
  unknown,
  tensor,
  key,
  custom,
  range,
  map,
  optional,
  unique,
  shared,
  variant,
  tuple,
  aggregate
};

constexpr bool is_tree_kind(TreeKind kind) { return kind > TreeKind::unknown; }

template <class... T>
struct Types {};

template <TreeKind given>
struct Is {
  static constexpr TreeKind kind = given;
  using Contents = Types<>;
};

template <class T>
struct TreeNode;
template <class T>
inline constexpr TreeKind tree_kind = TreeNode<std::remove_cv_t<T>>::kind;

// The kind of what holds these: `kind`, if one of them is a tree or must not be in one.
template <class... Held>
constexpr TreeKind kind_over(TreeKind kind) {
  if (((is_tree_kind(tree_kind<Held>) || tree_kind<Held> == TreeKind::unseen) || ...)) return kind;
  return ((tree_kind<Held> == TreeKind::unknown) || ...) ? TreeKind::unknown : TreeKind::none;
}

template <TreeKind given, class... Held>
struct NodeOver {
  static constexpr TreeKind kind = kind_over<Held...>(given);
  using Contents = Types<Held...>;
};

// ---- what std::optional, std::tuple and the like hold -----------------------------------------------------

// What a class is by its template arguments, if it is nothing else: std::stack<Tensor>, std::reference_wrapper<Tensor>.
template <class A>
inline constexpr bool is_stateful = std::is_object_v<A> && !requires { requires std::is_empty_v<A>; };  // no std::less
template <class A>
using ArgumentOf = std::conditional_t<is_stateful<A>, std::remove_extent_t<A>, std::nullptr_t>;
template <class T>
struct ByArguments : NodeOver<TreeKind::none> {};
template <template <class...> class Template, class... A>
struct ByArguments<Template<A...>> : NodeOver<TreeKind::unseen, ArgumentOf<A>...> {};

// ---- ranges ----------------------------------------------------------------------------------------------

template <class T>
using ReferenceOf = decltype(*std::declval<T&>().begin());
template <class T>
using ElementOf = std::remove_cvref_t<ReferenceOf<T>>;

template <class T>
concept Range = requires(T& t, const T& c) {
  t.end();
  *c.begin();
  requires !std::is_same_v<ElementOf<T>, T>;  // a path is a range of paths
};
template <class T>
concept MapRange = Range<T> && requires(T& t) {
  typename T::mapped_type;
  t.begin()->second;
};
// Whose elements can be assigned, and are its own: not those of std::set, nor those of std::span.
template <class T>
concept OwningRange =
    std::is_lvalue_reference_v<ReferenceOf<T>> && !std::is_const_v<std::remove_reference_t<ReferenceOf<T>>> &&
    std::is_const_v<std::remove_reference_t<ReferenceOf<const T>>>;

// ---- all else --------------------------------------------------------------------------------------------

template <class T>
constexpr std::string_view name_of_type() {
  const std::string_view function = __PRETTY_FUNCTION__;
  const std::size_t begin = function.find("T = ") + 4;
  return function.substr(begin, function.find_first_of(";]", begin) - begin);
}
// The standard library's classes hide no tensors but by their template arguments; std::any aside.
template <class T>
constexpr bool is_standard() {
  return name_of_type<T>().starts_with("std::") || name_of_type<T>().starts_with("__gnu_cxx::");
}

// Plain data that with_members cannot take apart.
template <class T>
constexpr bool is_unwalkable_data() {
  if constexpr (std::is_trivially_copyable_v<T>) return has_base<T> || member_count<T> > most_members;
  else return false;
}

template <class T>
constexpr auto node_of_class() {
  if constexpr (!requires { sizeof(T); }) return std::type_identity<Is<TreeKind::unknown>>();
  else if constexpr (requires(T& t) { TreeTraits<T>::visit(t, [](auto&) {}); })
    return std::type_identity<Is<TreeKind::custom>>();
  else if constexpr (requires { sizeof(TreeTraits<T>); }) return std::type_identity<Is<TreeKind::none>>();
  else if constexpr (MapRange<T>) return std::type_identity<NodeOver<TreeKind::map, typename T::mapped_type>>();
  else if constexpr (Range<T>)
    return std::type_identity<NodeOver<OwningRange<T> ? TreeKind::range : TreeKind::unseen, ElementOf<T>>>();
  else if constexpr (std::is_class_v<T> && std::is_aggregate_v<T>)
    return std::type_identity<Is<is_unwalkable_data<T>() ? TreeKind::none : TreeKind::aggregate>>();
  else if constexpr (std::is_base_of_v<Tensor, T> || name_of_type<T>() == "std::any")
    return std::type_identity<NodeOver<TreeKind::unseen, Tensor>>();
  else if constexpr (std::is_empty_v<T>) return std::type_identity<Is<TreeKind::none>>();
  else if constexpr (ByArguments<T>::kind != TreeKind::none) return std::type_identity<ByArguments<T>>();
  else if constexpr (std::is_trivially_copyable_v<T> || is_standard<T>())
    return std::type_identity<Is<TreeKind::none>>();
  else return std::type_identity<Is<TreeKind::unknown>>();
}

template <class T>
struct NodeOfClass : decltype(node_of_class<T>())::type {};

template <class T>
struct TreeNode : std::conditional_t<std::is_class_v<T> || std::is_union_v<T>, NodeOfClass<T>, Is<TreeKind::none>> {};
template <>
struct TreeNode<Tensor> : Is<TreeKind::tensor> {};
template <>
struct TreeNode<Key> : Is<TreeKind::key> {};
template <class T>
  requires std::is_object_v<T> && requires { sizeof(T); }
struct TreeNode<T*> : NodeOver<TreeKind::unseen, T> {};
template <class T, std::size_t n>
struct TreeNode<T[n]> : NodeOver<TreeKind::range, T> {};
template <class T>
struct TreeNode<std::optional<T>> : NodeOver<TreeKind::optional, T> {};
template <class T>
  requires(!std::is_array_v<T>)
struct TreeNode<std::unique_ptr<T>> : NodeOver<TreeKind::unique, T> {};
template <class T>
  requires(!std::is_array_v<T>)
struct TreeNode<std::shared_ptr<T>> : NodeOver<TreeKind::shared, T> {};
template <class... T>
struct TreeNode<std::variant<T...>> : NodeOver<TreeKind::variant, T...> {};
template <class... T>
struct TreeNode<std::tuple<T...>> : NodeOver<TreeKind::tuple, std::remove_reference_t<T>...> {};
template <class A, class B>
struct TreeNode<std::pair<A, B>> : TreeNode<std::tuple<A, B>> {};

// ---- what is inside --------------------------------------------------------------------------------------

template <class T>
struct ContentsOf : std::type_identity<typename TreeNode<T>::Contents> {};
template <class T>
  requires(tree_kind<T> == TreeKind::aggregate)
struct ContentsOf<T> : std::type_identity<MemberTypes<T, Types>> {};

/// Whether there is a node of one of these kinds in trees of type T, at any depth.
template <TreeKind... kinds>
struct Contains {
  template <class T, class... Outer>
  static constexpr bool in() {
    using Node = std::remove_cv_t<T>;
    constexpr TreeKind kind = tree_kind<Node>;
    if constexpr (((kind == kinds) || ...)) return true;
    else if constexpr ((std::is_same_v<Node, Outer> || ...)) return false;
    else
      return []<class... Held>(Types<Held...>) {
        return (in<Held, Node, Outer...>() || ...);
      }(typename ContentsOf<Node>::type());
  }
};

/// Whether trees of type T may hold tensors at all.
template <class T>
inline constexpr bool holds_tensors = Contains<TreeKind::tensor, TreeKind::key, TreeKind::custom>::template in<T>();

}  // namespace stave_detail

namespace stave {

/// True for the types that hold tensors where transforms look for them; see tree.h. An aggregate counts as one whatever its
/// members are.
template <class T>
inline constexpr bool is_tree = stave_detail::is_tree_kind(stave_detail::tree_kind<std::remove_cvref_t<T>>);

}  // namespace stave
