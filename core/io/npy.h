// The .npy format: a header that is a Python dictionary, and the elements.
// Source: numpy.lib.format, https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#pragma once

#include <span>
#include <string>

#include <stave/core/effects/function_ref.h>
#include <stave/core/io/file.h>
#include <stave/core/tensor.h>

namespace stave_detail {

/// What comes before the elements of a row-major array.
std::string npy_header(Dtype dtype, const Shape& shape);
/// Calls write(bytes) with the elements, row-major. Throws what reading the tensor throws.
void with_npy_elements(const Tensor& x, FunctionRef<void(std::span<const char>)> write);

/// The array that begins here; contiguous. Whatever follows it is left alone.
Tensor read_npy(Source& source);

}  // namespace stave_detail
