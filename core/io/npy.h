// The .npy format: a header, which is a Python dictionary, followed by the elements.
// Source: numpy.lib.format, https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#pragma once

#include <string>
#include <variant>

#include <stave/core/io/file.h>
#include <stave/core/tensor/tensor.h>

namespace stave_detail {

/// Returns the bytes that precede the elements of a row-major array.
std::string npy_header(Dtype dtype, const Shape& shape);

/// Reads one array, and no byte after it, into a contiguous tensor. Throws FileError, or DtypeError
/// for a dtype that Stave lacks.
Tensor read_npy(Source& source);
/// Reads one array like read_npy. For a dtype that Stave lacks, it does not throw but returns the
/// text of the error: "holds elements of dtype ...".
std::variant<Tensor, std::string> try_read_npy(Source& source);

}  // namespace stave_detail
