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

#include <any>
#include <concepts>
#include <cstring>
#include <type_traits>
#include <utility>

#include <stave/core/effects/function_ref.h>
#include <stave/core/effects/parts.h>

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

enum class RecordableKind { none, leaf, number, empty, equal, complex, parts };

template <RecordableKind given, class... T>
struct RecordableAs {
  static constexpr RecordableKind kind = given;
  using Contents = Types<T...>;  // the types of the value's parts; it is recordable if all are
};

// ---- classification of types --------------------------------------------------------------------

// A container that owns its elements, unlike std::span and std::string_view.
template <class T>
concept OwnsElements =
    requires { typename T::allocator_type; } || (!std::is_const_v<std::remove_reference_t<ReferenceOf<T>>> &&
                                                 std::is_const_v<std::remove_reference_t<ReferenceOf<const T>>>);
// A map whose entries have an order: the map's own, or that of its keys if the map hashes.
template <class T>
concept OrderedMap =
    !Hashes<T> || (HashesOrdered<T> && requires(const T& c, const typename T::key_type& key) { c.at(key); });
// std::complex, and any type that consists of a real and an imaginary part. A concept recognises
// them, because the header <complex> would include all streams.
template <class T>
concept ComplexNumber = requires(const T& z) {
  { z.real() } -> std::floating_point;
  { z.imag() } -> std::floating_point;
  requires std::is_trivially_copyable_v<T> && sizeof(T) == 2 * sizeof(z.real());
};

template <class T>
constexpr bool has_few_members() {
  if constexpr (has_base<T>) return false;
  else return member_count<T> <= most_members;
}

// Calls of this function name its namespace, since the search by arguments would complete the types
// of members, such as those behind pointers.
template <class... T>
constexpr auto recordable_parts(Types<T...>) {
  return RecordableAs<RecordableKind::parts, T...>();
}

template <class T>
constexpr auto recordable_class() {
  constexpr bool compares = requires(const T& a) { bool(a == a); };
  constexpr PartsKind parts = PartsOf<T>::kind;
  constexpr RecordableAs<RecordableKind::none> none;
  if constexpr (!std::is_copy_constructible_v<T>) return none;
  else if constexpr (ComplexNumber<T>) return RecordableAs<RecordableKind::complex>();
  else if constexpr (requires(T& t) { TreeTraits<T>::visit(t, [](auto&) {}); }) return none;
  else if constexpr (requires { sizeof(TreeTraits<T>); })
    return RecordableAs < compares ? RecordableKind::equal : RecordableKind::none > ();
  else if constexpr (parts == PartsKind::map) {
    if constexpr (OrderedMap<T>)
      return RecordableAs<RecordableKind::parts, typename T::key_type, typename T::mapped_type>();
    else return none;
  } else if constexpr (parts == PartsKind::range) {
    if constexpr (OwnsElements<T> && !Hashes<T>) return stave_detail::recordable_parts(typename PartsOf<T>::Types());
    else return none;
  } else if constexpr (parts == PartsKind::optional || parts == PartsKind::variant || parts == PartsKind::tuple)
    return stave_detail::recordable_parts(typename PartsOf<T>::Types());
  else if constexpr (std::is_empty_v<T>) return RecordableAs<RecordableKind::empty>();
  // A pointer-like type.
  else if constexpr (requires(const T& a) { *a; }) return none;
  else if constexpr (parts == PartsKind::aggregate) {
    // An aggregate with a reference or a constant member cannot be assigned.
    if constexpr (!std::is_move_assignable_v<T>) return none;
    else if constexpr (!has_few_members<T>()) return none;
    else return stave_detail::recordable_parts(MembersOf<T>());
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
struct RecordableNode<T[n]> : RecordableAs<RecordableKind::parts, T> {};
template <class T>
  requires((std::is_class_v<T> || std::is_union_v<T>) && !requires { sizeof(LeafOf<T>); })
struct RecordableNode<T> : decltype(recordable_class<T>()) {};

/// Returns true if values of type T are recordable. `Outer`: the types that contain T. They end
/// the recursion if a type contains itself.
template <class T, class... Outer>
constexpr bool is_recordable() {
  if constexpr ((std::is_same_v<T, Outer> || ...)) return true;
  else if constexpr (RecordableNode<T>::kind == RecordableKind::none) return false;
  else
    return []<class... H>(Types<H...>) {
      return (is_recordable<H, T, Outer...>() && ...);
    }(typename RecordableNode<T>::Contents());
}

/// Returns true if values of type T may hold leaves.
template <class T, class... Outer>
constexpr bool has_leaves() {
  if constexpr ((std::is_same_v<T, Outer> || ...)) return false;
  else if constexpr (RecordableNode<T>::kind == RecordableKind::leaf) return true;
  else
    return []<class... H>(Types<H...>) {
      return (has_leaves<H, T, Outer...>() || ...);
    }(typename RecordableNode<T>::Contents());
}

// ---- operations on recordable values ------------------------------------------------------------

/// Calls f on each leaf of a value, in a fixed order.
template <class T>
void visit_leaves([[maybe_unused]] const T& value, [[maybe_unused]] FunctionRef<void(Leaf)> f) {
  if constexpr (!has_leaves<T>()) return;
  else if constexpr (RecordableNode<T>::kind == RecordableKind::leaf)
    f(Leaf(LeafOf<T>::of(const_cast<T&>(value))));  // valid: the object is not const
  else visit_parts(value, [&](const auto& part) { visit_leaves(part, f); });
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
  } else {
    constexpr auto same = [](const auto& x, const auto& y) { return same_besides_leaves(x, y); };
    return same_parts(a, b, same, same);
  }
}

}  // namespace stave_detail
