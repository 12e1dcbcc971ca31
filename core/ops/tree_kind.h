// TreeKind: decides for each type whether it is a tree (tree.h), and so whether transforms look
// into it.
//
//   tensor, key, custom, range, map, optional, unique, shared, variant, tuple, aggregate
//             trees: their contents are visited
//   none      numbers, strings, functions, streams: they hold no tensors and are skipped
//   unreachable
//             types that lead, or may lead, to tensors that transforms cannot reach or cannot
//             replace: Tensor*, std::reference_wrapper, std::span, std::set, std::any,
//             std::weak_ptr, any other template with a tree as an argument. Inside a tree they do
//             not compile.
//   opaque    classes with private members, which may hold tensors. Inside a tree they do not
//             compile. As arguments they pass through transforms, as captured values do.
//
// The kind of an aggregate does not depend on its members, so that types may be recursive.
// `Contains` looks into the members.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>

#include <stave/core/effects/parts.h>
#include <stave/core/ops/random.h>
#include <stave/core/tensor/tensor.h>

namespace stave {

/// The customisation point: specialise it with a static `visit(tree, f)` that calls f on each tree
/// inside. An empty specialisation declares that a class holds no tensors.
template <class T>
struct TreeTraits;

}  // namespace stave

namespace stave_detail {

using namespace stave;

enum class TreeKind {
  none,
  range = int(PartsKind::range),
  map = int(PartsKind::map),
  optional = int(PartsKind::optional),
  unique = int(PartsKind::unique),
  shared = int(PartsKind::shared),
  variant = int(PartsKind::variant),
  tuple = int(PartsKind::tuple),
  aggregate = int(PartsKind::aggregate),
  tensor,
  key,
  custom,
  unreachable,
  opaque
};

constexpr bool is_tree_kind(TreeKind kind) { return kind != TreeKind::none && kind < TreeKind::unreachable; }

template <TreeKind given>
struct Is {
  static constexpr TreeKind kind = given;
  using Contents = Types<>;
};

template <class T>
struct TreeNode;
template <class T>
inline constexpr TreeKind tree_kind = TreeNode<std::remove_cv_t<T>>::kind;

// The kind of a type that holds values of the types `Held`. It is `kind` if one of them is a tree
// or unreachable, else `opaque` if one of them is opaque, else `none`.
template <class... Held>
constexpr TreeKind kind_over(TreeKind kind) {
  if (((is_tree_kind(tree_kind<Held>) || tree_kind<Held> == TreeKind::unreachable) || ...)) return kind;
  return ((tree_kind<Held> == TreeKind::opaque) || ...) ? TreeKind::opaque : TreeKind::none;
}

template <TreeKind given, class... Held>
struct NodeOver {
  static constexpr TreeKind kind = kind_over<Held...>(given);
  using Contents = Types<Held...>;
};

// These are classes instead of a lambda, which clang 14 cannot take out of a precompiled header.
template <TreeKind given, class Held>
struct NodeOverTypes;
template <TreeKind given, class... Held>
struct NodeOverTypes<given, Types<Held...>> : NodeOver<given, std::remove_reference_t<Held>...> {};
template <class T>
struct NodeOverParts : NodeOverTypes<static_cast<TreeKind>(PartsOf<T>::kind), typename PartsOf<T>::Types> {};

// ---- class templates that have no kind of their own ---------------------------------------------

// False for template arguments that cannot hold a tensor because they are stateless, as std::less.
template <class A>
inline constexpr bool is_stateful = std::is_object_v<A> && !requires { requires std::is_empty_v<A>; };
template <class A>
using ArgumentOf = std::conditional_t<is_stateful<A>, std::remove_extent_t<A>, std::nullptr_t>;
// The kind of an instance of a class template that has no kind of its own, such as
// std::stack<Tensor> or std::reference_wrapper<Tensor>. It follows from the template arguments.
template <class T>
struct ByArguments : NodeOver<TreeKind::none> {};
template <template <class...> class Template, class... A>
struct ByArguments<Template<A...>> : NodeOver<TreeKind::unreachable, ArgumentOf<A>...> {};

// A range whose elements can be assigned and belong to it. std::set fails the first condition,
// std::span the second.
template <class T>
concept OwningRange =
    std::is_lvalue_reference_v<ReferenceOf<T>> && !std::is_const_v<std::remove_reference_t<ReferenceOf<T>>> &&
    std::is_const_v<std::remove_reference_t<ReferenceOf<const T>>>;

// ---- other types ----------------------------------------------------------------------------

template <class T>
constexpr std::string_view name_of_type() {
  const std::string_view function = __PRETTY_FUNCTION__;
  const std::size_t begin = function.find("T = ") + 4;
  return function.substr(begin, function.find_first_of(";]", begin) - begin);
}
// Whether T is a class of the standard library. Except for std::any, such a class holds tensors
// only by its template arguments.
template <class T>
constexpr bool is_standard() {
  return name_of_type<T>().starts_with("std::") || name_of_type<T>().starts_with("__gnu_cxx::");
}

// Whether T is trivially copyable, so that it holds no tensors, but has a base class or too many
// members, so that with_members cannot decompose it.
template <class T>
constexpr bool is_unwalkable_data() {
  if constexpr (std::is_trivially_copyable_v<T>) return has_base<T> || member_count<T> > most_members;
  else return false;
}

template <class T>
constexpr auto node_of_class() {
  if constexpr (!requires { sizeof(T); }) return std::type_identity<Is<TreeKind::opaque>>();
  else if constexpr (requires(T& t) { TreeTraits<T>::visit(t, [](auto&) {}); })
    return std::type_identity<Is<TreeKind::custom>>();
  else if constexpr (requires { sizeof(TreeTraits<T>); }) return std::type_identity<Is<TreeKind::none>>();
  else if constexpr (PartsOf<T>::kind == PartsKind::aggregate)
    return std::type_identity<Is<is_unwalkable_data<T>() ? TreeKind::none : TreeKind::aggregate>>();
  else if constexpr (PartsOf<T>::kind == PartsKind::range && !OwningRange<T>)
    return std::type_identity<NodeOver<TreeKind::unreachable, ElementOf<T>>>();
  else if constexpr (PartsOf<T>::kind != PartsKind::none) return std::type_identity<NodeOverParts<T>>();
  else if constexpr (std::is_base_of_v<Tensor, T> || name_of_type<T>() == "std::any")
    return std::type_identity<NodeOver<TreeKind::unreachable, Tensor>>();
  else if constexpr (std::is_empty_v<T>) return std::type_identity<Is<TreeKind::none>>();
  else if constexpr (ByArguments<T>::kind != TreeKind::none) return std::type_identity<ByArguments<T>>();
  else if constexpr (std::is_trivially_copyable_v<T> || is_standard<T>())
    return std::type_identity<Is<TreeKind::none>>();
  else return std::type_identity<Is<TreeKind::opaque>>();
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
struct TreeNode<T*> : NodeOver<TreeKind::unreachable, T> {};
template <class T, std::size_t n>
struct TreeNode<T[n]> : NodeOverParts<T[n]> {};

// ---- contents -------------------------------------------------------------------------------

template <class T>
struct ContentsOf : std::type_identity<typename TreeNode<T>::Contents> {};
template <class T>
  requires(tree_kind<T> == TreeKind::aggregate)
struct ContentsOf<T> : std::type_identity<MembersOf<T>> {};

/// Whether a tree of type T contains a node of one of these kinds, at any depth.
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

/// Whether a tree of type T may hold tensors at all.
template <class T>
inline constexpr bool holds_tensors = Contains<TreeKind::tensor, TreeKind::key, TreeKind::custom>::template in<T>();

}  // namespace stave_detail

namespace stave {

/// True for the types in which transforms look for tensors; see tree.h. An aggregate counts
/// as a tree regardless of its members.
template <class T>
inline constexpr bool is_tree = stave_detail::is_tree_kind(stave_detail::tree_kind<std::remove_cvref_t<T>>);

}  // namespace stave
