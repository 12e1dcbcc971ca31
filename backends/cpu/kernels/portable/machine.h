// Any processor: what compilers make of vectors of 16 bytes, and functions a lane at a time.
#pragma once

#define STAVE_VECTOR_BYTES 16
#include <stave/backends/cpu/kernels/generic.h>

#if __has_include(<sleef.h>)
#include <sleef.h>
#endif

namespace STAVE_KERNELS {

// The functions of vec_math.h that are SLEEF's, by bound and name: STAVE_SLEEF_WITHIN_F32(u10, exp)(raw) gives each lane's exponential
// to 1.0 ulp. A machine that has no SLEEF for its processor has libm's, whose bounds are the C library's.
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

/// The first n lanes, 0 <= n <= lanes: the others read as 0 and are not written.
using generic::load_some;
using generic::store_some;

/// Whether a lane is true.
using generic::any;

STAVE_INLINE F32 sqrt(F32 x) {
  return {by_lanes<F32::Raw>([](float lane) { return __builtin_sqrtf(lane); }, x.raw)};
}
STAVE_INLINE F64 sqrt(F64 x) {
  return {by_lanes<F64::Raw>([](double lane) { return __builtin_sqrt(lane); }, x.raw)};
}

/// a b + c rounded once; and whether that is an instruction, or takes longer than two roundings.
inline constexpr bool has_fma = false;
using generic::fma;

/// To an integer: rint to the nearest, to an even one from the middle.
using generic::ceil;
using generic::floor;
using generic::rint;
using generic::trunc;

/// max(low, min(x, high)); NaN where x is.
using generic::clamp;

/// The lanes of each half as doubles.
STAVE_INLINE F64 low_half(F32 x) { return {F64::Raw{x.raw[0], x.raw[1]}}; }
STAVE_INLINE F64 high_half(F32 x) { return {F64::Raw{x.raw[2], x.raw[3]}}; }

/// Sixteen bits each, as the low half of a lane; and IEEE's sixteen-bit floats, rounded to the nearest, to an even one from the middle.
using generic::load_float16;
using generic::load_uint16;
using generic::store_float16;
using generic::store_uint16;

/// Whether there are stores past the caches; one of 16 bytes, to a multiple of 16; and a fence between these and later stores.
using generic::can_stream;
using generic::order_streams;
using generic::stream;

}  // namespace STAVE_KERNELS
