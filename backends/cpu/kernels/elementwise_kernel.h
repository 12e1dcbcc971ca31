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

/// Computes the last n elements, fewer than a vector has. They are padded to a vector, so that the
/// same vector function computes every element, and a result does not depend on the element's
/// position.
template <class S, class T, int arity>
void short_block(void* out, const void* const* in, Index n) {
  using V = VecOf<T>;
  using Lane = typename V::Lane;
  constexpr auto tag = static_cast<int(*)[arity]>(nullptr);
  if (n == 1) {
    V a(static_cast<Lane>(*static_cast<const Element<T>*>(in[0]))),
        b(static_cast<Lane>(*static_cast<const Element<T>*>(in[arity - 1])));
    put_first<T>(apply<S>(a, b, tag), out, 1);
  } else {
    V a = load_first<T>(in[0], n), b = load_first<T>(in[arity - 1], n);
    put_first<T>(apply<S>(a, b, tag), out, n);
  }
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
  else return block<S, T, arity>;
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
