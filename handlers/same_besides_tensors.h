// What of an argument a recording depends on besides its tensors: compared by ==, floating numbers bit for bit.
#pragma once

#include <bit>
#include <memory>
#include <typeinfo>
#include <vector>

#include <stave/handlers/arguments.h>

namespace stave_detail {

/// Whether trees of type T can be compared so.
template <class T, class... Above>
constexpr bool comparable_besides_tensors() {
  constexpr TreeKind kind = tree_kind<T>;
  if constexpr (kind == TreeKind::tensor || kind == TreeKind::key || (std::is_same_v<T, Above> || ...)) return true;
  else if constexpr (!is_tree_kind(kind)) return requires(const T& a) { bool(a == a); } && !std::is_pointer_v<T>;
  else if constexpr (kind == TreeKind::custom) return requires(const T& a) { bool(TreeTraits<T>::same(a, a)); };
  else
    return []<class... Held>(Types<Held...>) {
      return (comparable_besides_tensors<std::remove_cv_t<Held>, T, Above...>() && ...);
    }(typename ContentsOf<T>::type());
}

template <class T>
bool same_besides_tensors(const T& a, const T& b) {
  constexpr TreeKind kind = tree_kind<T>;
  if constexpr (kind == TreeKind::tensor || kind == TreeKind::key) {
    return true;
  } else if constexpr (std::is_floating_point_v<T>) {
    return a == b ? std::signbit(a) == std::signbit(b) : a != a && b != b;
  } else if constexpr (!is_tree_kind(kind)) {
    constexpr bool comparable = requires { bool(a == b); } && !std::is_pointer_v<T>;
    static_assert(
        comparable,
        "stave: compile: an argument, or a member of one, is no tensor and cannot be compared by == (or is a pointer, "
        "behind which all may change): let the function capture it");
    if constexpr (comparable) return bool(a == b);
    else return false;
  } else if constexpr (kind == TreeKind::custom) {
    constexpr bool comparable = requires { bool(TreeTraits<T>::same(a, b)); };
    static_assert(comparable,
                  "stave: compile: of an argument visited by TreeTraits only the tensors are seen: add `static bool "
                  "same(const T&, "
                  "const T&)` to the traits, which says whether two are equal but for their tensors");
    if constexpr (comparable) return bool(TreeTraits<T>::same(a, b));
    else return false;
  } else {
    if (!same_structure(a, b)) return false;
    std::vector<const void*> others;
    visit_children(b, [&](const auto& child) { others.push_back(std::addressof(child)); });
    bool same = true;
    std::size_t next = 0;
    visit_children(a, [&]<class C>(const C& child) {
      const void* const other = others[next++];
      same = same && same_besides_tensors(child, *static_cast<const C*>(other));
    });
    return same;
  }
}

/// The arguments of a call, without their tensors.
struct StaticArguments {
  virtual ~StaticArguments() = default;
};

template <class... T>
struct StaticArgumentsOf final : StaticArguments {
  std::tuple<T...> kept;
  explicit StaticArgumentsOf(const T&... arguments) : kept(without_tensors(arguments)...) {}

  static bool same(const StaticArguments& kept, const T&... arguments) {
    if (typeid(kept) != typeid(StaticArgumentsOf)) return false;
    return std::apply([&](const auto&... k) { return (same_besides_tensors(k, arguments) && ...); },
                      static_cast<const StaticArgumentsOf&>(kept).kept);
  }

 private:
  template <class A>
  static A without_tensors(const A& argument) {
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
