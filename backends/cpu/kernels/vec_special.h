// erfinv, and functions related to the gamma function.
#pragma once

#include <stave/backends/cpu/kernels/vec_transcendental.h>
#include <stave/core/ops/erfinv.h>
#include <stave/core/ops/polygamma.h>

namespace STAVE_KERNELS {

// ---- erfinv -------------------------------------------------------------------------------------
// erfinv uses the polynomials of core/ops/erfinv.h.

/// Returns -log(1 - x^2). Near 1 the square would lose the significant digits,
/// and 1 - |x| is exact.
template <class T>
STAVE_INLINE Vec<T> erfinv_argument(Vec<T> x) {
  Vec<T> one(1);
  return -select(abs(x) < Vec<T>(0.5), log1p(-(x * x)), log((one - abs(x)) * (one + abs(x))));
}
/// Returns `inside` where |x| < 1, ±inf at x = ±1, and NaN elsewhere.
template <class T>
STAVE_INLINE Vec<T> erfinv_ends(Vec<T> x, Vec<T> inside) {
  Vec<T> infinity(__builtin_inf());
  Vec<T> outside = select(abs(x) == Vec<T>(1), copysign(infinity, x), infinity - infinity);
  return select(abs(x) < Vec<T>(1), inside, outside);
}
inline constexpr stave_detail::ErfinvFloat erfinv_f32;
STAVE_INLINE F32 erfinv(F32 x) {
  F32 w = erfinv_argument(x);
  F32 central = polynomial(w - F32(2.5), erfinv_f32.central);
  F32 tail = polynomial(sqrt(w) - F32(3), erfinv_f32.tail);
  return erfinv_ends(x, x * select(w < F32(5), central, tail));
}
inline constexpr stave_detail::ErfinvDouble erfinv_f64;
STAVE_INLINE F64 erfinv(F64 x) {
  F64 w = erfinv_argument(x);
  F64 central = polynomial(w - F64(3.125), erfinv_f64.central);
  F64 middle = polynomial(sqrt(w) - F64(3.25), erfinv_f64.middle);
  F64 tail = polynomial(sqrt(w) - F64(5), erfinv_f64.tail);
  return erfinv_ends(x, x * select(w < F64(6.25), central, select(w < F64(16), middle, tail)));
}

// ---- functions related to the gamma function ---------------------------------------------------
// digamma and zeta use core/ops/polygamma.h, in double precision. For float32,
// the only relevant error is the final rounding.

/// Returns both halves of a vector, rounded to float.
STAVE_INLINE F32 narrow(F64 low, F64 high) {
  typedef float Half __attribute__((vector_size(STAVE_VECTOR_BYTES / 2)));
  const Half halves[] = {__builtin_convertvector(low.raw, Half), __builtin_convertvector(high.raw, Half)};
  return F32::load(halves);
}

// SLEEF's lgamma overflows early.
STAVE_FROM_SLEEF_BUT(lgamma, y, (x > Vec<T>(sizeof(T) == 4 ? 0x1p118 : 0x1p1010)) & isfinite(x))

STAVE_INLINE F64 digamma(F64 x) { return stave_detail::digamma_of(x); }
STAVE_INLINE F32 digamma(F32 x) { return narrow(digamma(low_half(x)), digamma(high_half(x))); }

STAVE_INLINE F64 zeta(F64 s, F64 q) { return stave_detail::zeta_of(s, q); }
STAVE_INLINE F32 zeta(F32 s, F32 q) { return narrow(zeta(low_half(s), low_half(q)), zeta(high_half(s), high_half(q))); }

}  // namespace STAVE_KERNELS
