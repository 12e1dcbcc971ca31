// Primitives for any processor: vectors of 16 bytes as compilers implement them,
// and functions that compute one lane at a time.
#pragma once

#define STAVE_VECTOR_BYTES 16
#include <stave/backends/cpu/kernels/generic.h>

#if __has_include(<sleef.h>)
#include <sleef.h>
#endif

namespace STAVE_KERNELS {

// STAVE_SLEEF_WITHIN_F32(u10, exp)(raw), which vec_math.h uses, returns the exponential of each
// lane by the SLEEF function of this error bound (here 1.0 ulp) and name. A build without SLEEF
// uses libm, with the error bounds of the C library.
template <class V, class F, class... Raw>
STAVE_INLINE V by_lanes(F f, Raw... x) {
  V y{};
  for (int i = 0; i < static_cast<int>(sizeof(V) / sizeof y[0]); ++i) y[i] = f(x[i]...);
  return y;
}
#if __has_include(<sleef.h>)
#define STAVE_LANE_F32(bound, name) Sleef_cinz_##name##f1_##bound##purec
#define STAVE_LANE_F64(bound, name) Sleef_cinz_##name##d1_##bound##purec
#else
#define STAVE_LANE_F32(bound, name) __builtin_##name##f
#define STAVE_LANE_F64(bound, name) __builtin_##name
#endif
#define STAVE_SLEEF_WITHIN_F32(bound, name)                                                               \
  [](auto... raw) {                                                                                       \
    return by_lanes<F32::Raw>([](auto... lane) { return STAVE_LANE_F32(bound, name)(lane...); }, raw...); \
  }
#define STAVE_SLEEF_WITHIN_F64(bound, name)                                                               \
  [](auto... raw) {                                                                                       \
    return by_lanes<F64::Raw>([](auto... lane) { return STAVE_LANE_F64(bound, name)(lane...); }, raw...); \
  }

/// These functions load and store the first n lanes, 0 <= n <= lanes. The other lanes are read as 0
/// and are not written. load_between(from, first, last) loads lanes [first, last) in the same way.
using generic::load_between;
using generic::load_some;
using generic::store_some;

/// Returns true if some lane is true.
using generic::any;

STAVE_INLINE F32 sqrt(F32 x) {
  return {by_lanes<F32::Raw>([](float lane) { return __builtin_sqrtf(lane); }, x.raw)};
}
STAVE_INLINE F64 sqrt(F64 x) {
  return {by_lanes<F64::Raw>([](double lane) { return __builtin_sqrt(lane); }, x.raw)};
}

/// fma is a b + c with one rounding. has_fma is true if the machine has an instruction for it;
/// otherwise fma takes longer than a multiplication and an addition.
inline constexpr bool has_fma = false;
using generic::fma;

/// Functions that round to an integer. rint rounds to the nearest integer, and ties to even.
using generic::ceil;
using generic::floor;
using generic::rint;
using generic::trunc;

/// Returns max(low, min(x, high)), or NaN where x is NaN.
using generic::clamp;

/// low_half and high_half return the lanes of one half of x as doubles.
STAVE_INLINE F64 low_half(F32 x) { return {F64::Raw{x.raw[0], x.raw[1]}}; }
STAVE_INLINE F64 high_half(F32 x) { return {F64::Raw{x.raw[2], x.raw[3]}}; }

/// Loads and stores of narrow numbers. Integers of sixteen and eight bits, and those of four bits,
/// of which the low half of a byte comes first, become the lower part of a 32-bit lane. IEEE's
/// sixteen-bit floats become float32, and are rounded to the nearest, ties to even, on store.
using generic::load_float16;
using generic::load_uint16;
using generic::load_uint4;
using generic::load_uint8;
using generic::store_float16;
using generic::store_uint16;

/// can_stream is true if there are non-temporal stores, which bypass the caches.
/// stream(to, from) copies 16 bytes with such a store; `to` must be a multiple of 16.
/// order_streams is a fence between non-temporal stores and later stores.
using generic::can_stream;
using generic::order_streams;
using generic::stream;

}  // namespace STAVE_KERNELS
