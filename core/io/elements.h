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

/// Returns a tensor in memory of its own. read(to, bytes) reads its elements, little-endian, from a
/// file. `operation` begins the error messages.
Tensor read_elements(Dtype dtype, const Shape& shape, const char* operation,
                     FunctionRef<void(char*, std::uint64_t)> read);
/// Returns a tensor whose elements, little-endian, begin at byte `offset` of a mapped file
/// (mapping.h): a view of the file if they are stored there as kernels read them, otherwise a copy.
Tensor mapped_elements(const StoragePtr& mapping, std::uint64_t offset, Dtype dtype, const Shape& shape,
                       const char* operation);

/// Reverses the byte order of all elements; `size` is the size of one element in bytes.
void reverse_bytes(char* data, std::uint64_t bytes, std::size_t size);

}  // namespace stave_detail
