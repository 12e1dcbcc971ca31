// Vec<T>: a SIMD register of T as a value type, over the vector extensions of GCC and Clang.
//
// Elementwise operations use it as their `T` (core/ops/elementwise_ops.h). It has arithmetic
// that wraps for integers, comparisons that give a Mask, select(mask, a, b), and the functions
// of vec_math.h. bool is a byte of 0 or 1. Float16 and BFloat16 have no vectors of their own:
// half.h converts them to float32 on load and back on store. The instruction set's machine.h
// includes this file and defines the width of a register.
#pragma once

#include <type_traits>
#include <utility>

#include <stave/backends/cpu/kernels/isa.h>
#include <stave/core/tensor/dtype.h>

#ifndef STAVE_VECTOR_BYTES
#error "include <machine.h> in place of vec.h"
#endif

// Passing vectors by value between functions depends on the ABI, unless the functions are inlined.
// All functions here are inlined.
#pragma GCC diagnostic ignored "-Wpsabi"

namespace STAVE_KERNELS {

/// The type of an element of T in memory, and the integer types of the same size.
template <class T>
struct LaneOf {
  using Unsigned = stave::BitsOf<T>;
  using Signed = std::make_signed_t<Unsigned>;
  using Type = std::conditional_t<std::is_same_v<T, bool>, Unsigned, T>;
};

template <class Lane>
struct HalfOf;
template <>
struct HalfOf<std::int64_t> {
  using Type = std::int32_t;
};
template <>
struct HalfOf<std::int32_t> {
  using Type = std::int16_t;
};
template <>
struct HalfOf<std::int16_t> {
  using Type = std::int8_t;
};

template <class T>
inline constexpr bool is_real = false;
template <>
inline constexpr bool is_real<float> = true;
template <>
inline constexpr bool is_real<double> = true;

/// The result of a comparison: in each lane all bits are set, or none.
template <class T>
struct Mask {
  using Lane = typename LaneOf<T>::Signed;
  typedef Lane Raw __attribute__((vector_size(STAVE_VECTOR_BYTES)));
  Raw bits;
  friend STAVE_INLINE Mask operator&(Mask a, Mask b) { return {a.bits & b.bits}; }
  friend STAVE_INLINE Mask operator|(Mask a, Mask b) { return {a.bits | b.bits}; }
  friend STAVE_INLINE Mask operator^(Mask a, Mask b) { return {a.bits ^ b.bits}; }
  friend STAVE_INLINE Mask operator~(Mask a) { return {~a.bits}; }
};

template <class T>
struct Vec {
  using Lane = typename LaneOf<T>::Type;
  using UnsignedLane = typename LaneOf<T>::Unsigned;
  static constexpr int lanes = static_cast<int>(STAVE_VECTOR_BYTES / sizeof(Lane));
  typedef Lane Raw __attribute__((vector_size(STAVE_VECTOR_BYTES)));
  typedef UnsignedLane Unsigned __attribute__((vector_size(STAVE_VECTOR_BYTES)));
  typedef Lane Unaligned __attribute__((vector_size(STAVE_VECTOR_BYTES), aligned(alignof(Lane)), may_alias));
  using MaskRaw = typename Mask<T>::Raw;

  Raw raw;

  Vec() = default;
  STAVE_INLINE Vec(Raw r) : raw(r) {}
  /// Sets every lane to `value`. It computes value - 0, because x - 0 is x for every x; x + 0 is
  /// not x for x = -0.
  template <class N>
    requires(__is_same(N, int) || __is_same(N, double) || __is_same(N, Lane))
  STAVE_INLINE explicit Vec(N value) : raw(static_cast<Lane>(value) - Raw{}) {}

  static STAVE_INLINE Vec load(const void* from) { return {static_cast<Raw>(*static_cast<const Unaligned*>(from))}; }
  STAVE_INLINE void store(void* to) const { *static_cast<Unaligned*>(to) = raw; }
  STAVE_INLINE Lane operator[](int lane) const { return raw[lane]; }

  // Integers wrap: they are computed as unsigned integers, whose overflow is defined.
  static STAVE_INLINE Unsigned wrapping(Vec v) { return reinterpret_cast<Unsigned>(v.raw); }
  friend STAVE_INLINE Vec operator+(Vec a, Vec b) {
    if constexpr (is_real<T>) return {a.raw + b.raw};
    else return {reinterpret_cast<Raw>(wrapping(a) + wrapping(b))};
  }
  friend STAVE_INLINE Vec operator-(Vec a, Vec b) {
    if constexpr (is_real<T>) return {a.raw - b.raw};
    else return {reinterpret_cast<Raw>(wrapping(a) - wrapping(b))};
  }
  friend STAVE_INLINE Vec operator*(Vec a, Vec b) {
    if constexpr (is_real<T>) return {a.raw * b.raw};
    else return {reinterpret_cast<Raw>(wrapping(a) * wrapping(b))};
  }
  friend STAVE_INLINE Vec operator/(Vec a, Vec b) { return {a.raw / b.raw}; }
  friend STAVE_INLINE Vec operator-(Vec a) {
    if constexpr (is_real<T>) return {-a.raw};
    else return {reinterpret_cast<Raw>(Unsigned{} - wrapping(a))};
  }

  friend STAVE_INLINE Mask<T> operator==(Vec a, Vec b) { return {reinterpret_cast<MaskRaw>(a.raw == b.raw)}; }
  friend STAVE_INLINE Mask<T> operator!=(Vec a, Vec b) { return {reinterpret_cast<MaskRaw>(a.raw != b.raw)}; }
  friend STAVE_INLINE Mask<T> operator<(Vec a, Vec b) { return {reinterpret_cast<MaskRaw>(a.raw < b.raw)}; }
  friend STAVE_INLINE Mask<T> operator<=(Vec a, Vec b) { return {reinterpret_cast<MaskRaw>(a.raw <= b.raw)}; }
  friend STAVE_INLINE Mask<T> operator>(Vec a, Vec b) { return {reinterpret_cast<MaskRaw>(a.raw > b.raw)}; }
  friend STAVE_INLINE Mask<T> operator>=(Vec a, Vec b) { return {reinterpret_cast<MaskRaw>(a.raw >= b.raw)}; }

