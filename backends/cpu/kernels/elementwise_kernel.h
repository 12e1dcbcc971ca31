// From an elementwise operation's struct to its block kernels: one for each dtype that `operands` admits.
#pragma once

#include <stave/backends/cpu/kernels/kernels.h>
#include <stave/backends/cpu/kernels/vec_math.h>
#include <stave/core/ops/elementwise_ops.h>

namespace STAVE_KERNELS {

using stave_cpu::BlockKernel;
using stave_cpu::Dtype;
using stave_cpu::Index;
using stave_cpu::OpId;
using stave_detail::Operands;
using stave_detail::Result;

template <class S, class T>
STAVE_INLINE auto apply(Vec<T> a, Vec<T>, int (*)[1]) {
  return S::value(a);
}
template <class S, class T>
STAVE_INLINE auto apply(Vec<T> a, Vec<T> b, int (*)[2]) {
  return S::value(a, b);
}
template <class T>
STAVE_INLINE void store(Vec<T> v, void* to) {
  v.store(to);
}
template <class T>
STAVE_INLINE void store(Mask<T> v, void* to) {
  store_booleans(v, to);
}
template <class T>
STAVE_INLINE void store_first(Vec<T> v, void* to, Index n) {
  if (n == 1) *static_cast<typename Vec<T>::Lane*>(to) = v[0];
  else store_some(v, to, n);
}
template <class T>
STAVE_INLINE void store_first(Mask<T> v, void* to, Index n) {
  std::uint8_t booleans[Vec<T>::lanes];
  if (n == 1) {
    *static_cast<std::uint8_t*>(to) = static_cast<std::uint8_t>(v.bits[0] & 1);
  } else {
    store_booleans(v, booleans);
    __builtin_memcpy(to, booleans, static_cast<std::size_t>(n));
  }
}

/// Fewer elements than a vector has: the same function over a padded one, so that results do not depend on the position.
template <class S, class T, int arity>
void short_block(void* out, const void* const* in, Index n) {
  using V = Vec<T>;
  using Lane = typename V::Lane;
  constexpr auto tag = static_cast<int(*)[arity]>(nullptr);
  if (n == 1) {
    V a(*static_cast<const Lane*>(in[0])), b(*static_cast<const Lane*>(in[arity - 1]));
    store_first(apply<S, T>(a, b, tag), out, 1);
  } else {
    V a = load_some<T>(in[0], n), b = load_some<T>(in[arity - 1], n);
    store_first(apply<S, T>(a, b, tag), out, n);
  }
}

template <class S, class T, int arity>
void block(void* out, const void* const* in, Index n) {
  using V = Vec<T>;
  using Lane = typename V::Lane;
  constexpr Index result_size = S::result == Result::boolean ? 1 : sizeof(Lane);
  constexpr auto tag = static_cast<int(*)[arity]>(nullptr);
  if (n < V::lanes) return short_block<S, T, arity>(out, in, n);
  const Lane* a = static_cast<const Lane*>(in[0]);
  const Lane* b = static_cast<const Lane*>(in[arity - 1]);
  char* to = static_cast<char*>(out);
  // The last elements are done as one overlapping vector, read before an in-place call could overwrite them.
  Index last = n - V::lanes, i = 0;
  V last_a = V::load(a + last), last_b = V::load(b + last);
  if constexpr (constexpr int group = sizeof(Lane); S::result == Result::boolean && group > 1)
    for (; i + group * V::lanes <= n; i += group * V::lanes) {
      Mask<T> masks[group];
      for (int k = 0; k < group; ++k)
        masks[k] = apply<S, T>(V::load(a + i + k * V::lanes), V::load(b + i + k * V::lanes), tag);
      store_booleans(masks, to + i);
    }
  for (; i < last; i += V::lanes) store(apply<S, T>(V::load(a + i), V::load(b + i), tag), to + i * result_size);
  store(apply<S, T>(last_a, last_b, tag), to + last * result_size);
}

/// One row of the table: the kernels of S.
template <class S, int arity>
void fill_row(BlockKernel* row) {
  constexpr Operands in = S::operands;
  constexpr bool wholes = in == Operands::integers || in == Operands::bits;
  constexpr bool floats = in != Operands::bools && !wholes;
  constexpr bool integers = in == Operands::numbers || in == Operands::any || wholes;
  if constexpr (floats) {
    row[static_cast<int>(Dtype::float32)] = block<S, float, arity>;
    row[static_cast<int>(Dtype::float64)] = block<S, double, arity>;
  }
  if constexpr (integers) {
    row[static_cast<int>(Dtype::uint8)] = block<S, std::uint8_t, arity>;
    row[static_cast<int>(Dtype::uint32)] = block<S, std::uint32_t, arity>;
    row[static_cast<int>(Dtype::int32)] = block<S, std::int32_t, arity>;
    row[static_cast<int>(Dtype::int64)] = block<S, std::int64_t, arity>;
  }
  if constexpr (in == Operands::any || in == Operands::bools || in == Operands::bits)
    row[static_cast<int>(Dtype::bool_)] = block<S, bool, arity>;
}

}  // namespace STAVE_KERNELS
