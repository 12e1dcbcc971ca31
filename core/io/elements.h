// Elements of arrays as the bytes of files.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include <stave/core/effects/function_ref.h>
#include <stave/core/tensor/tensor.h>

namespace stave_detail {

using namespace stave;

inline constexpr std::size_t most_axes = 64;  // of an array that is read; as in NumPy

/// The bytes of an array; none if that is no number, or would be none if axes of length 0 had another one: strides are made of them.
std::optional<std::uint64_t> bytes_of(Dtype dtype, const Shape& shape);

/// Calls write(bytes) with the elements, row-major. Throws what reading the tensor throws.
void with_elements(const Tensor& x, FunctionRef<void(std::span<const char>)> write);

/// From the other byte order.
void reverse_bytes(char* data, std::uint64_t bytes, std::size_t size);

}  // namespace stave_detail
