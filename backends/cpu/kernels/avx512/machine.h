// Primitives for x86-64-v4, the level with AVX-512 F, BW, CD, DQ and VL. Some intrinsics are called
// in their masked form with a full mask. They compile to the unmasked instructions, and avoid the
// false warnings about source operands that GCC 12 gives for the unmasked forms.
#pragma once

#define STAVE_VECTOR_BYTES 64
#include <stave/backends/cpu/kernels/generic.h>
#include <stave/backends/cpu/kernels/x86.h>

namespace STAVE_KERNELS {

#define STAVE_SLEEF_WITHIN_F32(bound, name) Sleef_finz_##name##f16_##bound##avx512f
#define STAVE_SLEEF_WITHIN_F64(bound, name) Sleef_finz_##name##d8_##bound##avx512f

template <class T>
STAVE_INLINE Vec<T> load_some(const void* from, std::int64_t n) {
  constexpr std::size_t size = sizeof(typename Vec<T>::Lane);
  using Raw = typename Vec<T>::Raw;
  std::uint64_t mask = n >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << n) - 1;
  if constexpr (size == 1) return {reinterpret_cast<Raw>(_mm512_maskz_loadu_epi8(mask, from))};
  else if constexpr (size == 2)
    return {reinterpret_cast<Raw>(_mm512_maskz_loadu_epi16(static_cast<__mmask32>(mask), from))};
  else if constexpr (size == 4)
    return {reinterpret_cast<Raw>(_mm512_maskz_loadu_epi32(static_cast<__mmask16>(mask), from))};
  else return {reinterpret_cast<Raw>(_mm512_maskz_loadu_epi64(static_cast<__mmask8>(mask), from))};
}
STAVE_INLINE F32 load_between(const float* from, std::int64_t first, std::int64_t last) {
  const std::uint32_t mask = (1u << last) - (1u << first);
  return {_mm512_maskz_loadu_ps(static_cast<__mmask16>(mask), from)};
}
template <class T>
STAVE_INLINE void store_some(Vec<T> v, void* to, std::int64_t n) {
  constexpr std::size_t size = sizeof(typename Vec<T>::Lane);
  __m512i raw = reinterpret_cast<__m512i>(v.raw);
  std::uint64_t mask = n >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << n) - 1;
  if constexpr (size == 1) _mm512_mask_storeu_epi8(to, mask, raw);
  else if constexpr (size == 2) _mm512_mask_storeu_epi16(to, static_cast<__mmask32>(mask), raw);
  else if constexpr (size == 4) _mm512_mask_storeu_epi32(to, static_cast<__mmask16>(mask), raw);
  else _mm512_mask_storeu_epi64(to, static_cast<__mmask8>(mask), raw);
}

// GCC 12 compiles the generic version to code that extracts the words of a register one by one.
template <class T>
STAVE_INLINE bool any(Mask<T> mask) {
  const __m512i bits = reinterpret_cast<__m512i>(mask.bits);
  return _mm512_test_epi64_mask(bits, bits) != 0;
}

STAVE_INLINE F32 sqrt(F32 x) { return {_mm512_maskz_sqrt_ps(0xffff, x.raw)}; }
STAVE_INLINE F64 sqrt(F64 x) { return {_mm512_maskz_sqrt_pd(0xff, x.raw)}; }

inline constexpr bool has_fma = true;
STAVE_INLINE F32 fma(F32 a, F32 b, F32 c) { return {_mm512_fmadd_ps(a.raw, b.raw, c.raw)}; }
STAVE_INLINE F64 fma(F64 a, F64 b, F64 c) { return {_mm512_fmadd_pd(a.raw, b.raw, c.raw)}; }

#define STAVE_ROUNDING(name, mode)                                                                               \
  STAVE_INLINE F32 name(F32 x) { return {_mm512_maskz_roundscale_ps(0xffff, x.raw, mode | _MM_FROUND_NO_EXC)}; } \
  STAVE_INLINE F64 name(F64 x) { return {_mm512_maskz_roundscale_pd(0xff, x.raw, mode | _MM_FROUND_NO_EXC)}; }
STAVE_ROUNDING(floor, _MM_FROUND_TO_NEG_INF)
STAVE_ROUNDING(ceil, _MM_FROUND_TO_POS_INF)
STAVE_ROUNDING(rint, _MM_FROUND_TO_NEAREST_INT)
STAVE_ROUNDING(trunc, _MM_FROUND_TO_ZERO)

// The result is x where x is NaN, because both instructions return their second operand then.
STAVE_INLINE F32 clamp(F32 low, F32 x, F32 high) {
  return {_mm512_maskz_max_ps(0xffff, low.raw, _mm512_maskz_min_ps(0xffff, high.raw, x.raw))};
}

// GCC 12 compiles plain vector code to code that converts a quarter of a register at a time.
template <int which>
STAVE_INLINE F64 half(F32 x) {
  return {_mm512_maskz_cvtps_pd(0xff, _mm512_maskz_extractf32x8_ps(0xff, x.raw, which))};
}
STAVE_INLINE F64 low_half(F32 x) { return half<0>(x); }
STAVE_INLINE F64 high_half(F32 x) { return half<1>(x); }

STAVE_INLINE Vec<std::uint32_t> load_uint16(const void* from) {
  return {reinterpret_cast<Vec<std::uint32_t>::Raw>(
      _mm512_maskz_cvtepu16_epi32(0xffff, _mm256_loadu_si256(static_cast<const __m256i*>(from))))};
}
STAVE_INLINE void store_uint16(Vec<std::uint32_t> v, void* to) {
  _mm512_mask_cvtepi32_storeu_epi16(to, 0xffff, reinterpret_cast<__m512i>(v.raw));
}
STAVE_INLINE Vec<std::uint32_t> load_uint8(const void* from) {
  return {reinterpret_cast<Vec<std::uint32_t>::Raw>(
      _mm512_maskz_cvtepu8_epi32(0xffff, _mm_loadu_si128(static_cast<const __m128i*>(from))))};
}
// A lane of 64 bits has a byte: its low half stays in the lower 32 bits, and its high half is
// shifted to the upper ones.
STAVE_INLINE Vec<std::uint32_t> load_uint4(const void* from) {
  const auto bytes = reinterpret_cast<Vec<std::uint64_t>::Raw>(
      _mm512_maskz_cvtepu8_epi64(0xff, _mm_loadl_epi64(static_cast<const __m128i*>(from))));
  return {reinterpret_cast<Vec<std::uint32_t>::Raw>(bytes | bytes << 28) & 15};
}
STAVE_INLINE F32 load_float16(const void* from) {
  return {_mm512_maskz_cvtph_ps(0xffff, _mm256_loadu_si256(static_cast<const __m256i*>(from)))};
}
STAVE_INLINE void store_float16(F32 x, void* to) {
  _mm256_storeu_si256(static_cast<__m256i*>(to), _mm512_maskz_cvtps_ph(0xffff, x.raw, _MM_FROUND_TO_NEAREST_INT));
}

}  // namespace STAVE_KERNELS
