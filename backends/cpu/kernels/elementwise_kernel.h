// Instantiates block kernels from the struct of an elementwise operation
// (core/ops/elementwise_ops.h): one kernel for each dtype that the struct's member `operands`
// admits.
#pragma once

#include <stave/backends/cpu/kernels/half.h>
#include <stave/backends/cpu/kernels/kernels.h>
#include <stave/backends/cpu/kernels/vec_math.h>
#include <stave/core/ops/elementwise_ops.h>

namespace STAVE_KERNELS {

using stave_cpu::BlockKernel;
using stave_cpu::Dtype;
using stave_cpu::Index;
using stave_cpu::OpId;
using stave_detail::Result;
using stave_detail::Work;

template <class S, class V>
STAVE_INLINE auto apply(V a, V, int (*)[1]) {
  return S::value(a);
}
template <class S, class V>
STAVE_INLINE auto apply(V a, V b, int (*)[2]) {
  return S::value(a, b);
}
/// Stores a result, which is a vector of T or a mask.
template <class T>
STAVE_INLINE void put(VecOf<T> v, void* to) {
  store<T>(v, to);
}
template <class T>
STAVE_INLINE void put(Mask<Computed<T>> v, void* to) {
  store_booleans(v, to);
}
template <class T>
STAVE_INLINE void put_first(VecOf<T> v, void* to, Index n) {
  if (n == 1) *static_cast<Element<T>*>(to) = Element<T>(v[0]);
  else store_first<T>(v, to, n);
}
template <class T>
STAVE_INLINE void put_first(Mask<Computed<T>> v, void* to, Index n) {
  std::uint8_t booleans[VecOf<T>::lanes];
  if (n == 1) {
    *static_cast<std::uint8_t*>(to) = static_cast<std::uint8_t>(v.bits[0] & 1);
  } else {
    store_booleans(v, booleans);
    __builtin_memcpy(to, booleans, static_cast<std::size_t>(n));
  }
}

/// Loads n elements, fewer than a vector has. They are padded to a vector, so that the same vector
/// function computes every element, and a result does not depend on the element's position.
template <class T>
STAVE_INLINE VecOf<T> load_short(const void* from, Index n) {
  using Lane = typename VecOf<T>::Lane;
  if (n == 1) return VecOf<T>(static_cast<Lane>(*static_cast<const Element<T>*>(from)));
  return load_first<T>(from, n);
}
/// Computes n elements, fewer than a vector has. Of a single element, compilers compute one lane.
template <class S, class T, int arity>
void short_block(void* out, const void* const* in, Index n) {
  constexpr auto tag = static_cast<int(*)[arity]>(nullptr);
  if (n == 1) put_first<T>(apply<S>(load_short<T>(in[0], 1), load_short<T>(in[arity - 1], 1), tag), out, 1);
  else put_first<T>(apply<S>(load_first<T>(in[0], n), load_first<T>(in[arity - 1], n), tag), out, n);
}

template <class S, class T, int arity>
void block(void* out, const void* const* in, Index n) {
  using V = VecOf<T>;
  constexpr Index result_size = S::result == Result::boolean ? 1 : sizeof(Element<T>);
  constexpr auto tag = static_cast<int(*)[arity]>(nullptr);
  if (n < V::lanes) return short_block<S, T, arity>(out, in, n);
  const auto* a = static_cast<const Element<T>*>(in[0]);
  const auto* b = static_cast<const Element<T>*>(in[arity - 1]);
  char* to = static_cast<char*>(out);
  // The last elements are computed as one vector that overlaps the previous one. The vector is
  // loaded first, because an in-place call overwrites its elements.
  Index last = n - V::lanes, i = 0;
  V last_a = load<T>(a + last), last_b = load<T>(b + last);
  if constexpr (constexpr int group = sizeof(typename V::Lane); S::result == Result::boolean && group > 1)
    for (; i + group * V::lanes <= n; i += group * V::lanes) {
      Mask<Computed<T>> masks[group];
      for (int k = 0; k < group; ++k)
        masks[k] = apply<S>(load<T>(a + i + k * V::lanes), load<T>(b + i + k * V::lanes), tag);
      store_booleans(masks, to + i);
    }
  for (; i < last; i += V::lanes) put<T>(apply<S>(load<T>(a + i), load<T>(b + i), tag), to + i * result_size);
  put<T>(apply<S>(last_a, last_b, tag), to + last * result_size);
}

/// As `block`, for functions of floats. Their code is long, so a block of fewer elements than a
/// vector and the last vector share it.
template <class S, class T, int arity>
void function_block(void* out, const void* const* in, Index n) {
  using V = VecOf<T>;
  constexpr auto tag = static_cast<int(*)[arity]>(nullptr);
  const auto* a = static_cast<const Element<T>*>(in[0]);
  const auto* b = static_cast<const Element<T>*>(in[arity - 1]);
  auto* to = static_cast<Element<T>*>(out);
  const bool is_short = n < V::lanes;
  const Index last = is_short ? 0 : n - V::lanes;
  const V last_a = is_short ? load_short<T>(a, n) : load<T>(a + last);
  const V last_b = is_short ? load_short<T>(b, n) : load<T>(b + last);
  for (Index i = 0; i < last; i += V::lanes) store<T>(apply<S>(load<T>(a + i), load<T>(b + i), tag), to + i);
  const V y = apply<S>(last_a, last_b, tag);
  if (is_short) put_first<T>(y, to, n);
  else store<T>(y, to + last);
}

/// Applies a kernel of float32 to sixteen-bit floats, a block of elements at a time.
template <class T>
STAVE_OUTLINE void apply_in_float32(BlockKernel kernel, int arity, void* out, const void* const* in, Index n) {
  constexpr Index most = 256;
  float x[2][most];
  const void* const from[] = {x[0], x[1]};
  for (Index i = 0; i < n; i += most) {
    const Index count = n - i < most ? n - i : most;
    for (int k = 0; k < arity; ++k)
      for (Index j = 0; j < count; j += F32::lanes) {
        const T* const at = static_cast<const T*>(in[k]) + i + j;
        (count - j < F32::lanes ? load_short<T>(at, count - j) : load<T>(at)).store(x[k] + j);
      }
    kernel(x[0], from, count);
    for (Index j = 0; j < count; j += F32::lanes) {
      T* const to = static_cast<T*>(out) + i + j;
      if (count - j < F32::lanes) put_first<T>(F32::load(x[0] + j), to, count - j);
      else store<T>(F32::load(x[0] + j), to);
    }
  }
}
template <class T, BlockKernel in_float32, int arity>
void half_block(void* out, const void* const* in, Index n) {
  apply_in_float32<T>(in_float32, arity, out, in, n);
}

/// Computes nextafter of sixteen-bit floats. Unlike the other kernels, it does not compute in
/// float32: the float32 next to x would be rounded to x again.
template <class T>
void nextafter_half(void* out, const void* const* in, Index n) {
  const auto *x = static_cast<const T*>(in[0]), *y = static_cast<const T*>(in[1]);
  for (Index i = 0; i < n; ++i) static_cast<T*>(out)[i] = stave_detail::next_half(x[i], y[i]);
}

template <class S, class T, int arity>
constexpr BlockKernel kernel_of() {
  if constexpr (std::is_same_v<S, stave_detail::Nextafter> && is_half<T>) return nextafter_half<T>;
  else if constexpr (S::work == Work::arithmetic || std::is_integral_v<T>) return block<S, T, arity>;
  else if constexpr (is_half<T>) return half_block<T, kernel_of<S, float, arity>(), arity>;
  else if constexpr (S::work == Work::remainder) return block<S, T, arity>;
  else return function_block<S, T, arity>;
}

/// Fills the row of the kernel table for the operation of struct S: one kernel for each dtype that
/// S admits.
template <class S, int arity>
void fill_row(BlockKernel* row) {
#define X(name, type)                                    \
  if constexpr (stave_detail::admits<type>(S::operands)) \
    row[static_cast<int>(Dtype::name)] = kernel_of<S, type, arity>();
  STAVE_REALS(X)
#undef X
}

}  // namespace STAVE_KERNELS
