// Access to the members of aggregates (struct Point { double x, y; }) without a macro,
// a base class or a dependency.
//
// The number of members is the largest number of initialisers that S{...} takes. Each initialiser
// is an object that converts to any type. It is passed as an lvalue (copyable members) or an rvalue
// (move-only ones). A C array takes one initialiser for each of its elements ("brace elision");
// the code detects arrays and corrects the count. (The idea is that of Boost.PFR.)
#pragma once

#include <stave/core/effects/settings.h>

#include <cstdlib>
#include <type_traits>
#include <utility>

namespace stave_detail {

// The conversions are never called, but are defined: the constructor templates of std::optional
// make compilers instantiate them.
struct AnyLvalue {
  template <class T>
  operator T&() const&& noexcept {
    std::abort();
  }
  template <class T>
  operator T&() const& noexcept {
    std::abort();
  }
};
struct AnyRvalue {
  template <class T>
  operator T() const&& noexcept {
    std::abort();
  }
};

template <class Any, std::size_t>
using Each = Any;

template <class S, class Any, std::size_t... i>
constexpr bool initialises(std::index_sequence<i...>) {
  return requires { S{(static_cast<void>(i), Any())...}; };
}
// Rvalues come first: given an lvalue, compilers may instantiate the copy constructor
// of a container whose elements cannot be copied.
template <class S, std::size_t n>
constexpr bool takes() {
  if constexpr (initialises<S, AnyRvalue>(std::make_index_sequence<n>())) return true;
  else return initialises<S, AnyLvalue>(std::make_index_sequence<n>());
}

inline constexpr std::size_t most_members = 32;

// The number of initialisers that S{...} takes, counted upwards since aggregates are small.
// `enough` turns true at the first count that S accepts: smaller counts fail too if a member has
// no default.
template <class S, std::size_t n = 0, bool enough = false>
constexpr std::size_t count_initialisers() {
  if constexpr (n > most_members + 1) return enough ? most_members + 1 : 0;
  else if constexpr (takes<S, n>()) return count_initialisers<S, n + 1, true>();
  else if constexpr (enough) return n - 1;
  else return count_initialisers<S, n + 1>();
}

// True if S{any x before, {any x inside}, any x after} compiles.
template <class S, class Any, std::size_t... before, std::size_t... inside, std::size_t... after>
constexpr bool nests(std::index_sequence<before...>, std::index_sequence<inside...>, std::index_sequence<after...>) {
  return requires { S{Each<Any, before>()..., {Each<Any, inside>()...}, Each<Any, after>()...}; };
}
template <class S, std::size_t before, std::size_t inside, std::size_t after>
constexpr bool nested() {
  constexpr std::make_index_sequence<before> first;
  constexpr std::make_index_sequence<inside> middle;
  constexpr std::make_index_sequence<after> last;
  if constexpr (nests<S, AnyRvalue>(first, middle, last)) return true;
  else return nests<S, AnyLvalue>(first, middle, last);
}

// The length of the C array at initialiser `at` of `total`, for elements that cannot be initialised
// by {}; 1 if there is no array. For a member of class type S{...} would still compile with one
// more initialiser after it.
template <class S, std::size_t at, std::size_t total, std::size_t length = total - at>
constexpr std::size_t full_array_length() {
  if constexpr (length < 2) return 1;
  else if constexpr (nested<S, at, length, total - at - length>() && !nested<S, at, length, total - at - length + 1>())
    return length;
  else return full_array_length<S, at, total, length - 1>();
}
// The length of the C array at initialiser `at`, of any kind; 1 if there is none. {} initialises
// the whole array, so that fewer initialisers can follow it.
template <class S, std::size_t at, std::size_t total, std::size_t length = 1>
constexpr std::size_t array_length() {
  if constexpr (at + length > total) return full_array_length<S, at, total>();
  else if constexpr (nested<S, at, 0, total - at - length>()) return length;
  else return array_length<S, at, total, length + 1>();
}

template <class S, std::size_t total, std::size_t at = 0>
constexpr std::size_t count_from() {
  if constexpr (at >= total) return 0;
  else return 1 + count_from<S, total, at + array_length<S, at, total>()>();
}

template <class S>
inline constexpr std::size_t initialiser_count = count_initialisers<S>();
template <class S>
inline constexpr std::size_t member_count = count_from<S, initialiser_count<S>>();

// An object that converts only to base classes of S. If it initialises S, then S has a base class,
// since bases come first. It is not copyable, or it would initialise std::any.
template <class S>
struct AnyBase {
  AnyBase() = default;
  AnyBase(const AnyBase&) = delete;
  template <class B>
    requires(std::is_base_of_v<B, S> && !std::is_same_v<B, S>)
  operator B() const noexcept {
    std::abort();
  }
};
template <class S>
inline constexpr bool has_base = requires { S{AnyBase<S>()}; };

/// Calls f(members...) with the members in the order of their declaration.
template <class S, class F>
constexpr decltype(auto) with_members(S& s, F&& f) {
  constexpr bool plain = !has_base<std::remove_const_t<S>>;
  static_assert(plain,
                "stave: an aggregate with a base class is not a tree: make the base a member, or specialise "
                "stave::TreeTraits");
  if constexpr (plain) {
    constexpr std::size_t n = member_count<std::remove_const_t<S>>;
    static_assert(
        n <= most_members,
        "stave: an aggregate of more than 32 members is not a tree: group members, or specialise stave::TreeTraits");
#define STAVE_MEMBERS(count, ...)  \
  else if constexpr (n == count) { \
    auto& [__VA_ARGS__] = s;       \
    return f(__VA_ARGS__);         \
  }
    if constexpr (n == 0) return f();
    STAVE_MEMBERS(1, a)
    STAVE_MEMBERS(2, a, b)
    STAVE_MEMBERS(3, a, b, c)
    STAVE_MEMBERS(4, a, b, c, d)
    STAVE_MEMBERS(5, a, b, c, d, e)
    STAVE_MEMBERS(6, a, b, c, d, e, g)
    STAVE_MEMBERS(7, a, b, c, d, e, g, h)
    STAVE_MEMBERS(8, a, b, c, d, e, g, h, i)
    STAVE_MEMBERS(9, a, b, c, d, e, g, h, i, j)
    STAVE_MEMBERS(10, a, b, c, d, e, g, h, i, j, k)
    STAVE_MEMBERS(11, a, b, c, d, e, g, h, i, j, k, l)
    STAVE_MEMBERS(12, a, b, c, d, e, g, h, i, j, k, l, m)
    STAVE_MEMBERS(13, a, b, c, d, e, g, h, i, j, k, l, m, o)
    STAVE_MEMBERS(14, a, b, c, d, e, g, h, i, j, k, l, m, o, p)
    STAVE_MEMBERS(15, a, b, c, d, e, g, h, i, j, k, l, m, o, p, q)
    STAVE_MEMBERS(16, a, b, c, d, e, g, h, i, j, k, l, m, o, p, q, r)
#define STAVE_16 a, b, c, d, e, g, h, i, j, k, l, m, o, p, q, r
    STAVE_MEMBERS(17, STAVE_16, t)
    STAVE_MEMBERS(18, STAVE_16, t, u)
    STAVE_MEMBERS(19, STAVE_16, t, u, v)
    STAVE_MEMBERS(20, STAVE_16, t, u, v, w)
    STAVE_MEMBERS(21, STAVE_16, t, u, v, w, x)
    STAVE_MEMBERS(22, STAVE_16, t, u, v, w, x, y)
    STAVE_MEMBERS(23, STAVE_16, t, u, v, w, x, y, z)
    STAVE_MEMBERS(24, STAVE_16, t, u, v, w, x, y, z, a1)
    STAVE_MEMBERS(25, STAVE_16, t, u, v, w, x, y, z, a1, a2)
    STAVE_MEMBERS(26, STAVE_16, t, u, v, w, x, y, z, a1, a2, a3)
    STAVE_MEMBERS(27, STAVE_16, t, u, v, w, x, y, z, a1, a2, a3, a4)
    STAVE_MEMBERS(28, STAVE_16, t, u, v, w, x, y, z, a1, a2, a3, a4, a5)
    STAVE_MEMBERS(29, STAVE_16, t, u, v, w, x, y, z, a1, a2, a3, a4, a5, a6)
    STAVE_MEMBERS(30, STAVE_16, t, u, v, w, x, y, z, a1, a2, a3, a4, a5, a6, a7)
    STAVE_MEMBERS(31, STAVE_16, t, u, v, w, x, y, z, a1, a2, a3, a4, a5, a6, a7, a8)
    STAVE_MEMBERS(32, STAVE_16, t, u, v, w, x, y, z, a1, a2, a3, a4, a5, a6, a7, a8, a9)
#undef STAVE_16
#undef STAVE_MEMBERS
  } else {
    return f();  // keeps further compiler errors away
  }
}

// A class instead of a lambda: clang 14 cannot take so deeply nested a lambda out
// of a precompiled header.
template <template <class...> class Into>
struct TypesInto {
  template <class... T>
  constexpr auto operator()(T&...) const {
    return Into<std::remove_const_t<T>...>();
  }
};
/// Into<T...> for the types T... of the members of S.
template <class S, template <class...> class Into>
using MemberTypes = decltype(with_members(std::declval<S&>(), TypesInto<Into>()));

}  // namespace stave_detail
