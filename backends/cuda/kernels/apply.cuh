// Elementwise operations applied to elements as they are stored in memory. Every
// elementwise kernel uses these.
#pragma once

#include <stave/core/ops/elementwise_ops.h>
#include <stave/backends/cuda/kernels/lane.cuh>

namespace stave_cuda {

/// A group of `lanes` elements of T, read or written by one memory access.
template <class T, int lanes>
struct alignas(sizeof(T) * lanes) Pack {
  T lane[lanes];
};

template <class S, class T>
struct Apply {
  using L = Lane<stave::Computed<T>>;
  static STAVE_BOTH Element<T> stored(L lane) { return element_of<Element<T>>(lane.value); }
  static STAVE_BOTH std::uint8_t stored(Truth truth) { return truth.value; }
  static STAVE_BOTH auto apply(Element<T> a) { return stored(S::template value<L>(L(computed(a)))); }
  static STAVE_BOTH auto apply(Element<T> a, Element<T> b) {
    if constexpr (std::is_same_v<S, stave_detail::Nextafter> && stave::is_half<T>)
      // If the next number were computed as a float, rounding to 16 bits would lose it.
      return stave_detail::next_half(a, b);
    else return stored(S::template value<L>(L(computed(a)), L(computed(b))));
  }
};
template <class S, class T>
using OutOf = std::conditional_t<S::result == stave_detail::Result::boolean, std::uint8_t, Element<T>>;

/// True if S gives the same bits for signed integers as for unsigned ones.
template <class S>
inline constexpr bool ignores_sign =
    stave_detail::is_among<S, stave_detail::Negative, stave_detail::Square, stave_detail::Floor, stave_detail::Ceil,
                           stave_detail::Round, stave_detail::Trunc, stave_detail::Isnan, stave_detail::Isinf,
                           stave_detail::Isfinite, stave_detail::Add, stave_detail::Subtract, stave_detail::Multiply,
                           stave_detail::Scale, stave_detail::Equal, stave_detail::NotEqual, stave_detail::BitwiseAnd,
                           stave_detail::BitwiseOr, stave_detail::BitwiseXor, stave_detail::BitwiseInvert,
                           stave_detail::BitwiseLeftShift>;
/// The type whose kernel of S computes elements of T. bool uses the kernel of bytes, except in
/// bitwise_invert, which inverts the truth value of a bool.
template <class S, class T>
using KernelType =
    std::conditional_t<std::is_same_v<T, bool>,
                       std::conditional_t<std::is_same_v<S, stave_detail::BitwiseInvert>, bool, Signless<T>>,
                       std::conditional_t<ignores_sign<S>, Signless<T>, T>>;

/// The operation `where`.
struct Choose {
  template <class T>
  static STAVE_BOTH T apply(std::uint8_t condition, T x, T y) {
    return condition ? x : y;
  }
};

}  // namespace stave_cuda
