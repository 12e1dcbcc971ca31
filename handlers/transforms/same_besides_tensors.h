// Compares the parts of arguments other than tensors, on which a recording depends.
// They are compared by ==, or by TreeTraits<T>::same if T has TreeTraits. Floating numbers are
// equal if they have the same value and sign, and all NaNs are equal. Views, C strings and arrays
// are compared by their contents, functions by their address.
#pragma once

#include <algorithm>
#include <bit>
#include <memory>
#include <typeinfo>
#include <vector>

#include <stave/handlers/transforms/arguments.h>
#include <stave/handlers/transforms/stored_arguments.h>

namespace stave_detail {

/// Returns true if values of this type can be compared by ==. It is false for pointers, because the
/// value behind one may change, except for pointers to functions. It is true for an empty class,
/// whose values are equal.
template <class T>
constexpr bool comparable_by_value() {
  if constexpr (std::is_pointer_v<T>) return std::is_function_v<std::remove_pointer_t<T>>;
  else return std::is_empty_v<T> || requires(const T& a) { bool(a == a); };
}

/// Returns true if same_besides_tensors can compare two trees of type T: all parts other than
/// tensors and keys can be compared by ==, or belong to a type whose TreeTraits define `same`.
/// `Outer`: the types that contain T. They end the recursion if a type contains itself.
template <class T, class... Outer>
constexpr bool comparable_besides_tensors() {
  constexpr TreeKind kind = tree_kind<T>;
  if constexpr (kind == TreeKind::tensor || kind == TreeKind::key || (std::is_same_v<T, Outer> || ...)) return true;
  else if constexpr (std::is_array_v<T>) return comparable_besides_tensors<std::remove_cv_t<std::remove_extent_t<T>>>();
  else if constexpr (!is_tree_kind(kind)) return comparable_by_value<T>();
  else if constexpr (kind == TreeKind::custom) return requires(const T& a) { bool(TreeTraits<T>::same(a, a)); };
  else
    return []<class... Held>(Types<Held...>) {
      return (comparable_besides_tensors<std::remove_cv_t<Held>, T, Outer...>() && ...);
    }(typename ContentsOf<T>::type());
}

template <class T>
bool same_besides_tensors(const T& a, const T& b) {
  constexpr TreeKind kind = tree_kind<T>;
  if constexpr (kind == TreeKind::tensor || kind == TreeKind::key) {
    return true;
  } else if constexpr (std::is_arithmetic_v<T>) {
    return same_number(a, b);
  } else if constexpr (std::is_array_v<T>) {
    return same_parts(a, b, same_key<int>, [](const auto& x, const auto& y) { return same_besides_tensors(x, y); });
  } else if constexpr (!is_tree_kind(kind)) {
    constexpr bool comparable = comparable_by_value<T>();
    static_assert(comparable,
                  "stave: compile: an argument, or a member of one, is not a tensor and cannot be compared by == (or "
                  "is a pointer, whose target may change): let the function capture it");
    if constexpr (!comparable) return false;
    else if constexpr (std::is_empty_v<T>) return true;
    else return bool(a == b);
  } else if constexpr (kind == TreeKind::custom) {
    constexpr bool comparable = requires { bool(TreeTraits<T>::same(a, b)); };
    static_assert(comparable,
                  "stave: compile: of an argument visited by TreeTraits only the tensors are seen: add `static bool "
                  "same(const T&, "
                  "const T&)` to the traits, which says whether two are equal but for their tensors");
    if constexpr (comparable) return tree_leaves(a).size() == tree_leaves(b).size() && bool(TreeTraits<T>::same(a, b));
    else return false;
  } else {
    return same_parts(
        a, b, [](const auto& x, const auto& y) { return same_key(x, y); },
        [](const auto& x, const auto& y) { return same_besides_tensors(x, y); });
  }
}

template <class T>
bool same_as_stored(const T& stored, const T& argument) {
  return same_besides_tensors(stored, argument);
}
template <class T>
bool same_as_stored(const StoredFunction<T>& stored, T& argument) {
  return stored.shows(argument);
}
template <class T, std::size_t size>
bool same_as_stored(const StoredArray<T, size>& stored, const T (&argument)[size]) {
  return same_besides_tensors(stored.elements(), argument);
}
template <class C, class Traits>
bool same_as_stored(const StoredText<C, Traits>& stored,
                    std::type_identity_t<std::basic_string_view<C, Traits>> argument) {
  return stored.shows(argument);
}
inline bool same_as_stored(const StoredCString& stored, const char* argument) { return stored.shows(argument); }
template <class T, std::size_t extent>
bool same_as_stored(const StoredSpan<T, extent>& stored, std::type_identity_t<std::span<const T, extent>> argument) {
  return std::equal(stored.elements().begin(), stored.elements().end(), argument.begin(), argument.end(),
                    [](const T& a, const T& b) { return same_besides_tensors(a, b); });
}

/// The arguments of a call, without their tensors.
struct StaticArguments {
  virtual ~StaticArguments() = default;
};

template <class... T>
struct StaticArgumentsOf final : StaticArguments {
  std::tuple<StoredArgument<T>...> kept;
  explicit StaticArgumentsOf(const T&... arguments) : kept(without_tensors(arguments)...) {}

  static bool same(const StaticArguments& kept, const T&... arguments) {
    if (typeid(kept) != typeid(StaticArgumentsOf)) return false;
    return std::apply([&](const auto&... k) { return (same_as_stored(k, arguments) && ...); },
                      static_cast<const StaticArgumentsOf&>(kept).kept);
  }

 private:
  template <class A>
  static StoredArgument<A> without_tensors(const A& argument) {
    if constexpr (is_tree<A>) {
      A structure = copy_tree(argument);
      PutLeaves put{nullptr};
      put_leaves<true>(structure, put);
      return structure;
    } else {
      return argument;
    }
  }
};

}  // namespace stave_detail
