// The parts of a value: the elements of a container, the members of a tuple or an aggregate, and
// the content of an optional, a variant or a smart pointer.
//
// PartsOf<T> says how the parts of a T are reached and what types they have, visit_parts visits
// them, and same_parts compares the parts of two values. Recordable values (recordable.h) and the
// trees of the layers above are walked by these functions. Each decides for itself into which types
// it looks.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <stave/core/effects/members.h>

namespace stave_detail {

enum class PartsKind { none, range, map, optional, unique, shared, variant, tuple, aggregate };

template <class... T>
struct Types {};

template <PartsKind given, class... T>
struct PartsAs {
  static constexpr PartsKind kind = given;
  using Types = stave_detail::Types<T...>;
};

// ---- classification -----------------------------------------------------------------------------

template <class T>
using ReferenceOf = decltype(*std::declval<T&>().begin());
template <class T>
using ElementOf = std::remove_cvref_t<ReferenceOf<const T>>;

template <class T>
concept Range = requires(T& t, const T& c) {
  t.end();
  c.end();
  *t.begin();
  *c.begin();
  requires !std::is_same_v<ElementOf<T>, T>;  // excludes std::filesystem::path, a range of paths
};
template <class T>
concept MapRange = Range<T> && requires(T& t) {
  typename T::mapped_type;
  t.begin()->second;
};
template <class T>
concept Hashes = requires { typename T::hasher; };
// A map or a set that hashes its keys, but whose keys have an order.
template <class T>
concept HashesOrdered = Hashes<T> && requires(const typename T::key_type& key) { bool(key < key); };

template <class T>
constexpr auto parts_of_class() {
  if constexpr (MapRange<T>) return PartsAs<PartsKind::map, typename T::mapped_type>();
  else if constexpr (Range<T>) return PartsAs<PartsKind::range, ElementOf<T>>();
  else if constexpr (std::is_class_v<T> && std::is_aggregate_v<T>) return PartsAs<PartsKind::aggregate>();
  else return PartsAs<PartsKind::none>();
}

/// How the parts of a T are reached (`kind`), and their types (`Types`): of a map those of its
/// values, of an aggregate none. MembersOf has the types of an aggregate's members.
template <class T>
struct PartsOf : PartsAs<PartsKind::none> {};
template <class T>
  requires std::is_class_v<T>
struct PartsOf<T> : decltype(parts_of_class<T>()) {};
template <class T, std::size_t n>
struct PartsOf<T[n]> : PartsAs<PartsKind::range, T> {};
template <class T>
struct PartsOf<std::optional<T>> : PartsAs<PartsKind::optional, T> {};
template <class T>
  requires(!std::is_array_v<T>)
struct PartsOf<std::unique_ptr<T>> : PartsAs<PartsKind::unique, T> {};
template <class T>
  requires(!std::is_array_v<T>)
struct PartsOf<std::shared_ptr<T>> : PartsAs<PartsKind::shared, T> {};
template <class... T>
struct PartsOf<std::variant<T...>> : PartsAs<PartsKind::variant, T...> {};
template <class... T>
struct PartsOf<std::tuple<T...>> : PartsAs<PartsKind::tuple, T...> {};
template <class A, class B>
struct PartsOf<std::pair<A, B>> : PartsAs<PartsKind::tuple, A, B> {};

template <class T>
using MembersOf = MemberTypes<T, Types>;

// ---- walking ------------------------------------------------------------------------------------

/// Calls f(key, value) for each entry of a map, in the order of the keys where these have an order.
template <class M, class F>
void visit_entries(M& map, F&& f) {
  if constexpr (HashesOrdered<std::remove_const_t<M>>) {
    std::vector<decltype(&*map.begin())> entries;
    for (auto& entry : map) entries.push_back(&entry);
    std::sort(entries.begin(), entries.end(), [](const auto* a, const auto* b) { return a->first < b->first; });
    for (auto* entry : entries) f(entry->first, entry->second);
  } else {
    for (auto& entry : map) f(entry.first, entry.second);
  }
}

/// Calls f(members...) with the members of a tuple or an aggregate.
template <class T, class F>
decltype(auto) with_parts(T& value, F&& f) {
  if constexpr (PartsOf<std::remove_const_t<T>>::kind == PartsKind::tuple) return std::apply(f, value);
  else return with_members(value, f);
}

/// Calls f(part) on each part of a value that has parts, in a fixed order. The parts of a constant
/// are constant, also behind a smart pointer.
template <class T, class F>
void visit_parts(T& value, F&& f) {
  constexpr PartsKind kind = PartsOf<std::remove_const_t<T>>::kind;
  static_assert(kind != PartsKind::none);
  if constexpr (kind == PartsKind::range)
    for (auto&& part : value) f(part);
  else if constexpr (kind == PartsKind::map) visit_entries(value, [&](const auto&, auto& part) { f(part); });
  else if constexpr (kind == PartsKind::optional || kind == PartsKind::unique || kind == PartsKind::shared) {
    if constexpr (std::is_const_v<T>) value ? f(std::as_const(*value)) : void();
    else value ? f(*value) : void();
  } else if constexpr (kind == PartsKind::variant) std::visit([&](auto& part) { f(part); }, value);
  else with_parts(value, [&](auto&... part) { (f(part), ...); });
}

/// Returns true if two values have the same number of parts, the same variant alternatives, and
/// keys of which same_key(key, key) holds, and same(part, part) holds for all parts.
template <class T, class SameKey, class Same>
bool same_parts(const T& a, const T& b, const SameKey& same_key, const Same& same) {
  constexpr PartsKind kind = PartsOf<T>::kind;
  static_assert(kind != PartsKind::none);
  if constexpr (kind == PartsKind::range) {
    return std::equal(std::begin(a), std::end(a), std::begin(b), std::end(b),
                      [&](const auto& x, const auto& y) { return same(x, y); });
  } else if constexpr (kind == PartsKind::map) {
    std::vector<std::pair<const typename T::key_type*, const typename T::mapped_type*>> entries;
    visit_entries(a, [&](const auto& key, const auto& value) { entries.emplace_back(&key, &value); });
    bool all = true;
    std::size_t next = 0;
    visit_entries(b, [&](const auto& key, const auto& value) {
      all = all && next < entries.size() && same_key(*entries[next].first, key) && same(*entries[next].second, value);
      ++next;
    });
    return all && next == entries.size();
  } else if constexpr (kind == PartsKind::optional || kind == PartsKind::unique || kind == PartsKind::shared) {
    return bool(a) == bool(b) && (!a || same(std::as_const(*a), std::as_const(*b)));
  } else if constexpr (kind == PartsKind::variant) {
    if (a.index() != b.index()) return false;
    if (a.valueless_by_exception()) return true;
    const void* const other = std::visit([](const auto& y) -> const void* { return std::addressof(y); }, b);
    return std::visit([&]<class X>(const X& x) { return same(x, *static_cast<const X*>(other)); }, a);
  } else {
    return with_parts(
        a, [&](const auto&... x) { return with_parts(b, [&](const auto&... y) { return (same(x, y) && ...); }); });
  }
}

/// Compares numbers by ==, floating-point numbers also by their sign; NaN equals NaN.
template <class T>
bool same_number(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return a == b ? std::signbit(a) == std::signbit(b) : a != a && b != b;
  else return a == b;
}

}  // namespace stave_detail
