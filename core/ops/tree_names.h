// The names of the tensors in a tree: in files, and in errors.
#pragma once

#include <concepts>
#include <iterator>
#include <string>
#include <string_view>
#include <type_traits>

#include <stave/core/ops/tree.h>

namespace stave {

/// Calls f(name, tensor) on every tensor of a tree, in the order of visit_tensors. Names are paths: "layers/1/w", of the keys
/// of maps, and of positions, from 0, everywhere else: elements of sequences and tuples, members as declared (others than
/// tensors count, too), by name if the struct has a `static constexpr const char* names[]` of one for each. Optionals, variants
/// and smart pointers add nothing to the path; a tree that is one tensor has the name "0". Keys of maps are strings or integers;
/// they may hold "/" only where the map's values are tensors.
template <class T, class F>
void visit_named_tensors(T& tree, F&& f);

}  // namespace stave

namespace stave_detail {

[[noreturn]] void fail_name_key(std::string_view key, const char* fault);

inline std::string path_below(const std::string& name, const std::string& key) {
  return name.empty() ? key : name + "/" + key;
}

// Optional, variant and pointer nodes: they hold one tree, or none, of the same name.
constexpr bool is_transparent(TreeKind kind) {
  return kind == TreeKind::optional || kind == TreeKind::variant || kind == TreeKind::unique ||
         kind == TreeKind::shared;
}

// Whether a tree of this type is one tensor or none, and its name has no more parts.
template <class T>
constexpr bool is_leaf() {
  constexpr TreeKind kind = tree_kind<T>;
  if constexpr (is_transparent(kind))
    return []<class... Held>(Types<Held...>) {
      return (is_leaf<Held>() && ...);
    }(typename ContentsOf<std::remove_cv_t<T>>::type());
  else return kind == TreeKind::tensor || kind == TreeKind::key || !is_tree_kind(kind);
}

// How entries of maps are named: so that files can be read again, or for people.
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

// A struct that names its members.
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

// f(child, name) on all that is directly inside a tree of numbered or named children.
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
  else check_passed_over<std::remove_cv_t<T>>();
}

}  // namespace stave_detail

namespace stave {

template <class T, class F>
void visit_named_tensors(T& tree, F&& f) {
  static_assert(is_tree<T>, "stave: visit_named_tensors of a type that is not a tree (see stave/core/ops/tree.h)");
  stave_detail::visit_named<stave_detail::ExactKeys>(tree, "", f);
}

}  // namespace stave
