// The primitives that every 64-bit ARM processor has.
#pragma once

#define STAVE_VECTOR_BYTES 16
#include <stave/backends/cpu/kernels/generic.h>

#include <arm_neon.h>
#include <sleef.h>

namespace STAVE_KERNELS {

#define STAVE_SLEEF_WITHIN_F32(bound, name) Sleef_finz_##name##f4_##bound##advsimd
#define STAVE_SLEEF_WITHIN_F64(bound, name) Sleef_finz_##name##d2_##bound##advsimd

using generic::any;
using generic::load_between;
using generic::load_some;
using generic::store_some;

STAVE_INLINE F32 sqrt(F32 x) { return {vsqrtq_f32(x.raw)}; }
STAVE_INLINE F64 sqrt(F64 x) { return {vsqrtq_f64(x.raw)}; }

inline constexpr bool has_fma = true;
STAVE_INLINE F32 fma(F32 a, F32 b, F32 c) { return {vfmaq_f32(c.raw, a.raw, b.raw)}; }
STAVE_INLINE F64 fma(F64 a, F64 b, F64 c) { return {vfmaq_f64(c.raw, a.raw, b.raw)}; }

STAVE_INLINE F32 floor(F32 x) { return {vrndmq_f32(x.raw)}; }
STAVE_INLINE F64 floor(F64 x) { return {vrndmq_f64(x.raw)}; }
STAVE_INLINE F32 ceil(F32 x) { return {vrndpq_f32(x.raw)}; }
STAVE_INLINE F64 ceil(F64 x) { return {vrndpq_f64(x.raw)}; }
STAVE_INLINE F32 rint(F32 x) { return {vrndnq_f32(x.raw)}; }
STAVE_INLINE F64 rint(F64 x) { return {vrndnq_f64(x.raw)}; }
STAVE_INLINE F32 trunc(F32 x) { return {vrndq_f32(x.raw)}; }
STAVE_INLINE F64 trunc(F64 x) { return {vrndq_f64(x.raw)}; }

STAVE_INLINE F32 clamp(F32 low, F32 x, F32 high) { return {vmaxq_f32(low.raw, vminq_f32(high.raw, x.raw))}; }

STAVE_INLINE F64 low_half(F32 x) { return {vcvt_f64_f32(vget_low_f32(x.raw))}; }
STAVE_INLINE F64 high_half(F32 x) { return {vcvt_high_f64_f32(x.raw)}; }

using generic::load_uint16;
using generic::load_uint4;
using generic::load_uint8;
using generic::store_uint16;
STAVE_INLINE F32 load_float16(const void* from) {
  return {vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(static_cast<const std::uint16_t*>(from))))};
}
STAVE_INLINE void store_float16(F32 x, void* to) {
  vst1_u16(static_cast<std::uint16_t*>(to), vreinterpret_u16_f16(vcvt_f16_f32(x.raw)));
}

// GCC has no intrinsic for non-temporal stores, and ARM processors detect long runs of stores
// themselves.
using generic::can_stream;
using generic::order_streams;
using generic::stream;

}  // namespace STAVE_KERNELS
