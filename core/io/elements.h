// Conversion between elements of arrays and bytes of files.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include <stave/core/effects/function_ref.h>
#include <stave/core/tensor/tensor.h>

namespace stave_detail {

using namespace stave;

inline constexpr std::size_t most_axes = 64;  // of an array that is read; the limit of NumPy

/// Returns the size of an array in bytes. Returns nothing if that overflows, also for an array with
/// an axis of length 0 if it would overflow with length 1 there, because strides are computed from
/// the other axes.
std::optional<std::uint64_t> bytes_of(Dtype dtype, const Shape& shape);

/// Calls write(bytes) once with all elements, row-major. Throws what reading the tensor throws.
void with_elements(const Tensor& x, FunctionRef<void(std::span<const char>)> write);

/// Reverses the byte order of all elements; `size` is the size of one in bytes.
void reverse_bytes(char* data, std::uint64_t bytes, std::size_t size);

}  // namespace stave_detail
