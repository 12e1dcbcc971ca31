// Portable versions of primitives, for instruction sets that have no instruction for them.
#pragma once

#include <stave/backends/cpu/kernels/vec.h>

namespace STAVE_KERNELS::generic {

template <class T>
STAVE_INLINE Vec<T> load_some(const void* from, std::int64_t n) {
  typename Vec<T>::Lane lanes[Vec<T>::lanes] = {};
  __builtin_memcpy(lanes, from, static_cast<std::size_t>(n) * sizeof lanes[0]);
  return Vec<T>::load(lanes);
}
STAVE_INLINE F32 load_between(const float* from, std::int64_t first, std::int64_t last) {
  float lanes[F32::lanes] = {};
  __builtin_memcpy(lanes + first, from + first, static_cast<std::size_t>(last - first) * sizeof(float));
  return F32::load(lanes);
}
template <class T>
STAVE_INLINE void store_some(Vec<T> v, void* to, std::int64_t n) {
  __builtin_memcpy(to, &v, static_cast<std::size_t>(n) * sizeof(typename Vec<T>::Lane));
}

template <class T>
STAVE_INLINE bool any(Mask<T> mask) {
  typedef long long Words __attribute__((vector_size(STAVE_VECTOR_BYTES)));
  Words words = reinterpret_cast<Words>(mask.bits);
  long long all = 0;
  for (int i = 0; i < static_cast<int>(STAVE_VECTOR_BYTES / 8); ++i) all |= words[i];
  return all != 0;
}
/// Returns a b + c with one rounding, computed one lane at a time.
STAVE_INLINE F32 fma(F32 a, F32 b, F32 c) {
  for (int i = 0; i < F32::lanes; ++i) c.raw[i] = __builtin_fmaf(a.raw[i], b.raw[i], c.raw[i]);
  return c;
}
STAVE_INLINE F64 fma(F64 a, F64 b, F64 c) {
  for (int i = 0; i < F64::lanes; ++i) c.raw[i] = __builtin_fma(a.raw[i], b.raw[i], c.raw[i]);
  return c;
}

// rint adds 2^23 (2^52 for double), which leaves no bits for a fraction, and subtracts it again.
// Numbers that are larger than this are integers already.
template <class T>
  requires is_real<T>
STAVE_INLINE Vec<T> rint(Vec<T> x) {
  Vec<T> magic(sizeof(T) == 4 ? 0x1p23 : 0x1p52);
  Vec<T> rounded = copysign((abs(x) + magic) - magic, x);
  return select(abs(x) < magic, rounded, x);
}
template <class T>
  requires is_real<T>
STAVE_INLINE Vec<T> floor(Vec<T> x) {
  Vec<T> r = rint(x);
  return select(r > x, r - Vec<T>(1), r);
}
template <class T>
  requires is_real<T>
STAVE_INLINE Vec<T> ceil(Vec<T> x) {
  Vec<T> r = rint(x);
  return copysign(select(r < x, r + Vec<T>(1), r), x);
}
template <class T>
  requires is_real<T>
STAVE_INLINE Vec<T> trunc(Vec<T> x) {
  return copysign(floor(abs(x)), x);
}

STAVE_INLINE F32 clamp(F32 low, F32 x, F32 high) {
  x = select(x > high, high, x);
  return select(x < low, low, x);
}

/// These functions load sixteen-bit integers into 32-bit lanes, and store the lower halves of
/// 32-bit lanes.
STAVE_INLINE Vec<std::uint32_t> load_uint16(const void* from) {
  typedef std::uint16_t Half __attribute__((vector_size(STAVE_VECTOR_BYTES / 2), aligned(2), may_alias));
  return {__builtin_convertvector(*static_cast<const Half*>(from), Vec<std::uint32_t>::Raw)};
}
STAVE_INLINE void store_uint16(Vec<std::uint32_t> v, void* to) {
  typedef std::uint16_t Half __attribute__((vector_size(STAVE_VECTOR_BYTES / 2), aligned(2), may_alias));
  *static_cast<Half*>(to) = __builtin_convertvector(v.raw, Half);
}

/// load_uint8 loads bytes into 32-bit lanes. load_uint4 loads the halves of bytes, the low half of
/// each byte first: for vectors of at most 32 bytes, all the halves fit in one lane.
STAVE_INLINE Vec<std::uint32_t> load_uint8(const void* from) {
  typedef std::uint8_t Bytes __attribute__((vector_size(STAVE_VECTOR_BYTES / 4), aligned(1), may_alias));
  return {__builtin_convertvector(*static_cast<const Bytes*>(from), Vec<std::uint32_t>::Raw)};
}
#if STAVE_VECTOR_BYTES <= 32
STAVE_INLINE Vec<std::uint32_t> load_uint4(const void* from) {
  using Raw = Vec<std::uint32_t>::Raw;
  const auto* bytes = static_cast<const std::uint8_t*>(from);
  std::uint32_t word = 0;
  Raw places{};
  for (int i = 0; i < STAVE_VECTOR_BYTES / 8; ++i) word |= static_cast<std::uint32_t>(bytes[i]) << 8 * i;
  for (int i = 0; i < STAVE_VECTOR_BYTES / 4; ++i) places[i] = static_cast<std::uint32_t>(4 * i);
  return {(word - Raw{}) >> places & 15};
}
#endif

/// These functions convert float16 from and to float32, with the results of core/tensor/half.h, a
/// vector at a time.
STAVE_INLINE F32 load_float16(const void* from) {
  using Bits = Vec<std::uint32_t>;
  const Bits half = load_uint16(from);
  const F32 magnitude = F32{reinterpret_cast<F32::Raw>((half.raw & 0x7fff) << 13)} * F32(0x1p112);
  const Bits::Raw special = reinterpret_cast<Bits::Raw>((magnitude >= F32(0x1p16)).bits) & 0x7f800000;
  return {reinterpret_cast<F32::Raw>(reinterpret_cast<Bits::Raw>(magnitude.raw) | special | (half.raw & 0x8000) << 16)};
}
STAVE_INLINE void store_float16(F32 x, void* to) {
  using Raw = Vec<std::uint32_t>::Raw;
  const Raw bits = reinterpret_cast<Raw>(x.raw), magnitude = bits & 0x7fffffff;
  const Raw small = reinterpret_cast<Raw>((abs(x) + F32(0.5)).raw) - 0x3f000000;
  const Raw normal = (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13;
  const Raw not_finite = magnitude > 0x7f800000 ? 0x7e00 | (magnitude >> 13 & 0x3ff) : Raw{} + 0x7c00;
  const Raw result = magnitude >= 0x47800000 ? not_finite : magnitude < 0x38800000 ? small : normal;
  store_uint16({result | (bits >> 16 & 0x8000)}, to);
}

inline constexpr bool can_stream = false;
STAVE_INLINE void stream(void*, const void*) {}
STAVE_INLINE void order_streams() {}

}  // namespace STAVE_KERNELS::generic
