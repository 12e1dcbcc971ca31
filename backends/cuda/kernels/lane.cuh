// Lane<T>: the scalar type in which the structs of elementwise operations
// (core/ops/elementwise_ops.h) compute on a device, and on the host where tests execute kernels.
//
// It has arithmetic that wraps for integers, comparisons that give a Truth, select(truth, a, b),
// and the functions that the structs call, found by ADL. The semantics are those of
// backends/cpu/kernels/vec.h and vec_math.h. The bits are equal wherever IEEE arithmetic determines
// them; transcendental functions are CUDA's. bool is a byte of 0 or 1. T is the type of the
// arithmetic: float for float16 and bfloat16.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include <stave/core/ops/erfinv.h>
#include <stave/core/ops/polygamma.h>
#include <stave/backends/cuda/kernels/element.cuh>

namespace stave_cuda {

/// The result of a comparison.
struct Truth {
  bool value;
  STAVE_BOTH Truth(bool truth) : value(truth) {}
  friend STAVE_BOTH Truth operator&(Truth a, Truth b) { return {a.value && b.value}; }
  friend STAVE_BOTH Truth operator|(Truth a, Truth b) { return {a.value || b.value}; }
  friend STAVE_BOTH Truth operator^(Truth a, Truth b) { return {a.value != b.value}; }
  friend STAVE_BOTH Truth operator~(Truth a) { return {!a.value}; }
  friend STAVE_BOTH bool any(Truth a) { return a.value; }
};

template <class T>
struct Lane {
  static constexpr bool is_real = std::is_floating_point_v<T>;
  using Value = Element<T>;
  /// The type of integer arithmetic. It is unsigned, because unsigned overflow is defined, and not
  /// narrower than int, to which operands are promoted.
  using Wrapping = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;

  Value value;

  Lane() = default;
  template <class N>
    requires std::is_arithmetic_v<N>
  STAVE_BOTH explicit Lane(N n) : value(static_cast<Value>(n)) {}

  STAVE_BOTH Wrapping wrapping() const { return static_cast<Wrapping>(value); }
  friend STAVE_BOTH Lane operator+(Lane a, Lane b) {
    if constexpr (is_real) return Lane(a.value + b.value);
    else return Lane(a.wrapping() + b.wrapping());
  }
  friend STAVE_BOTH Lane operator-(Lane a, Lane b) {
    if constexpr (is_real) return Lane(a.value - b.value);
    else return Lane(a.wrapping() - b.wrapping());
  }
  friend STAVE_BOTH Lane operator*(Lane a, Lane b) {
    if constexpr (is_real) return Lane(a.value * b.value);
    else return Lane(a.wrapping() * b.wrapping());
  }
  friend STAVE_BOTH Lane operator/(Lane a, Lane b) { return Lane(a.value / b.value); }
  friend STAVE_BOTH Lane operator-(Lane a) {
    if constexpr (is_real) return Lane(-a.value);
    else return Lane(Wrapping{0} - a.wrapping());
  }

  friend STAVE_BOTH Truth operator==(Lane a, Lane b) { return {a.value == b.value}; }
  friend STAVE_BOTH Truth operator!=(Lane a, Lane b) { return {a.value != b.value}; }
  friend STAVE_BOTH Truth operator<(Lane a, Lane b) { return {a.value < b.value}; }
  friend STAVE_BOTH Truth operator<=(Lane a, Lane b) { return {a.value <= b.value}; }
  friend STAVE_BOTH Truth operator>(Lane a, Lane b) { return {a.value > b.value}; }
  friend STAVE_BOTH Truth operator>=(Lane a, Lane b) { return {a.value >= b.value}; }

