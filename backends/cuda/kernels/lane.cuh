// Lane<T>: the scalar that elementwise operations see as their `T` (core/ops/elementwise_ops.h) on a device, and on the host
// where tests execute kernels.
//
// Arithmetic that wraps for integers, comparisons that give a Truth, select(truth, a, b), and the functions that the structs
// call, found by ADL. Meanings are those of backends/cpu/kernels/vec.h and vec_math.h: the same bits wherever IEEE arithmetic
// decides them; transcendental functions are CUDA's. bool is a byte of 0 or 1. T is what is computed with: float for float16 and
// bfloat16.
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
  /// What integers compute in: unsigned, where overflow is defined, and not narrower than int, to which all is promoted.
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

// The names with f: they do not depend on which overloads a host's library adds. Long functions are not inlined: the call is
// cheap beside them, and four copies in each kernel would be most of the time that device code takes to compile.
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
/// a b - product, exactly, where product is a b rounded.
template <Real T>
STAVE_BOTH Lane<T> lost_of_product(Lane<T> a, Lane<T> b, Lane<T> product) {
  return fma(a, b, -product);
}
/// erfc(x / sqrt(2)). What rounding takes from the quotient, erfc multiplies by some x^2: it is computed, and given back by the
/// derivative -2 / sqrt(pi) exp(-z^2), of which -(z + sqrt(z^2 + 1.6)) erfc(z) is off by less than a seventh for positive z.
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

/// c[0] x^(n-1) + ... + c[n-1]
template <class T, int n>
STAVE_BOTH Lane<T> polynomial(Lane<T> x, const T (&c)[n]) {
  Lane<T> sum(c[0]);
  for (int i = 1; i < n; ++i) sum = fma(sum, x, Lane<T>(c[i]));
  return sum;
}
/// -log(1 - x^2). Near 1 the square would lose what matters, and 1 - |x| is exact.
template <class T>
STAVE_BOTH Lane<T> erfinv_argument(Lane<T> x) {
  Lane<T> one(1), a = abs(x);
  return a.value < T(0.5) ? -log1p(-(x * x)) : -log((one - a) * (one + a));
}
/// ±inf at ±1 and NaN outside.
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
// By core/ops/polygamma.h, in double precision.

STAVE_BOTH STAVE_OUTLINE inline F64 digamma(F64 x) { return stave_detail::digamma_of(x); }
STAVE_BOTH inline F32 digamma(F32 x) { return F32(digamma(F64(x.value)).value); }
STAVE_BOTH STAVE_OUTLINE inline F64 zeta(F64 s, F64 q) { return stave_detail::zeta_of(s, q); }
STAVE_BOTH inline F32 zeta(F32 s, F32 q) { return F32(zeta(F64(s.value), F64(q.value)).value); }

// ---- remainder and floor_divide of floats -----------------------------------------------------

/// Python's %: the sign of b; a zero too has it.
template <Real T>
STAVE_BOTH STAVE_OUTLINE Lane<T> remainder(Lane<T> a, Lane<T> b) {
  Lane<T> zero(0), r = fmod(a, b);
  Lane<T> moved = select((r < zero) ^ (b < zero), r + b, r);
  return select(r == zero, copysign(zero, b), moved);
}
/// The quotient rounds to an integer or lies between two. If it is one, but by the remainder is closer to the integer
/// above, it was rounded up (a quotient of floats never lies in the middle of two). From 2^24 (2^53) on it is what rounds.
template <Real T>
STAVE_BOTH STAVE_OUTLINE Lane<T> floor_divide(Lane<T> a, Lane<T> b) {
  Lane<T> quotient = a / b, whole = floor(quotient), r = abs(remainder(a, b));
  Truth rounded = (whole == quotient) & (abs(whole) <= Lane<T>(sizeof(T) == 4 ? 0x1p24 : 0x1p53));
  rounded = rounded & ~(abs(b) - r > r);  // where both are infinite: -1 / inf rounds to -1
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
/// Of bool the other truth.
template <Whole T>
STAVE_BOTH Lane<T> operator~(Lane<T> a) {
  if constexpr (std::is_same_v<T, bool>) return a ^ Lane<T>(1);
  else return Lane<T>(~a.wrapping());
}
/// Whether places are no shift of T: as many as it has bits, or more, or less than 0.
template <Whole T>
STAVE_BOTH bool too_far(Lane<T> places) {
  return static_cast<std::make_unsigned_t<T>>(places.value) >= 8 * sizeof(T);
}
template <Whole T>
STAVE_BOTH Lane<T> shifted_left(Lane<T> a, Lane<T> places) {
  return too_far(places) ? Lane<T>(0) : Lane<T>(a.wrapping() << places.value);
}
/// Of a signed integer its sign moves in.
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
/// -1 as a divisor needs no division: the least integer by it overflows, and its negative wraps.
template <Whole T>
STAVE_BOTH bool is_minus_one(Lane<T> x) {
  if constexpr (std::is_signed_v<T>) return x.value == -1;
  else return false;
}
/// True if the truncated quotient of a by b with remainder r is one above the floored one.
template <Whole T>
STAVE_BOTH bool truncates_up(Lane<T> r, Lane<T> b) {
  if constexpr (std::is_signed_v<T>) return r.value != 0 && (r.value < 0) != (b.value < 0);
  else return false;
}
/// The sign of b. By 0 the answer is 0.
template <Whole T>
STAVE_BOTH STAVE_OUTLINE Lane<T> remainder(Lane<T> a, Lane<T> b) {
  if (b.value == 0 || is_minus_one(b)) return Lane<T>(0);
  Lane<T> r(a.value % b.value);
  return truncates_up(r, b) ? r + b : r;
}
/// By 0 the answer is 0.
template <Whole T>
STAVE_BOTH STAVE_OUTLINE Lane<T> floor_divide(Lane<T> a, Lane<T> b) {
  if (b.value == 0) return Lane<T>(0);
  if (is_minus_one(b)) return -a;
  Lane<T> quotient(a.value / b.value);
  return truncates_up(a - quotient * b, b) ? quotient - Lane<T>(1) : quotient;
}
/// Repeated squaring, wrapping. A negative exponent gives the truncated 1 / a^|b|: 0, but for a = 1 and -1, whose power the
/// bits of the exponent decide as well, since their squares are 1.
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

/// Floats become integers by truncation; what does not fit saturates, and NaN becomes 0, so that no value is undefined.
/// 2^31 - 1 and the like are no floats: the comparison is with the power of two above, which is.
template <class To, class From>
STAVE_BOTH To saturate(From x) {
  constexpr From above = static_cast<From>(greatest<To> / 2 + 1) * 2;
  if (x != x) return 0;
  if (x >= above) return greatest<To>;
  if (x <= static_cast<From>(least<To>)) return least<To>;
  return static_cast<To>(x);
}
/// astype of one element. bool is taken as a byte of 0 or 1, and given as one.
template <class To, class From>
STAVE_BOTH Element<To> converted(From element) {
  const stave::Computed<From> x = computed(element);
  if constexpr (std::is_same_v<To, bool>) return x != 0;
  else if constexpr (Real<stave::Computed<From>> && std::is_integral_v<To>) return saturate<To>(x);
  else return element_of<To>(x);
}

}  // namespace stave_cuda
