// Elements of tensors in kernels: their bits, their form in memory,
// and the type of their arithmetic.
#pragma once

#include <cstdint>
#include <type_traits>

#include <stave/backends/cuda/host_device.h>
#include <stave/core/tensor/dtype.h>

namespace stave_cuda {

using stave::BitsOf;

/// The type that a kernel is compiled for if the sign of integers does not matter, for example in a
/// sum that wraps. All integers of one size share a kernel, and bool uses the kernel of bytes.
template <class T>
using Signless = std::conditional_t<std::is_integral_v<T>, BitsOf<T>, T>;

/// The type of an element in memory. A bool is a byte of 0 or 1.
template <class T>
using Element = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>;

// On the host, Float16 and BFloat16 convert by integer arithmetic. A device has instructions for
// it.

/// Converts an element to the type of the arithmetic.
template <class T>
STAVE_BOTH stave::Computed<T> computed(T x) {
#ifdef __CUDA_ARCH__
  if constexpr (std::is_same_v<T, stave::Float16>) {
    float wide;
    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(x.bits));
    return wide;
  } else
#endif
    return static_cast<stave::Computed<T>>(x);
}
/// Converts a result of the arithmetic to an element, with one rounding.
template <class T, class N>
STAVE_BOTH T element_of(N x) {
#ifdef __CUDA_ARCH__
  if constexpr (stave::is_half<T> && std::is_same_v<N, float>) {
    T element;
    if constexpr (std::is_same_v<T, stave::Float16>) asm("cvt.rn.f16.f32 %0, %1;" : "=h"(element.bits) : "f"(x));
    else asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(element.bits) : "f"(x));
    return element;
  } else
#endif
    return static_cast<T>(x);
}

}  // namespace stave_cuda
