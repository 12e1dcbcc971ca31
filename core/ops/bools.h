// Makes valid bools of bytes from outside the library. A bool is a byte of 0 or 1, and kernels
// count, mask and compare such bytes. In other libraries every byte other than 0 is true;
// NumPy's and PyTorch's uint8.view(bool) make such arrays. All functions that take bytes
// from outside convert them by the functions below.
#pragma once

#include <cstddef>

#include <stave/core/tensor/tensor.h>

namespace stave_detail {

using namespace stave;

/// Returns true if all bytes are 0 or 1.
bool are_bools(const char* data, std::size_t bytes) noexcept;
/// Replaces every byte other than 0 by 1.
void make_bools(char* data, std::size_t bytes) noexcept;

/// Returns the tensor itself if all its bytes are 0 or 1, else a copy with 1 in place of every byte
/// other than 0. The bytes are read on their device, and the function waits for the result.
Tensor as_bools(const Tensor& bytes);

}  // namespace stave_detail
