// Primitives for x86-64-v3, the level with AVX2 and fused multiply-add.
#pragma once

#define STAVE_VECTOR_BYTES 32
#include <stave/backends/cpu/kernels/generic.h>
#include <stave/backends/cpu/kernels/x86.h>

namespace STAVE_KERNELS {

#define STAVE_SLEEF_WITHIN_F32(bound, name) Sleef_finz_##name##f8_##bound##avx2
#define STAVE_SLEEF_WITHIN_F64(bound, name) Sleef_finz_##name##d4_##bound##avx2

using generic::load_some;
using generic::store_some;

STAVE_INLINE F32 load_between(const float* from, std::int64_t first, std::int64_t last) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256i before = _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(first)), lane);
  const __m256i inside = _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(last)), lane);
  return {_mm256_maskload_ps(from, _mm256_andnot_si256(before, inside))};
}

// GCC 12 compiles the generic version to code that extracts the words of a register one by one.
template <class T>
STAVE_INLINE bool any(Mask<T> mask) {
  const __m256i bits = reinterpret_cast<__m256i>(mask.bits);
  return _mm256_testz_si256(bits, bits) == 0;
}

STAVE_INLINE F32 sqrt(F32 x) { return {_mm256_sqrt_ps(x.raw)}; }
STAVE_INLINE F64 sqrt(F64 x) { return {_mm256_sqrt_pd(x.raw)}; }

inline constexpr bool has_fma = true;
STAVE_INLINE F32 fma(F32 a, F32 b, F32 c) { return {_mm256_fmadd_ps(a.raw, b.raw, c.raw)}; }
STAVE_INLINE F64 fma(F64 a, F64 b, F64 c) { return {_mm256_fmadd_pd(a.raw, b.raw, c.raw)}; }

#define STAVE_ROUNDING(name, mode)                                                            \
  STAVE_INLINE F32 name(F32 x) { return {_mm256_round_ps(x.raw, mode | _MM_FROUND_NO_EXC)}; } \
  STAVE_INLINE F64 name(F64 x) { return {_mm256_round_pd(x.raw, mode | _MM_FROUND_NO_EXC)}; }
STAVE_ROUNDING(floor, _MM_FROUND_TO_NEG_INF)
STAVE_ROUNDING(ceil, _MM_FROUND_TO_POS_INF)
STAVE_ROUNDING(rint, _MM_FROUND_TO_NEAREST_INT)
STAVE_ROUNDING(trunc, _MM_FROUND_TO_ZERO)

// The result is x where x is NaN, because both instructions return their second operand then.
STAVE_INLINE F32 clamp(F32 low, F32 x, F32 high) { return {_mm256_max_ps(low.raw, _mm256_min_ps(high.raw, x.raw))}; }

// GCC 12 compiles plain vector code to code that converts a quarter of a register at a time.
STAVE_INLINE F64 low_half(F32 x) { return {_mm256_cvtps_pd(_mm256_castps256_ps128(x.raw))}; }
STAVE_INLINE F64 high_half(F32 x) { return {_mm256_cvtps_pd(_mm256_extractf128_ps(x.raw, 1))}; }

// GCC 12 compiles the generic version to code that narrows 32 bits to 16 in several steps.
STAVE_INLINE Vec<std::uint32_t> load_uint16(const void* from) {
  return {reinterpret_cast<Vec<std::uint32_t>::Raw>(
      _mm256_cvtepu16_epi32(_mm_loadu_si128(static_cast<const __m128i*>(from))))};
}
STAVE_INLINE void store_uint16(Vec<std::uint32_t> v, void* to) {
  const __m256i lanes = reinterpret_cast<__m256i>(v.raw);
  const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(lanes, lanes), 0b1000);
  _mm_storeu_si128(static_cast<__m128i*>(to), _mm256_castsi256_si128(packed));
}
using generic::load_uint4;
STAVE_INLINE Vec<std::uint32_t> load_uint8(const void* from) {
  return {reinterpret_cast<Vec<std::uint32_t>::Raw>(
      _mm256_cvtepu8_epi32(_mm_loadl_epi64(static_cast<const __m128i*>(from))))};
}
STAVE_INLINE F32 load_float16(const void* from) {
  return {_mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(from)))};
}
STAVE_INLINE void store_float16(F32 x, void* to) {
  _mm_storeu_si128(static_cast<__m128i*>(to), _mm256_cvtps_ph(x.raw, _MM_FROUND_TO_NEAREST_INT));
}

}  // namespace STAVE_KERNELS
