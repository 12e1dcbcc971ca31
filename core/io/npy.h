// The .npy format: a header that is a Python dictionary, and the elements.
// Source: numpy.lib.format, https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#pragma once

#include <string>
#include <variant>

#include <stave/core/io/file.h>
#include <stave/core/tensor/tensor.h>

namespace stave_detail {

/// What comes before the elements of a row-major array.
std::string npy_header(Dtype dtype, const Shape& shape);

/// The array that begins here; contiguous. Whatever follows it is left alone.
Tensor read_npy(Source& source);
/// The same; or why not, where its dtype is one that Stave lacks: "holds elements of dtype ...".
std::variant<Tensor, std::string> try_read_npy(Source& source);

}  // namespace stave_detail
