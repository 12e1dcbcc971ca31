// Recordable values: effects and answers that a recording copies and compares, and whose tensors
// it replaces.
//
// Recordable are numbers and enumerations; tensors; strings, containers, std::optional, variant,
// pair, tuple and complex of recordable types; and aggregates of up to 32 recordable members.
// Other classes are recordable if they have == and are trivially copyable, or if stave::TreeTraits
// (core/ops/tree.h) says that they hold no tensors. Not recordable are pointers, references and
// views, whose targets may change or end, and classes whose members are not visible. An aggregate
// with an anonymous union cannot be decomposed, and does not compile without TreeTraits. Whether a
// type is recordable depends on the type alone, not on the included headers: a type that holds
// tensors cannot be written without the header of Tensor, which specialises TensorOf.
#pragma once

#include <algorithm>
#include <any>
#include <cmath>
#include <concepts>
#include <cstring>
#include <iterator>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <stave/core/effects/function_ref.h>
#include <stave/core/effects/members.h>

namespace stave {

class Tensor;  // tensor.h

template <class T>
struct TreeTraits;  // tree_kind.h

}  // namespace stave

namespace stave_detail {

using namespace stave;

/// The header of each tensor type specialises this template with `static Tensor& of(T&)`.
template <class T>
struct TensorOf;

enum class KeptKind { none, tensor, number, empty, equal, complex, range, map, optional, variant, tuple, aggregate };

template <class... T>
struct KeptParts {};  // the types of the parts of a value, which is recordable if all of them are

template <KeptKind given, class... T>
struct KeptAs {
  static constexpr KeptKind kind = given;
  using Contents = KeptParts<T...>;
};
template <class... T>
using KeptAggregate = KeptAs<KeptKind::aggregate, T...>;

// ---- classification of types --------------------------------------------------------------------

template <class T>
using KeptElement = std::remove_cvref_t<decltype(*std::begin(std::declval<const T&>()))>;

// A container that owns its elements, unlike std::span and std::string_view.
template <class T>
concept OwnsElements = requires(T& t, const T& c) {
  std::end(c);
  requires !std::is_same_v<KeptElement<T>, T>;
  requires(requires { typename T::allocator_type; }) ||
              (!std::is_const_v<std::remove_reference_t<decltype(*std::begin(t))>> &&
               std::is_const_v<std::remove_reference_t<decltype(*std::begin(c))>>);
};
template <class T>
concept Hashes = requires { typename T::hasher; };
// A map whose entries have an order: the map's own, or that of its keys if the map hashes.
template <class T>
concept OrderedMap = requires(const T& c) {
  typename T::mapped_type;
  std::begin(c)->second;
} && (!Hashes<T> || requires(const T& c, const typename T::key_type& key) {
                       c.at(key);
                       bool(key < key);
                     });

template <class T>
struct KnownKept : KeptAs<KeptKind::none> {};
template <class T>
struct KnownKept<std::optional<T>> : KeptAs<KeptKind::optional, T> {};
template <class... T>
struct KnownKept<std::variant<T...>> : KeptAs<KeptKind::variant, T...> {};
template <class... T>
struct KnownKept<std::tuple<T...>> : KeptAs<KeptKind::tuple, T...> {};
template <class A, class B>
struct KnownKept<std::pair<A, B>> : KeptAs<KeptKind::tuple, A, B> {};
// std::complex, and any type that consists of a real and an imaginary part.
// (The header <complex> would include all streams.)
template <class T>
  requires requires(const T& z) {
    { z.real() } -> std::floating_point;
    { z.imag() } -> std::floating_point;
    requires std::is_trivially_copyable_v<T> && sizeof(T) == 2 * sizeof(z.real());
  }
struct KnownKept<T> : KeptAs<KeptKind::complex> {};

template <class T>
constexpr bool has_few_members() {
  if constexpr (has_base<T>) return false;
  else return member_count<T> <= most_members;
}

template <class T>
constexpr auto kept_class() {
  constexpr bool compares = requires(const T& a) { bool(a == a); };
  if constexpr (!std::is_copy_constructible_v<T>) return KeptAs<KeptKind::none>();
  else if constexpr (KnownKept<T>::kind != KeptKind::none) return KnownKept<T>();
  else if constexpr (requires(T& t) { TreeTraits<T>::visit(t, [](auto&) {}); }) return KeptAs<KeptKind::none>();
  else if constexpr (requires { sizeof(TreeTraits<T>); })
    return KeptAs < compares ? KeptKind::equal : KeptKind::none > ();
  else if constexpr (OrderedMap<T>) return KeptAs<KeptKind::map, typename T::key_type, typename T::mapped_type>();
  else if constexpr (requires(const T& c) { std::begin(c); })
    return KeptAs < OwnsElements<T> && !Hashes<T> ? KeptKind::range : KeptKind::none, KeptElement < T >> ();
  else if constexpr (std::is_empty_v<T>) return KeptAs<KeptKind::empty>();
  // A pointer-like type.
  else if constexpr (requires(const T& a) { *a; }) return KeptAs<KeptKind::none>();
  else if constexpr (std::is_aggregate_v<T> && !std::is_union_v<T>) {
    // An aggregate with a reference or a constant member cannot be assigned.
    if constexpr (!std::is_move_assignable_v<T>) return KeptAs<KeptKind::none>();
    else if constexpr (!has_few_members<T>()) return KeptAs<KeptKind::none>();
    else return MemberTypes<T, KeptAggregate>();
  } else {
    return KeptAs < compares && std::is_trivially_copyable_v<T> ? KeptKind::equal : KeptKind::none > ();
  }
}

template <class T>
struct KeptNode : KeptAs<std::is_arithmetic_v<T> || std::is_enum_v<T> ? KeptKind::number : KeptKind::none> {};
template <class T>
  requires(requires { sizeof(TensorOf<T>); })
struct KeptNode<T> : KeptAs<KeptKind::tensor> {};
template <class T, std::size_t n>
struct KeptNode<T[n]> : KeptAs<KeptKind::range, T> {};
template <class T>
  requires((std::is_class_v<T> || std::is_union_v<T>) && !requires { sizeof(TensorOf<T>); })
struct KeptNode<T> : decltype(kept_class<T>()) {};

/// Returns true if values of type T are recordable. `Outer`: the types that contain T, which may
/// contain themselves.
template <class T, class... Outer>
constexpr bool is_kept() {
  if constexpr ((std::is_same_v<T, Outer> || ...)) return true;
  else if constexpr (KeptNode<T>::kind == KeptKind::none) return false;
  else
    return []<class... H>(KeptParts<H...>) {
      return (is_kept<H, T, Outer...>() && ...);
    }(typename KeptNode<T>::Contents());
}

/// Returns true if values of type T may hold tensors.
template <class T, class... Outer>
constexpr bool keeps_tensors() {
  if constexpr ((std::is_same_v<T, Outer> || ...)) return false;
  else if constexpr (KeptNode<T>::kind == KeptKind::tensor) return true;
  else
    return []<class... H>(KeptParts<H...>) {
      return (keeps_tensors<H, T, Outer...>() || ...);
    }(typename KeptNode<T>::Contents());
}

// ---- operations on recordable values ------------------------------------------------------------

// Pointers to the entries of a map, sorted by key.
template <class M>
auto kept_entries(const M& map) {
  std::vector<const typename M::value_type*> entries;
  for (const auto& entry : map) entries.push_back(&entry);
  if constexpr (Hashes<M>)
    std::sort(entries.begin(), entries.end(), [](const auto* a, const auto* b) { return a->first < b->first; });
  return entries;
}

// Calls f(members...) with the members of a tuple or an aggregate.
template <class T, class F>
decltype(auto) with_kept_members(const T& value, F&& f) {
  if constexpr (KeptNode<T>::kind == KeptKind::tuple) return std::apply(f, value);
  else return with_members(value, f);
}

/// Calls f on each tensor of a value, in a fixed order.
template <class T>
void visit_kept([[maybe_unused]] const T& value, [[maybe_unused]] FunctionRef<void(Tensor&)> f) {
  constexpr KeptKind kind = KeptNode<T>::kind;
  if constexpr (!keeps_tensors<T>()) return;
  else if constexpr (kind == KeptKind::tensor)
    f(TensorOf<T>::of(const_cast<T&>(value)));  // the value itself is not const
  else if constexpr (kind == KeptKind::range)
    for (const auto& element : value) visit_kept(element, f);
  else if constexpr (kind == KeptKind::map)
    for (const auto* entry : kept_entries(value)) visit_kept(entry->second, f);
  else if constexpr (kind == KeptKind::optional) value ? visit_kept(*value, f) : void();
  else if constexpr (kind == KeptKind::variant) std::visit([&](const auto& held) { visit_kept(held, f); }, value);
  else with_kept_members(value, [&](const auto&... members) { (visit_kept(members, f), ...); });
}

template <class T>
bool same_number(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return a == b ? std::signbit(a) == std::signbit(b) : a != a && b != b;
  else return a == b;
}

/// Returns true if two values are the same apart from their tensors. They are compared by ==;
/// floating-point numbers also by their sign, and NaN equals NaN.
template <class T>
bool same_kept([[maybe_unused]] const T& a, [[maybe_unused]] const T& b) {
  constexpr KeptKind kind = KeptNode<T>::kind;
  if constexpr (kind == KeptKind::tensor || kind == KeptKind::empty) return true;
  else if constexpr (kind == KeptKind::number) return same_number(a, b);
  else if constexpr (kind == KeptKind::complex)
    return same_number(a.real(), b.real()) && same_number(a.imag(), b.imag());
  else if constexpr (kind == KeptKind::equal) {
    // == does not suffice for sixteen-bit floats, as for other floats: -0 equals 0, and NaN differs
    // from itself.
    if constexpr (std::has_unique_object_representations_v<T>) return std::memcmp(&a, &b, sizeof(T)) == 0;
    else return bool(a == b);
  } else if constexpr (kind == KeptKind::range) {
    return std::equal(std::begin(a), std::end(a), std::begin(b), std::end(b),
                      [](const KeptElement<T>& x, const KeptElement<T>& y) { return same_kept(x, y); });
  } else if constexpr (kind == KeptKind::map) {
    const auto of_a = kept_entries(a), of_b = kept_entries(b);
    return std::equal(of_a.begin(), of_a.end(), of_b.begin(), of_b.end(), [](const auto* x, const auto* y) {
      return same_kept(x->first, y->first) && same_kept(x->second, y->second);
    });
  } else if constexpr (kind == KeptKind::optional) {
    return bool(a) == bool(b) && (!a || same_kept(*a, *b));
  } else if constexpr (kind == KeptKind::variant) {
    return a.index() == b.index() && std::visit(
                                         []<class A, class B>(const A& x, const B& y) {
                                           if constexpr (std::is_same_v<A, B>) return same_kept(x, y);
                                           else return false;
                                         },
                                         a, b);
  } else {
    return with_kept_members(a, [&](const auto&... x) {
      return with_kept_members(b, [&](const auto&... y) { return (same_kept(x, y) && ...); });
    });
  }
}

}  // namespace stave_detail