  friend STAVE_BOTH Lane select(Truth truth, Lane a, Lane b) { return truth.value ? a : b; }
};

using F32 = Lane<float>;
using F64 = Lane<double>;
template <class T>
concept Real = std::is_floating_point_v<T>;
template <class T>
concept Whole = !Real<T>;

// ---- functions of floats ----------------------------------------------------------------------

// Functions of float call the C functions with suffix f, so they do not depend on the overloads
// that the host's standard library adds. Long functions are not inlined: the time of the call is
// small compared to theirs, and four copies in each kernel would dominate the compile time of
// device code.
#define STAVE_LANE_FUNCTION(outline32, outline64, name)                           \
  STAVE_BOTH outline32 inline F32 name(F32 x) { return F32(::name##f(x.value)); } \
  STAVE_BOTH outline64 inline F64 name(F64 x) { return F64(::name(x.value)); }
#define STAVE_LANE_FUNCTION2(outline, name)                                                     \
  STAVE_BOTH outline inline F32 name(F32 x, F32 y) { return F32(::name##f(x.value, y.value)); } \
  STAVE_BOTH outline inline F64 name(F64 x, F64 y) { return F64(::name(x.value, y.value)); }
STAVE_LANE_FUNCTION(, , sqrt)
STAVE_LANE_FUNCTION(, , floor)
STAVE_LANE_FUNCTION(, , ceil)
STAVE_LANE_FUNCTION(, , rint)
STAVE_LANE_FUNCTION(, , trunc)
STAVE_LANE_FUNCTION(, STAVE_OUTLINE, exp)
STAVE_LANE_FUNCTION(, STAVE_OUTLINE, log)
STAVE_LANE_FUNCTION(, STAVE_OUTLINE, log1p)
STAVE_LANE_FUNCTION(, STAVE_OUTLINE, tanh)
STAVE_LANE_FUNCTION(, STAVE_OUTLINE, erf)
STAVE_LANE_FUNCTION(, STAVE_OUTLINE, exp2)
STAVE_LANE_FUNCTION(, STAVE_OUTLINE, log2)
STAVE_LANE_FUNCTION(, STAVE_OUTLINE, log10)
STAVE_LANE_FUNCTION(STAVE_OUTLINE, STAVE_OUTLINE, expm1)
STAVE_LANE_FUNCTION(STAVE_OUTLINE, STAVE_OUTLINE, erfc)
STAVE_LANE_FUNCTION(STAVE_OUTLINE, STAVE_OUTLINE, lgamma)
STAVE_LANE_FUNCTION(STAVE_OUTLINE, STAVE_OUTLINE, sin)
STAVE_LANE_FUNCTION(STAVE_OUTLINE, STAVE_OUTLINE, cos)
STAVE_LANE_FUNCTION(STAVE_OUTLINE, STAVE_OUTLINE, tan)
STAVE_LANE_FUNCTION(STAVE_OUTLINE, STAVE_OUTLINE, asin)
STAVE_LANE_FUNCTION(STAVE_OUTLINE, STAVE_OUTLINE, acos)
STAVE_LANE_FUNCTION(STAVE_OUTLINE, STAVE_OUTLINE, atan)
STAVE_LANE_FUNCTION(STAVE_OUTLINE, STAVE_OUTLINE, sinh)
STAVE_LANE_FUNCTION(STAVE_OUTLINE, STAVE_OUTLINE, cosh)
STAVE_LANE_FUNCTION(STAVE_OUTLINE, STAVE_OUTLINE, asinh)
STAVE_LANE_FUNCTION(STAVE_OUTLINE, STAVE_OUTLINE, acosh)
STAVE_LANE_FUNCTION(STAVE_OUTLINE, STAVE_OUTLINE, atanh)
STAVE_LANE_FUNCTION2(STAVE_OUTLINE, atan2)
STAVE_LANE_FUNCTION2(STAVE_OUTLINE, pow)
STAVE_LANE_FUNCTION2(STAVE_OUTLINE, fmod)
STAVE_LANE_FUNCTION2(STAVE_OUTLINE, hypot)
STAVE_LANE_FUNCTION2(STAVE_OUTLINE, nextafter)
STAVE_LANE_FUNCTION2(, copysign)
#undef STAVE_LANE_FUNCTION
#undef STAVE_LANE_FUNCTION2

STAVE_BOTH inline F32 abs(F32 x) { return F32(::fabsf(x.value)); }
STAVE_BOTH inline F64 abs(F64 x) { return F64(::fabs(x.value)); }
STAVE_BOTH inline F32 fma(F32 a, F32 b, F32 c) { return F32(::fmaf(a.value, b.value, c.value)); }
STAVE_BOTH inline F64 fma(F64 a, F64 b, F64 c) { return F64(::fma(a.value, b.value, c.value)); }

template <class T>
STAVE_BOTH Truth isinf(Lane<T> x) {
  if constexpr (Real<T>) return abs(x) == Lane<T>(HUGE_VAL);
  else return {false};
}
template <class T>
STAVE_BOTH Truth isfinite(Lane<T> x) {
  if constexpr (Real<T>) return abs(x) < Lane<T>(HUGE_VAL);
  else return {true};
}

template <Real T>
STAVE_BOTH Truth signbit(Lane<T> x) {
  return {copysign(Lane<T>(1), x).value < 0};
}
/// Returns a * b - product exactly, where `product` is the rounded value of a * b.
template <Real T>
STAVE_BOTH Lane<T> lost_of_product(Lane<T> a, Lane<T> b, Lane<T> product) {
  return fma(a, b, -product);
}
/// Returns erfc(x / sqrt(2)). erfc magnifies the rounding error of z = x / sqrt(2) by about x^2. So
/// the error of z is computed, and the result is corrected by this error times the derivative of
/// erfc at z. The derivative is approximated, with a relative error below 1/7 for positive z:
///   -2 / sqrt(pi) exp(-z^2) = about -(z + sqrt(z^2 + 1.6)) erfc(z)
template <Real T>
STAVE_BOTH Lane<T> erfc_of_root_half(Lane<T> x) {
  const Lane<T> root(sizeof(T) == 4 ? 0x1.6a09e6p-1 : 0x1.6a09e667f3bcdp-1);
  const Lane<T> rest(sizeof(T) == 4 ? 0x1.9fcef4p-27 : -0x1.bdd3413b26456p-55);
  const Lane<T> z = x * root;
  const Lane<T> lost = lost_of_product(x, root, z) + x * rest;
  const Lane<T> slope = z + sqrt(z * z + Lane<T>(1.6));
  const Lane<T> y = erfc(z), moved = y - y * (lost * slope);
  return select((z > Lane<T>(0)) & isfinite(lost * slope), moved, y);
}

// ---- erfinv -----------------------------------------------------------------------------------

/// Returns c[0] x^(n-1) + ... + c[n-1].
template <class T, int n>
STAVE_BOTH Lane<T> polynomial(Lane<T> x, const T (&c)[n]) {
  Lane<T> sum(c[0]);
  for (int i = 1; i < n; ++i) sum = fma(sum, x, Lane<T>(c[i]));
  return sum;
}
/// Returns -log(1 - x^2). For |x| near 1, 1 - x^2 would lose significant digits by cancellation,
/// whereas 1 - |x| is exact.
template <class T>
STAVE_BOTH Lane<T> erfinv_argument(Lane<T> x) {
  Lane<T> one(1), a = abs(x);
  return a.value < T(0.5) ? -log1p(-(x * x)) : -log((one - a) * (one + a));
}
/// Returns `inside` if |x| < 1, ±inf at ±1, and NaN if |x| > 1.
template <class T>
STAVE_BOTH Lane<T> erfinv_ends(Lane<T> x, Lane<T> inside) {
  Lane<T> infinity(HUGE_VAL), a = abs(x);
  return select(a < Lane<T>(1), inside, select(a == Lane<T>(1), copysign(infinity, x), infinity - infinity));
}
STAVE_BOTH STAVE_OUTLINE inline F32 erfinv(F32 x) {
  constexpr stave_detail::ErfinvFloat c;
  F32 w = erfinv_argument(x);
  F32 y = w.value < 5 ? polynomial(w - F32(2.5), c.central) : polynomial(sqrt(w) - F32(3), c.tail);
  return erfinv_ends(x, x * y);
}
STAVE_BOTH STAVE_OUTLINE inline F64 erfinv(F64 x) {
  constexpr stave_detail::ErfinvDouble c;
  F64 w = erfinv_argument(x), y;
  if (w.value < 6.25) y = polynomial(w - F64(3.125), c.central);
  else if (w.value < 16) y = polynomial(sqrt(w) - F64(3.25), c.middle);
  else y = polynomial(sqrt(w) - F64(5), c.tail);
  return erfinv_ends(x, x * y);
}

// ---- digamma and zeta -------------------------------------------------------------------------
// Both use core/ops/polygamma.h in double precision.

STAVE_BOTH STAVE_OUTLINE inline F64 digamma(F64 x) { return stave_detail::digamma_of(x); }
STAVE_BOTH inline F32 digamma(F32 x) { return F32(digamma(F64(x.value)).value); }
STAVE_BOTH STAVE_OUTLINE inline F64 zeta(F64 s, F64 q) { return stave_detail::zeta_of(s, q); }
STAVE_BOTH inline F32 zeta(F32 s, F32 q) { return F32(zeta(F64(s.value), F64(q.value)).value); }

// ---- remainder and floor_divide of floats -----------------------------------------------------

/// Returns a % b as Python defines it. The result has the sign of b, even if the result is zero.
template <Real T>
STAVE_BOTH STAVE_OUTLINE Lane<T> remainder(Lane<T> a, Lane<T> b) {
  Lane<T> zero(0), r = fmod(a, b);
  Lane<T> moved = select((r < zero) ^ (b < zero), r + b, r);
  return select(r == zero, copysign(zero, b), moved);
}
/// Returns a // b as Python defines it: the floor of the exact quotient. The floor of the rounded
/// quotient is too large only if the quotient was rounded up to an integer. This is the case if the
/// rounded quotient is an integer although the remainder is more than half of |b|. (A quotient of
/// floats is never midway between two adjacent floats.) Beyond 2^24 for float, or 2^53 for double,
/// the result is the rounded quotient.
template <Real T>
STAVE_BOTH STAVE_OUTLINE Lane<T> floor_divide(Lane<T> a, Lane<T> b) {
  Lane<T> quotient = a / b, whole = floor(quotient), r = abs(remainder(a, b));
  Truth rounded = (whole == quotient) & (abs(whole) <= Lane<T>(sizeof(T) == 4 ? 0x1p24 : 0x1p53));
  // If |b| and r are infinite, the difference is NaN, and the quotient counts as rounded up: -1 //
  // inf is -1.
  rounded = rounded & ~(abs(b) - r > r);
  whole = select(rounded, whole - Lane<T>(1), whole);
  return select(b == Lane<T>(0), quotient, select(isfinite(a), whole, a - a));
}

// ---- functions of integers --------------------------------------------------------------------

template <Whole T>
STAVE_BOTH Lane<T> operator&(Lane<T> a, Lane<T> b) {
  return Lane<T>(a.value & b.value);
}
template <Whole T>
STAVE_BOTH Lane<T> operator|(Lane<T> a, Lane<T> b) {
  return Lane<T>(a.value | b.value);
}
template <Whole T>
STAVE_BOTH Lane<T> operator^(Lane<T> a, Lane<T> b) {
  return Lane<T>(a.value ^ b.value);
}
/// Inverts all bits of an integer, or the truth value of a bool.
template <Whole T>
STAVE_BOTH Lane<T> operator~(Lane<T> a) {
  if constexpr (std::is_same_v<T, bool>) return a ^ Lane<T>(1);
  else return Lane<T>(~a.wrapping());
}
/// Returns true if `places` is not a valid shift of T: it is negative, or at least the number of
/// bits of T.
template <Whole T>
STAVE_BOTH bool too_far(Lane<T> places) {
  return static_cast<std::make_unsigned_t<T>>(places.value) >= 8 * sizeof(T);
}
template <Whole T>
STAVE_BOTH Lane<T> shifted_left(Lane<T> a, Lane<T> places) {
  return too_far(places) ? Lane<T>(0) : Lane<T>(a.wrapping() << places.value);
}
/// Shifts right. For a signed integer, copies of the sign bit move in.
template <Whole T>
STAVE_BOTH Lane<T> shifted_right(Lane<T> a, Lane<T> places) {
  constexpr int most = 8 * sizeof(T) - 1;
  if (!too_far(places)) return Lane<T>(a.value >> places.value);
  return std::is_signed_v<T> ? Lane<T>(a.value >> most) : Lane<T>(0);
}
template <Whole T>
STAVE_BOTH Lane<T> abs(Lane<T> x) {
  if constexpr (std::is_signed_v<T>) return x.value < 0 ? -x : x;
  else return x;
}
template <Whole T>
STAVE_BOTH Lane<T> floor(Lane<T> x) {
  return x;
}
template <Whole T>
STAVE_BOTH Lane<T> ceil(Lane<T> x) {
  return x;
}
template <Whole T>
STAVE_BOTH Lane<T> rint(Lane<T> x) {
  return x;
}
template <Whole T>
STAVE_BOTH Lane<T> trunc(Lane<T> x) {
  return x;
}
/// Returns true if x is -1. Callers negate instead of dividing by -1: the quotient of the least
/// integer by -1 overflows, whereas negation wraps.
template <Whole T>
STAVE_BOTH bool is_minus_one(Lane<T> x) {
  if constexpr (std::is_signed_v<T>) return x.value == -1;
  else return false;
}
/// Returns true if the truncated quotient of a division by b with remainder r is one more than the
/// floor of the quotient.
template <Whole T>
STAVE_BOTH bool truncates_up(Lane<T> r, Lane<T> b) {
  if constexpr (std::is_signed_v<T>) return r.value != 0 && (r.value < 0) != (b.value < 0);
  else return false;
}
/// Returns the remainder with the sign of b. It is 0 if b is 0.
template <Whole T>
STAVE_BOTH STAVE_OUTLINE Lane<T> remainder(Lane<T> a, Lane<T> b) {
  if (b.value == 0 || is_minus_one(b)) return Lane<T>(0);
  Lane<T> r(a.value % b.value);
  return truncates_up(r, b) ? r + b : r;
}
/// Returns the floor of the quotient. It is 0 if b is 0.
template <Whole T>
STAVE_BOTH STAVE_OUTLINE Lane<T> floor_divide(Lane<T> a, Lane<T> b) {
  if (b.value == 0) return Lane<T>(0);
  if (is_minus_one(b)) return -a;
  Lane<T> quotient(a.value / b.value);
  return truncates_up(a - quotient * b, b) ? quotient - Lane<T>(1) : quotient;
}
/// Returns a^b by repeated squaring, which wraps. A negative exponent gives 1 / a^|b|, truncated.
/// This is 0, except for a = 1 and a = -1. Since the squares of these are 1, the bits of a negative
/// exponent, read as unsigned, give the right power too.
template <Whole T>
STAVE_BOTH STAVE_OUTLINE Lane<T> pow(Lane<T> a, Lane<T> b) {
  if constexpr (std::is_signed_v<T>)
    if (b.value < 0 && a.value != 1 && a.value != -1) return Lane<T>(0);
  Lane<T> result(1);
  for (auto rest = static_cast<std::make_unsigned_t<T>>(b.value); rest != 0; rest >>= 1) {
    if (rest & 1) result = result * a;
    a = a * a;
  }
  return result;
}

// ---- conversions ------------------------------------------------------------------------------

template <class I>
inline constexpr I greatest = std::is_signed_v<I> ? static_cast<I>(~(std::uint64_t{1} << (8 * sizeof(I) - 1)))
                                                  : static_cast<I>(~std::uint64_t{0});
template <class I>
inline constexpr I least = std::is_signed_v<I> ? static_cast<I>(std::uint64_t{1} << (8 * sizeof(I) - 1)) : I{0};

/// Converts a float to an integer by truncation. A value out of range saturates and NaN becomes 0,
/// so every result is defined. Limits such as 2^31 - 1 are not representable as floats, so x is
/// compared to the power of two above the limit.
template <class To, class From>
STAVE_BOTH To saturate(From x) {
  constexpr From above = static_cast<From>(greatest<To> / 2 + 1) * 2;
  if (x != x) return 0;
  if (x >= above) return greatest<To>;
  if (x <= static_cast<From>(least<To>)) return least<To>;
  return static_cast<To>(x);
}
/// Converts one element as astype does. A bool is read and written as a byte of 0 or 1.
template <class To, class From>
STAVE_BOTH Element<To> converted(From element) {
  const stave::Computed<From> x = computed(element);
  if constexpr (std::is_same_v<To, bool>) return x != 0;
  else if constexpr (Real<stave::Computed<From>> && std::is_integral_v<To>) return saturate<To>(x);
  else return element_of<To>(x);
}

}  // namespace stave_cuda
