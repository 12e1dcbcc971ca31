// The two floating-point types of sixteen bits, as elements: stored in sixteen bits, computed
// in float.
//
// Float16 is IEEE 754's binary16 (11 significant bits, largest number 65504). BFloat16 is the upper
// half of a float (8 significant bits, the range of float). Each converts to float exactly. The
// conversion from any number rounds once: to nearest, ties to even. Arithmetic is that of float:
// store the result to round it.
//
// All functions are inlined, and no object file contains a call of them: the kernels of each
// instruction set include this file (backends/cpu/kernels/isa.h).
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

namespace stave_detail {

#define STAVE_ALWAYS_INLINE [[gnu::always_inline]] constexpr

// Rounds to odd: if no float equals x, returns the one of its two neighbours whose last bit is 1.
// Rounding that neighbour to fewer bits gives the same result as rounding x itself
// (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using
// rounding to odd", 2008).
STAVE_ALWAYS_INLINE float to_odd(double x) {
  const float nearest = static_cast<float>(x);
  const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, nearest);
  const double exact = static_cast<double>(nearest);
  if (exact == x || x != x || (bits & 1)) return nearest;
  const bool above = nearest > 0 ? exact > x : nearest < 0 && exact < x;  // larger in magnitude
  return __builtin_bit_cast(float, above ? bits - 1 : bits + 1);
}
template <class N>
STAVE_ALWAYS_INLINE float to_odd_float(N x) {
  if constexpr (std::is_same_v<N, float> || std::is_same_v<N, bool> || (std::is_integral_v<N> && sizeof(N) <= 2)) {
    return static_cast<float>(x);
  } else if constexpr (std::is_integral_v<N> && sizeof(N) == 8) {
    // A double holds 53 bits. For rounding it only matters whether any lower bit is set, so the
    // 11 lowest bits are replaced by one sticky bit that the double can hold.
    constexpr N below = 0x7ff, end = N{1} << 53;
    bool wide = x > end;
    if constexpr (std::is_signed_v<N>) wide = wide || x < -end;
    return to_odd(static_cast<double>(wide && (x & below) ? static_cast<N>((x & ~below) | (below + 1)) : x));
  } else {
    return to_odd(static_cast<double>(x));
  }
}

STAVE_ALWAYS_INLINE float float_of_half(std::uint16_t half) {
  // A multiplication corrects the bias of the exponent, and also normalises subnormal numbers.
  const float magnitude = __builtin_bit_cast(float, static_cast<std::uint32_t>(half & 0x7fff) << 13) * 0x1p112f;
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000) << 16;
  const std::uint32_t special = magnitude >= 0x1p16f ? 0x7f800000 : 0;  // infinity or NaN
  return __builtin_bit_cast(float, __builtin_bit_cast(std::uint32_t, magnitude) | special | sign);
}
STAVE_ALWAYS_INLINE std::uint16_t half_of_float(float x) {
  const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, x), magnitude = bits & 0x7fffffff;
  // For subnormal results, 0.5 + |x| has its last bit where the result has its last bit:
  // the addition rounds.
  const std::uint32_t subnormal =
      __builtin_bit_cast(std::uint32_t, __builtin_bit_cast(float, magnitude) + 0.5f) - 0x3f000000;
  const std::uint32_t normal = (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13;
  const std::uint32_t not_finite = magnitude > 0x7f800000 ? 0x7e00 | (magnitude >> 13 & 0x3ff) : 0x7c00;
  const std::uint32_t result = magnitude >= 0x47800000 ? not_finite : magnitude < 0x38800000 ? subnormal : normal;
  return static_cast<std::uint16_t>(result | (bits >> 16 & 0x8000));
}
STAVE_ALWAYS_INLINE float float_of_bfloat(std::uint16_t bfloat) {
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(bfloat) << 16);
}
STAVE_ALWAYS_INLINE std::uint16_t bfloat_of_float(float x) {
  const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, x);
  return static_cast<std::uint16_t>(x != x ? bits >> 16 | 0x40 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

}  // namespace stave_detail

namespace stave {

struct Float16 {
  std::uint16_t bits;

  Float16() = default;
  template <class N>
    requires(std::is_convertible_v<N, float> && !std::is_same_v<N, Float16>)
  [[gnu::always_inline]] constexpr explicit Float16(N number)
      : bits(stave_detail::half_of_float(stave_detail::to_odd_float(number))) {}
  [[gnu::always_inline]] constexpr operator float() const { return stave_detail::float_of_half(bits); }
};

struct BFloat16 {
  std::uint16_t bits;

  BFloat16() = default;
  template <class N>
    requires(std::is_convertible_v<N, float> && !std::is_same_v<N, BFloat16>)
  [[gnu::always_inline]] constexpr explicit BFloat16(N number)
      : bits(stave_detail::bfloat_of_float(stave_detail::to_odd_float(number))) {}
  [[gnu::always_inline]] constexpr operator float() const { return stave_detail::float_of_bfloat(bits); }
};

template <class T>
inline constexpr bool is_half = std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;
/// Operands of which at least one is a sixteen-bit float: they are computed and compared as floats.
template <class A, class B>
concept WithHalf = (is_half<A> && (is_half<B> || std::is_arithmetic_v<B>)) || (std::is_arithmetic_v<A> && is_half<B>);
/// The type in which elements of type T are computed: float for sixteen-bit floats, else T itself.
template <class T>
using Computed = std::conditional_t<is_half<T>, float, T>;

}  // namespace stave

namespace stave_detail {

/// The next number after x in the direction of y; y if they are equal, NaN if one of them is NaN.
template <class T>
  requires stave::is_half<T>
STAVE_ALWAYS_INLINE T next_half(T x, T y) {
  const float from = x, to = y;
  T next = x;
  if (from != from || to != to) return T(from + to);
  if (from == to) return y;
  if (from == 0) next.bits = static_cast<std::uint16_t>((y.bits & 0x8000) | 1);
  else next.bits = static_cast<std::uint16_t>((from < to) == (from > 0) ? x.bits + 1 : x.bits - 1);
  return next;
}
}  // namespace stave_detail

namespace stave {

#define STAVE_HALF_OPERATOR(symbol)                                        \
  template <class A, class B>                                              \
    requires WithHalf<A, B>                                                \
  STAVE_ALWAYS_INLINE auto operator symbol(A a, B b) {                     \
    return static_cast<Computed<A>>(a) symbol static_cast<Computed<B>>(b); \
  }
STAVE_HALF_OPERATOR(+)
STAVE_HALF_OPERATOR(-)
STAVE_HALF_OPERATOR(*)
STAVE_HALF_OPERATOR(/)
STAVE_HALF_OPERATOR(==)
STAVE_HALF_OPERATOR(!=)
STAVE_HALF_OPERATOR(<)
STAVE_HALF_OPERATOR(<=)
STAVE_HALF_OPERATOR(>)
STAVE_HALF_OPERATOR(>=)
#undef STAVE_HALF_OPERATOR
#undef STAVE_ALWAYS_INLINE

}  // namespace stave
