// Bools are bytes of 0 and 1: kernels count, mask and compare them as such. In other libraries
// every other byte is true as well: NumPy's and PyTorch's uint8.view(bool) make such arrays. All
// functions that take bytes from outside make bools of them by the functions below.
#pragma once

#include <cstddef>

#include <stave/core/tensor/tensor.h>

namespace stave_detail {

using namespace stave;

/// Whether all bytes are 0 or 1.
bool are_bools(const char* data, std::size_t bytes) noexcept;
/// Makes 1 of every other byte than 0.
void make_bools(char* data, std::size_t bytes) noexcept;

/// The tensor itself if all its bytes are 0 or 1, else a copy with 1 in place of every other byte
/// than 0. It waits for a device, which looks at the bytes.
Tensor as_bools(const Tensor& bytes);

}  // namespace stave_detail
