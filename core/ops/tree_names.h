// The names of the tensors in a tree, which files and error messages use.
#pragma once

#include <concepts>
#include <iterator>
#include <string>
#include <string_view>
#include <type_traits>

#include <stave/core/ops/tree.h>

namespace stave {

/// Calls f(name, tensor) on every tensor of a tree, in the order of visit_tensors.
///
/// A name is a path such as "layers/1/w". Its parts are keys for maps, and positions from 0
/// elsewhere: elements of sequences and tuples, and members in the order of declaration, where
/// members that hold no tensors count too. A struct with a `static constexpr const char* names[]`,
/// one for each member, uses these names. Optionals, variants and smart pointers add nothing
/// to the path. A tree that is a single tensor has the name "0".
///
/// Keys of maps are strings or integers. A key may contain "/" only if the map's values are
/// tensors.
template <class T, class F>
void visit_named_tensors(T& tree, F&& f);

}  // namespace stave

namespace stave_detail {

[[noreturn]] void fail_name_key(std::string_view key, const char* fault);

inline std::string path_below(const std::string& name, const std::string& key) {
  return name.empty() ? key : name + "/" + key;
}

// Whether a node of this kind adds nothing to names: it holds at most one tree, which has the same
// name as the node.
constexpr bool is_transparent(TreeKind kind) {
  return kind == TreeKind::optional || kind == TreeKind::variant || kind == TreeKind::unique ||
         kind == TreeKind::shared;
}

// Whether a tree of this type is one tensor or none, so that its name has no further parts.
template <class T>
constexpr bool is_leaf() {
  constexpr TreeKind kind = tree_kind<T>;
  if constexpr (is_transparent(kind))
    return []<class... Held>(Types<Held...>) {
      return (is_leaf<Held>() && ...);
    }(typename ContentsOf<std::remove_cv_t<T>>::type());
  else return kind == TreeKind::tensor || kind == TreeKind::key || !is_tree_kind(kind);
}

// Two ways to name the entries of maps. ExactKeys makes names by which a file can be read again,
// and rejects other keys. AnyKeys makes names for people.
struct ExactKeys {
  static std::string leaf(const std::string& path) { return path.empty() ? "0" : path; }
  template <class K>
  static std::string name(const K& key, bool whole);
};
struct AnyKeys {
  static const std::string& leaf(const std::string& path) { return path; }
  template <class K>
  static std::string name(const K& key, bool) {
    if constexpr (std::integral<K>) return std::to_string(key);
    else if constexpr (std::is_convertible_v<const K&, std::string_view>) return std::string(std::string_view(key));
    else return "?";
  }
};

template <class K>
std::string ExactKeys::name(const K& key, bool whole) {
  static_assert(std::is_convertible_v<const K&, std::string_view> || std::integral<K>,
                "stave: the keys of a map in a file are strings or integers");
  if constexpr (std::integral<K>) return std::to_string(key);
  else {
    const std::string_view text = key;
    if (text.empty()) fail_name_key(text, "is empty");
    if (text.find('\0') != text.npos) fail_name_key(text, "holds a zero byte");
    if (!whole && text.find('/') != text.npos) fail_name_key(text, "holds '/', which separates the parts of names");
    return std::string(text);
  }
}

// A struct with an array `names`, which names its members.
template <class T>
concept NamesMembers = tree_kind<T> == TreeKind::aggregate && requires {
  std::string_view(T::names[0]);
  requires std::is_array_v<decltype(T::names)> && !std::is_member_pointer_v<decltype(&T::names)>;
};

template <class T>
std::string child_name(std::size_t i) {
  if constexpr (NamesMembers<T>) {
    static_assert(std::size(T::names) == member_count<T>, "stave: `names` of a struct must name each of its members");
    return T::names[i];
  } else return std::to_string(i);
}

// Calls f(child, name) on each direct child of a tree whose children are numbered or named members.
template <class T, class F>
void visit_numbered(T& tree, const std::string& name, F&& f) {
  std::size_t next = 0;
  visit_children(tree, [&](auto& child) { f(child, path_below(name, child_name<std::remove_const_t<T>>(next++))); });
}

template <class Keys, class T, class F>
void visit_named(T& tree, const std::string& name, F& f) {
  constexpr TreeKind kind = tree_kind<T>;
  if constexpr (kind == TreeKind::tensor) f(Keys::leaf(name), tree);
  else if constexpr (kind == TreeKind::key) {
    if constexpr (visits_keys<F>) f(Keys::leaf(name), key_data(tree));
  } else if constexpr (is_transparent(kind))
    visit_children(tree, [&](auto& child) { visit_named<Keys>(child, name, f); });
  else if constexpr (kind == TreeKind::map)
    visit_entries(tree, [&]<class V>(const auto& key, V& value) {
      visit_named<Keys>(value, path_below(name, Keys::name(key, is_leaf<V>())), f);
    });
  else if constexpr (is_tree_kind(kind))
    visit_numbered(tree, name, [&](auto& child, const std::string& below) { visit_named<Keys>(child, below, f); });
  else check_no_hidden_tensors<std::remove_cv_t<T>>();
}

}  // namespace stave_detail

namespace stave {

template <class T, class F>
void visit_named_tensors(T& tree, F&& f) {
  static_assert(is_tree<T>, "stave: visit_named_tensors of a type that is not a tree (see stave/core/ops/tree.h)");
  stave_detail::visit_named<stave_detail::ExactKeys>(tree, "", f);
}

}  // namespace stave
