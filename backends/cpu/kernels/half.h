// Loads and stores of vectors of every dtype. The load widens sixteen-bit floats to float32,
// and the store rounds float32 to the nearest sixteen-bit float. Vectors of every other dtype
// have elements of that dtype.
#pragma once

#include <machine.h>

namespace STAVE_KERNELS {

using stave::BFloat16;
using stave::Computed;
using stave::Float16;
using stave::is_half;

/// The type with which an element of T is stored in memory.
template <class T>
using Element = typename LaneOf<T>::Type;

/// The vector type in which elements of T are computed: for sixteen-bit floats, a vector of
/// float32.
template <class T>
using VecOf = Vec<Computed<T>>;

STAVE_INLINE F32 floats_of(Vec<std::uint32_t> bits, BFloat16) { return {reinterpret_cast<F32::Raw>(bits.raw << 16)}; }
STAVE_INLINE Vec<std::uint32_t> rounded(F32 x, BFloat16) {
  const Vec<std::uint32_t> bits{reinterpret_cast<Vec<std::uint32_t>::Raw>(x.raw)};
  const Vec<std::uint32_t>::Raw nearest = (bits.raw + 0x7fff + (bits.raw >> 16 & 1)) >> 16;
  return {reinterpret_cast<Vec<std::uint32_t>::Raw>((x != x).bits) != 0 ? bits.raw >> 16 | 0x40 : nearest};
}

template <class T>
STAVE_INLINE VecOf<T> load(const void* from) {
  if constexpr (std::is_same_v<T, Float16>) return load_float16(from);
  else if constexpr (is_half<T>) return floats_of(load_uint16(from), T());
  else return Vec<T>::load(from);
}
template <class T>
STAVE_INLINE void store(VecOf<T> v, void* to) {
  if constexpr (std::is_same_v<T, Float16>) store_float16(v, to);
  else if constexpr (is_half<T>) store_uint16(rounded(v, T()), to);
  else v.store(to);
}

/// These functions load and store the first n elements, 0 <= n <= lanes. The other lanes are read
/// as 0 and are not written.
template <class T>
STAVE_INLINE VecOf<T> load_first(const void* from, std::int64_t n) {
  if constexpr (is_half<T>) {
    T elements[VecOf<T>::lanes] = {};
    __builtin_memcpy(elements, from, static_cast<std::size_t>(n) * sizeof(T));
    return load<T>(elements);
  } else {
    return load_some<T>(from, n);
  }
}
template <class T>
STAVE_INLINE void store_first(VecOf<T> v, void* to, std::int64_t n) {
  if constexpr (is_half<T>) {
    T elements[VecOf<T>::lanes];
    store<T>(v, elements);
    __builtin_memcpy(to, elements, static_cast<std::size_t>(n) * sizeof(T));
  } else {
    store_some(v, to, n);
  }
}

/// These functions convert n elements of T to float32, and float32 to elements of T.
template <class T>
STAVE_INLINE void widen(const T* from, std::int64_t n, float* to) {
  std::int64_t i = 0;
  for (; i + F32::lanes <= n; i += F32::lanes) load<T>(from + i).store(to + i);
  for (; i < n; ++i) to[i] = from[i];
}
template <class T>
STAVE_INLINE void narrow(const float* from, std::int64_t n, T* to) {
  std::int64_t i = 0;
  for (; i + F32::lanes <= n; i += F32::lanes) store<T>(F32::load(from + i), to + i);
  for (; i < n; ++i) to[i] = T(from[i]);
}

}  // namespace STAVE_KERNELS
