// Primitives for instruction sets that have no instruction for them.
#pragma once

#include <stave/backends/cpu/kernels/vec.h>

namespace STAVE_KERNELS::generic {

template <class T>
STAVE_INLINE Vec<T> load_some(const void* from, std::int64_t n) {
  typename Vec<T>::Lane lanes[Vec<T>::lanes] = {};
  __builtin_memcpy(lanes, from, static_cast<std::size_t>(n) * sizeof lanes[0]);
  return Vec<T>::load(lanes);
}
template <class T>
STAVE_INLINE void store_some(Vec<T> v, void* to, std::int64_t n) {
  __builtin_memcpy(to, &v, static_cast<std::size_t>(n) * sizeof(typename Vec<T>::Lane));
}

/// Rounded once, a lane at a time.
STAVE_INLINE F32 fma(F32 a, F32 b, F32 c) {
  for (int i = 0; i < F32::lanes; ++i) c.raw[i] = __builtin_fmaf(a.raw[i], b.raw[i], c.raw[i]);
  return c;
}
STAVE_INLINE F64 fma(F64 a, F64 b, F64 c) {
  for (int i = 0; i < F64::lanes; ++i) c.raw[i] = __builtin_fma(a.raw[i], b.raw[i], c.raw[i]);
  return c;
}

// Adding 2^23 (2^52) leaves no bits for a fraction. Larger numbers are integers.
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

inline constexpr bool can_stream = false;
STAVE_INLINE void stream(void*, const void*) {}
STAVE_INLINE void order_streams() {}

}  // namespace STAVE_KERNELS::generic
