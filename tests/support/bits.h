// The bytes of tensors, to compare them bit for bit.
#pragma once

#include <cstddef>
#include <vector>

#include <stave/stave.h>

namespace stave_test {

/// Returns the elements' bytes in row-major order.
inline std::vector<std::byte> bytes_of(const stave::Tensor& x) {
  const stave::Tensor row_major = stave::contiguous(x);
  const auto* const data = static_cast<const std::byte*>(row_major.node().data());
  return {data, data + static_cast<std::size_t>(x.size()) * stave::size_of(x.dtype())};
}

}  // namespace stave_test
