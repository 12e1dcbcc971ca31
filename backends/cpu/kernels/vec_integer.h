// Functions of Vec<T> for operations on bits, remainders, floored quotients,
// and powers of integers.
#pragma once

#include <stave/backends/cpu/kernels/vec_polynomial.h>

namespace STAVE_KERNELS {

// ---- bits ---------------------------------------------------------------------------------------

template <class T>
  requires is_real<T>
STAVE_INLINE Mask<T> signbit(Vec<T> x) {
  return {reinterpret_cast<typename Mask<T>::Raw>(x.raw) < typename Mask<T>::Raw{}};
}
/// Returns the float that follows x in the direction of y, or y if they are equal. Floats
/// of one sign are ordered like their bits, so the bits of neighbours differ by 1 as integers.
template <class T>
  requires is_real<T>
STAVE_INLINE Vec<T> nextafter(Vec<T> x, Vec<T> y) {
  using Bits = typename Vec<T>::Unsigned;  // Unsigned integers wrap.
  const Vec<T> zero(0), least(sizeof(T) == 4 ? 0x1p-149 : 0x1p-1074);
  const Mask<T> away = (x < y) ^ (x < zero);  // True where the next float is farther from 0 than x.
  const Bits moved = reinterpret_cast<Bits>(x.raw) - 1 - 2 * reinterpret_cast<Bits>(away.bits);
  Vec<T> next = select(x == zero, copysign(least, y), Vec<T>(reinterpret_cast<typename Vec<T>::Raw>(moved)));
  next = select(x == y, y, next);
  return select((x != x) | (y != y), x + y, next);
}

template <class T>
  requires(!is_real<T>)
STAVE_INLINE Vec<T> operator&(Vec<T> a, Vec<T> b) {
  return {a.raw & b.raw};
}
template <class T>
  requires(!is_real<T>)
STAVE_INLINE Vec<T> operator|(Vec<T> a, Vec<T> b) {
  return {a.raw | b.raw};
}
template <class T>
  requires(!is_real<T>)
STAVE_INLINE Vec<T> operator^(Vec<T> a, Vec<T> b) {
  return {a.raw ^ b.raw};
}
/// Inverts the bits. For bool it is the logical not.
template <class T>
  requires(!is_real<T>)
STAVE_INLINE Vec<T> operator~(Vec<T> a) {
  if constexpr (__is_same(T, bool)) return a ^ Vec<T>(1);
  else return {~a.raw};
}

/// Returns true where `places` is not a valid shift of T: negative, or not less than the number of
/// bits.
template <class T>
STAVE_INLINE Mask<T> too_far(Vec<T> places) {
  const typename Vec<T>::Unsigned bits =
      static_cast<typename Vec<T>::UnsignedLane>(8 * sizeof(T)) - typename Vec<T>::Unsigned{};
  return {reinterpret_cast<typename Mask<T>::Raw>(Vec<T>::wrapping(places) >= bits)};
}
template <class T>
  requires(!is_real<T>)
STAVE_INLINE Vec<T> shifted_left(Vec<T> a, Vec<T> places) {
  const Mask<T> far = too_far(places);
  const auto bits = Vec<T>::wrapping(a) << Vec<T>::wrapping(select(far, Vec<T>(0), places));
  return select(far, Vec<T>(0), Vec<T>(reinterpret_cast<typename Vec<T>::Raw>(bits)));
}
/// Shifts right. For signed integers, copies of the sign bit move in.
template <class T>
  requires(!is_real<T>)
STAVE_INLINE Vec<T> shifted_right(Vec<T> a, Vec<T> places) {
  const Mask<T> far = too_far(places);
  const Vec<T> zero(0);
  return select(far, select(a < zero, Vec<T>(-1), zero), Vec<T>(a.raw >> select(far, zero, places).raw));
}

// ---- remainder ----------------------------------------------------------------------------------

STAVE_INLINE float fmod_of(float a, float b) { return __builtin_fmodf(a, b); }
STAVE_INLINE double fmod_of(double a, double b) { return __builtin_fmod(a, b); }

template <class T>
STAVE_INLINE Vec<T> fmod_by_lanes(Vec<T> a, Vec<T> b) {
  Vec<T> r = a;
  for (int i = 0; i < Vec<T>::lanes; ++i) r.raw[i] = fmod_of(a.raw[i], b.raw[i]);
  return r;
}
/// Returns C's fmod, exactly. If the quotient is below 2^22, a - trunc(a / b) b is exact when
/// it is computed with one rounding. trunc(a / b) is too large by one if a / b was rounded up
/// to an integer; the remainder then has the wrong sign and is corrected.
template <class T>
STAVE_INLINE Vec<T> fmod(Vec<T> a, Vec<T> b) {
  if constexpr (!has_fma) return fmod_by_lanes(a, b);
  Vec<T> quotient = a / b;
  Mask<T> small = (abs(quotient) < Vec<T>(0x1p22)) & isfinite(b);
  if (any(~small)) return fmod_by_lanes(a, b);
  Vec<T> r = fma(-trunc(quotient), b, a);
  Mask<T> crossed = ((r < Vec<T>(0)) & (a > Vec<T>(0))) | ((r > Vec<T>(0)) & (a < Vec<T>(0)));
  return select(crossed, r + copysign(b, a), r);
}
/// Returns Python's a % b: a remainder that has the sign of b, even if it is zero.
template <class T>
  requires is_real<T>
STAVE_INLINE Vec<T> remainder(Vec<T> a, Vec<T> b) {
  Vec<T> zero(0), r = fmod(a, b);
  Vec<T> moved = select((r < zero) ^ (b < zero), r + b, r);
  return select(r == zero, copysign(zero, b), moved);
}
/// Returns Python's a % b for integers. The remainder by 0 is 0. INT_MIN % -1 would trap,
/// so the function computes a % 1 instead of a % -1; both are 0.
template <class T>
  requires(!is_real<T>)
STAVE_INLINE Vec<T> remainder(Vec<T> a, Vec<T> b) {
  using V = Vec<T>;
  V zero(0);
  V safe = select((b == zero) | (b == V(-1)), V(1), b);
  if constexpr (static_cast<T>(-1) > 0) safe = select(b == zero, V(1), b);
  V r{a.raw % safe.raw};
  return select((r != zero) & ((r < zero) ^ (safe < zero)), r + safe, r);
}

// ---- floor_divide -------------------------------------------------------------------------------

/// Returns a / b, rounded down to an integer. If the rounded quotient is an integer although the
/// remainder is at least half of b, the exact quotient is below this integer and was rounded up. (A
/// quotient of floats never lies halfway between two integers.) From 2^24 (2^53 for double) on, the
/// result is the rounded quotient.
template <class T>
  requires is_real<T>
STAVE_INLINE Vec<T> floor_divide(Vec<T> a, Vec<T> b) {
  Vec<T> quotient = a / b, whole = floor(quotient), r = abs(remainder(a, b));
  Mask<T> rounded = (whole == quotient) & (abs(whole) <= Vec<T>(sizeof(T) == 4 ? 0x1p24 : 0x1p53));
  // This is also true if b and r are infinite: floor(-1 / inf) is -1.
  rounded = rounded & ~(abs(b) - r > r);
  whole = select(rounded, whole - Vec<T>(1), whole);
  return select(b == Vec<T>(0), quotient, select(isfinite(a), whole, a - a));
}
/// Returns a / b for integers, rounded down. The quotient by 0 is 0. INT_MIN / -1 would trap,
/// so the function computes -a, which wraps, instead of a / -1.
template <class T>
  requires(!is_real<T>)
STAVE_INLINE Vec<T> floor_divide(Vec<T> a, Vec<T> b) {
  using V = Vec<T>;
  V zero(0), safe = select(b == zero, V(1), b);
  if constexpr (static_cast<T>(-1) > 0) return select(b == zero, zero, V{a.raw / safe.raw});
  safe = select(b == V(-1), V(1), safe);
  V quotient{a.raw / safe.raw}, r = a - quotient * safe;
  quotient = select((r != zero) & ((r < zero) ^ (safe < zero)), quotient - V(1), quotient);
  return select(b == zero, zero, select(b == V(-1), -a, quotient));
}

// ---- integer pow --------------------------------------------------------------------------------

/// Computes a^b by repeated squaring, wrapping. For a negative exponent it returns the truncated
/// 1 / a^|b|, which is 0 except for a = 1 and a = -1.
template <class T>
  requires(!is_real<T>)
STAVE_INLINE Vec<T> pow(Vec<T> a, Vec<T> b) {
  using V = Vec<T>;
  using Unsigned = typename V::Unsigned;
  V zero(0), one(1), result(1), base = a;
  Unsigned rest = reinterpret_cast<Unsigned>(b.raw);
  for (V left = b; any(left != zero); left = V(reinterpret_cast<typename V::Raw>(rest))) {
    V odd{reinterpret_cast<typename V::Raw>(rest & reinterpret_cast<Unsigned>(one.raw))};
    result = select(odd != zero, result * base, result);
    base = base * base;
    rest = rest >> 1;
  }
  if constexpr (static_cast<T>(-1) > 0) return result;
  // The lowest bit of a negative b is its parity. So `result` is right for a = 1 and a = -1, whose
  // squares are 1.
  return select((b < zero) & (a != one) & (a != V(-1)), zero, result);
}

}  // namespace STAVE_KERNELS
