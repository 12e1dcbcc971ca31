// The primitives that every x86-64 processor has.
#pragma once

#define STAVE_VECTOR_BYTES 16
#include <stave/backends/cpu/kernels/generic.h>
#include <stave/backends/cpu/kernels/x86.h>

namespace STAVE_KERNELS {

#define STAVE_SLEEF_WITHIN_F32(bound, name) Sleef_cinz_##name##f4_##bound##sse2
#define STAVE_SLEEF_WITHIN_F64(bound, name) Sleef_cinz_##name##d2_##bound##sse2

using generic::any;
using generic::load_between;
using generic::load_some;
using generic::store_some;

STAVE_INLINE F32 sqrt(F32 x) { return {_mm_sqrt_ps(x.raw)}; }
STAVE_INLINE F64 sqrt(F64 x) { return {_mm_sqrt_pd(x.raw)}; }

inline constexpr bool has_fma = false;
using generic::fma;

using generic::ceil;
using generic::clamp;
using generic::floor;
using generic::rint;
using generic::trunc;

using generic::load_float16;
using generic::load_uint16;
using generic::load_uint4;
using generic::load_uint8;
using generic::store_float16;
using generic::store_uint16;

STAVE_INLINE F64 low_half(F32 x) { return {_mm_cvtps_pd(x.raw)}; }
STAVE_INLINE F64 high_half(F32 x) { return {_mm_cvtps_pd(_mm_movehl_ps(x.raw, x.raw))}; }

}  // namespace STAVE_KERNELS
