// Recordable values: effects and answers that a recording copies and compares, and whose leaves
// it replaces.
//
// Leaves are the values that a layer above treats itself, such as arrays of numbers. These types
// are recordable: leaves; numbers and enumerations; strings, containers, std::optional, variant,
// pair, tuple and complex of recordable types; and aggregates of up to 32 recordable members. Other
// classes are recordable if they have == and are trivially copyable, or if stave::TreeTraits
// (core/ops/tree.h) says that they hold no leaves. Pointers, references and views are not
// recordable, since their targets may change or end; nor are classes with private members. An
// aggregate with an anonymous union cannot be decomposed, and does not compile without TreeTraits.
// Whether a type is recordable depends on the type alone, not on the included headers: a type that
// holds leaves cannot be written without the header of the leaf's type, which specialises LeafOf.
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

template <class T>
struct TreeTraits;  // tree_kind.h

}  // namespace stave

namespace stave_detail {

using namespace stave;

/// The header of each type of leaves specialises this template with a function `of(T&)`, which
/// returns a reference to the leaf. All leaves of a program are of one type.
template <class T>
struct LeafOf;

/// A reference to a leaf. It converts to a reference to the type that LeafOf<T>::of returns.
class Leaf {
 public:
  template <class L>
    requires(!std::is_same_v<std::remove_const_t<L>, Leaf>)
  explicit Leaf(L& leaf) noexcept : leaf_(&leaf) {}
  template <class L>
  operator L&() const noexcept {
    return *static_cast<L*>(leaf_);
  }

