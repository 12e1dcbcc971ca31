// Conversion between elements of arrays and bytes of files.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include <stave/core/effects/function_ref.h>
#include <stave/core/tensor/tensor.h>

namespace stave_detail {

using namespace stave;

// The most axes of an array that is read: the limit of NumPy.
inline constexpr std::size_t most_axes = 64;

/// Returns the size of an array in bytes, or nothing if the size overflows. For this check, axes of
/// length 0 count as length 1, because strides are computed from the other axes.
std::optional<std::uint64_t> bytes_of(Dtype dtype, const Shape& shape);

/// Calls write(bytes) once with all elements, row-major. Errors of reading the tensor pass through.
void with_elements(const Tensor& x, FunctionRef<void(std::span<const char>)> write);

/// Reverses the byte order of all elements; `size` is the size of one element in bytes.
void reverse_bytes(char* data, std::uint64_t bytes, std::size_t size);

}  // namespace stave_detail