  friend STAVE_INLINE Vec select(Mask<T> mask, Vec a, Vec b) { return {mask.bits ? a.raw : b.raw}; }
};

/// Selects between two scalars, so that a formula for Vec also compiles for a scalar.
template <class T>
STAVE_INLINE T select(bool condition, T a, T b) {
  return condition ? a : b;
}

/// Returns a * b, wrapping for integers. It computes in unsigned integers, because C++ would
/// multiply narrow integers as int, which may overflow.
template <class T>
STAVE_INLINE T times(T a, T b) {
  if constexpr (std::is_integral_v<T>) return static_cast<T>(1u * a * b);
  else return a * b;
}

/// Stores a mask as bytes of 0 and 1, one for each lane.
template <class T>
STAVE_INLINE void store_booleans(Mask<T> mask, void* to) {
  constexpr int lanes = Vec<T>::lanes;
  typedef std::int8_t Bytes __attribute__((vector_size(lanes)));
  Bytes bytes = __builtin_convertvector(mask.bits, Bytes) & static_cast<std::int8_t>(1);
  __builtin_memcpy(to, &bytes, static_cast<std::size_t>(lanes));
}

/// Returns one vector with the low half of each lane of two vectors.
template <class Halves, class Raw, int... lane>
STAVE_INLINE Halves low_halves(Raw a, Raw b, std::integer_sequence<int, lane...>) {
  return __builtin_shufflevector(reinterpret_cast<Halves>(a), reinterpret_cast<Halves>(b), (2 * lane)...);
}
/// Returns one vector that has the low byte of each lane of sizeof(Lane) vectors.
/// Compilers would narrow a single vector one lane at a time.
template <class Lane, class Raw>
STAVE_INLINE auto low_bytes(const Raw* vectors) {
  if constexpr (sizeof(Lane) == 1) {
    return *vectors;
  } else {
    using Half = typename HalfOf<Lane>::Type;
    typedef Half Halves __attribute__((vector_size(STAVE_VECTOR_BYTES)));
    constexpr auto lanes = std::make_integer_sequence<int, static_cast<int>(STAVE_VECTOR_BYTES / sizeof(Half))>();
    Halves halves[sizeof(Half)];
    for (std::size_t i = 0; i < sizeof(Half); ++i)
      halves[i] = low_halves<Halves>(vectors[2 * i], vectors[2 * i + 1], lanes);
    return low_bytes<Half>(halves);
  }
}
/// Stores as many masks as a lane has bytes. Each lane becomes a byte of 0 or 1.
template <class T>
STAVE_INLINE void store_booleans(const Mask<T>* masks, void* to) {
  constexpr int group = sizeof(typename Mask<T>::Lane);
  typename Mask<T>::Raw bits[group];
  for (int i = 0; i < group; ++i) bits[i] = masks[i].bits;
  Vec<bool>(reinterpret_cast<Vec<bool>::Raw>(low_bytes<typename Mask<T>::Lane>(bits) & static_cast<std::int8_t>(1)))
      .store(to);
}

// ---- sums ---------------------------------------------------------------------------------------

template <class T, std::size_t bytes, class Raw>
STAVE_INLINE T sum_of_halves(Raw v) {
  if constexpr (bytes == 2 * sizeof(T)) return v[0] + v[1];
  else {
    typedef T Half __attribute__((vector_size(bytes / 2)));
    Half halves[2];
    __builtin_memcpy(halves, &v, bytes);
    return sum_of_halves<T, bytes / 2>(halves[0] + halves[1]);
  }
}
/// Returns the sum of the lanes. It adds the halves of the vector, then the halves of their sum,
/// and so on.
template <class T>
  requires is_real<T>
STAVE_INLINE T sum_across(Vec<T> v) {
  return sum_of_halves<T, STAVE_VECTOR_BYTES>(v.raw);
}

// ---- signs --------------------------------------------------------------------------------------

using F32 = Vec<float>;
using F64 = Vec<double>;

template <class T>
STAVE_INLINE Vec<T> bits_and(Vec<T> a, Mask<T> mask) {
  return {reinterpret_cast<typename Vec<T>::Raw>(reinterpret_cast<typename Mask<T>::Raw>(a.raw) & mask.bits)};
}
template <class T>
STAVE_INLINE Mask<T> sign_bit() {
  return {reinterpret_cast<typename Mask<T>::Raw>(Vec<T>(-0.0).raw)};
}
template <class T>
  requires is_real<T>
STAVE_INLINE Vec<T> abs(Vec<T> x) {
  return bits_and(x, ~sign_bit<T>());
}
template <class T>
  requires(!is_real<T>)
STAVE_INLINE Vec<T> abs(Vec<T> x) {
  return select(x < Vec<T>(0), -x, x);
}
/// Returns |magnitude| with the sign of `sign`.
template <class T>
STAVE_INLINE Vec<T> copysign(Vec<T> magnitude, Vec<T> sign) {
  auto bits = reinterpret_cast<typename Mask<T>::Raw>(abs(magnitude).raw) |
              (reinterpret_cast<typename Mask<T>::Raw>(sign.raw) & sign_bit<T>().bits);
  return {reinterpret_cast<typename Vec<T>::Raw>(bits)};
}

}  // namespace STAVE_KERNELS