 private:
  void* leaf_;
};

enum class RecordableKind {
  none,
  leaf,
  number,
  empty,
  equal,
  complex,
  range,
  map,
  optional,
  variant,
  tuple,
  aggregate
};

template <class... T>
struct RecordableParts {};  // the types of a value's parts; the value is recordable if all are

template <RecordableKind given, class... T>
struct RecordableAs {
  static constexpr RecordableKind kind = given;
  using Contents = RecordableParts<T...>;
};
template <class... T>
using RecordableAggregate = RecordableAs<RecordableKind::aggregate, T...>;

// ---- classification of types --------------------------------------------------------------------

template <class T>
using RecordableElement = std::remove_cvref_t<decltype(*std::begin(std::declval<const T&>()))>;

// A container that owns its elements, unlike std::span and std::string_view.
template <class T>
concept OwnsElements = requires(T& t, const T& c) {
  std::end(c);
  requires !std::is_same_v<RecordableElement<T>, T>;
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
struct KnownRecordable : RecordableAs<RecordableKind::none> {};
template <class T>
struct KnownRecordable<std::optional<T>> : RecordableAs<RecordableKind::optional, T> {};
template <class... T>
struct KnownRecordable<std::variant<T...>> : RecordableAs<RecordableKind::variant, T...> {};
template <class... T>
struct KnownRecordable<std::tuple<T...>> : RecordableAs<RecordableKind::tuple, T...> {};
template <class A, class B>
struct KnownRecordable<std::pair<A, B>> : RecordableAs<RecordableKind::tuple, A, B> {};
// std::complex, and any type that consists of a real and an imaginary part. The concept makes the
// header <complex> unnecessary, which would include all streams.
template <class T>
  requires requires(const T& z) {
    { z.real() } -> std::floating_point;
    { z.imag() } -> std::floating_point;
    requires std::is_trivially_copyable_v<T> && sizeof(T) == 2 * sizeof(z.real());
  }
struct KnownRecordable<T> : RecordableAs<RecordableKind::complex> {};

template <class T>
constexpr bool has_few_members() {
  if constexpr (has_base<T>) return false;
  else return member_count<T> <= most_members;
}

template <class T>
constexpr auto recordable_class() {
  constexpr bool compares = requires(const T& a) { bool(a == a); };
  if constexpr (!std::is_copy_constructible_v<T>) return RecordableAs<RecordableKind::none>();
  else if constexpr (KnownRecordable<T>::kind != RecordableKind::none) return KnownRecordable<T>();
  else if constexpr (requires(T& t) { TreeTraits<T>::visit(t, [](auto&) {}); })
    return RecordableAs<RecordableKind::none>();
  else if constexpr (requires { sizeof(TreeTraits<T>); })
    return RecordableAs < compares ? RecordableKind::equal : RecordableKind::none > ();
  else if constexpr (OrderedMap<T>)
    return RecordableAs<RecordableKind::map, typename T::key_type, typename T::mapped_type>();
  else if constexpr (requires(const T& c) { std::begin(c); })
    return RecordableAs < OwnsElements<T> && !Hashes<T> ? RecordableKind::range : RecordableKind::none,
           RecordableElement < T >> ();
  else if constexpr (std::is_empty_v<T>) return RecordableAs<RecordableKind::empty>();
  // A pointer-like type.
  else if constexpr (requires(const T& a) { *a; }) return RecordableAs<RecordableKind::none>();
  else if constexpr (std::is_aggregate_v<T> && !std::is_union_v<T>) {
    // An aggregate with a reference or a constant member cannot be assigned.
    if constexpr (!std::is_move_assignable_v<T>) return RecordableAs<RecordableKind::none>();
    else if constexpr (!has_few_members<T>()) return RecordableAs<RecordableKind::none>();
    else return MemberTypes<T, RecordableAggregate>();
  } else {
    return RecordableAs < compares && std::is_trivially_copyable_v<T> ? RecordableKind::equal
                                                                      : RecordableKind::none > ();
  }
}

template <class T>
struct RecordableNode
    : RecordableAs<std::is_arithmetic_v<T> || std::is_enum_v<T> ? RecordableKind::number : RecordableKind::none> {};
template <class T>
  requires(requires { sizeof(LeafOf<T>); })
struct RecordableNode<T> : RecordableAs<RecordableKind::leaf> {};
template <class T, std::size_t n>
struct RecordableNode<T[n]> : RecordableAs<RecordableKind::range, T> {};
template <class T>
  requires((std::is_class_v<T> || std::is_union_v<T>) && !requires { sizeof(LeafOf<T>); })
struct RecordableNode<T> : decltype(recordable_class<T>()) {};

/// Returns true if values of type T are recordable. `Outer`: the types that contain T, which may
/// contain themselves.
template <class T, class... Outer>
constexpr bool is_recordable() {
  if constexpr ((std::is_same_v<T, Outer> || ...)) return true;
  else if constexpr (RecordableNode<T>::kind == RecordableKind::none) return false;
  else
    return []<class... H>(RecordableParts<H...>) {
      return (is_recordable<H, T, Outer...>() && ...);
    }(typename RecordableNode<T>::Contents());
}

/// Returns true if values of type T may hold leaves.
template <class T, class... Outer>
constexpr bool has_leaves() {
  if constexpr ((std::is_same_v<T, Outer> || ...)) return false;
  else if constexpr (RecordableNode<T>::kind == RecordableKind::leaf) return true;
  else
    return []<class... H>(RecordableParts<H...>) {
      return (has_leaves<H, T, Outer...>() || ...);
    }(typename RecordableNode<T>::Contents());
}

// ---- operations on recordable values ------------------------------------------------------------

// Pointers to the entries of a map, sorted by key.
template <class M>
auto sorted_entries(const M& map) {
  std::vector<const typename M::value_type*> entries;
  for (const auto& entry : map) entries.push_back(&entry);
  if constexpr (Hashes<M>)
    std::sort(entries.begin(), entries.end(), [](const auto* a, const auto* b) { return a->first < b->first; });
  return entries;
}

// Calls f(members...) with the members of a tuple or an aggregate.
template <class T, class F>
decltype(auto) with_recordable_members(const T& value, F&& f) {
  if constexpr (RecordableNode<T>::kind == RecordableKind::tuple) return std::apply(f, value);
  else return with_members(value, f);
}

/// Calls f on each leaf of a value, in a fixed order.
template <class T>
void visit_leaves([[maybe_unused]] const T& value, [[maybe_unused]] FunctionRef<void(Leaf)> f) {
  constexpr RecordableKind kind = RecordableNode<T>::kind;
  if constexpr (!has_leaves<T>()) return;
  else if constexpr (kind == RecordableKind::leaf)
    f(Leaf(LeafOf<T>::of(const_cast<T&>(value))));  // the value itself is not const
  else if constexpr (kind == RecordableKind::range)
    for (const auto& element : value) visit_leaves(element, f);
  else if constexpr (kind == RecordableKind::map)
    for (const auto* entry : sorted_entries(value)) visit_leaves(entry->second, f);
  else if constexpr (kind == RecordableKind::optional) value ? visit_leaves(*value, f) : void();
  else if constexpr (kind == RecordableKind::variant)
    std::visit([&](const auto& held) { visit_leaves(held, f); }, value);
  else with_recordable_members(value, [&](const auto&... members) { (visit_leaves(members, f), ...); });
}

template <class T>
bool same_number(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return a == b ? std::signbit(a) == std::signbit(b) : a != a && b != b;
  else return a == b;
}

/// Returns true if two values are the same apart from their leaves. They are compared by ==;
/// floating-point numbers also by their sign, and NaN equals NaN.
template <class T>
bool same_besides_leaves([[maybe_unused]] const T& a, [[maybe_unused]] const T& b) {
  constexpr RecordableKind kind = RecordableNode<T>::kind;
  if constexpr (kind == RecordableKind::leaf || kind == RecordableKind::empty) return true;
  else if constexpr (kind == RecordableKind::number) return same_number(a, b);
  else if constexpr (kind == RecordableKind::complex)
    return same_number(a.real(), b.real()) && same_number(a.imag(), b.imag());
  else if constexpr (kind == RecordableKind::equal) {
    // Bytes are compared where they determine the value, since == does not suffice for sixteen-bit
    // floats: -0 equals 0, and NaN differs from itself.
    if constexpr (std::has_unique_object_representations_v<T>) return std::memcmp(&a, &b, sizeof(T)) == 0;
    else return bool(a == b);
  } else if constexpr (kind == RecordableKind::range) {
    return std::equal(
        std::begin(a), std::end(a), std::begin(b), std::end(b),
        [](const RecordableElement<T>& x, const RecordableElement<T>& y) { return same_besides_leaves(x, y); });
  } else if constexpr (kind == RecordableKind::map) {
    const auto of_a = sorted_entries(a), of_b = sorted_entries(b);
    return std::equal(of_a.begin(), of_a.end(), of_b.begin(), of_b.end(), [](const auto* x, const auto* y) {
      return same_besides_leaves(x->first, y->first) && same_besides_leaves(x->second, y->second);
    });
  } else if constexpr (kind == RecordableKind::optional) {
    return bool(a) == bool(b) && (!a || same_besides_leaves(*a, *b));
  } else if constexpr (kind == RecordableKind::variant) {
    return a.index() == b.index() && std::visit(
                                         []<class A, class B>(const A& x, const B& y) {
                                           if constexpr (std::is_same_v<A, B>) return same_besides_leaves(x, y);
                                           else return false;
                                         },
                                         a, b);
  } else {
    return with_recordable_members(a, [&](const auto&... x) {
      return with_recordable_members(b, [&](const auto&... y) { return (same_besides_leaves(x, y) && ...); });
    });
  }
}

}  // namespace stave_detail
