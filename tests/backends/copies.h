// Checks copies of elements of every size, including sizes that no dtype has yet, from every kind
// of layout.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include <stave/core/tensor/shape.h>

namespace stave_test {

/// Calls copy(to, dense strides, from, strides, shape, element size) for each size and layout, and
/// compares the result element by element.
template <class Copy>
void check_copies_of_every_size(Copy copy) {
  using namespace stave;
  std::mt19937_64 random(5);
  for (const std::size_t size : {1, 2, 4, 8, 16})
    for (const std::vector<Index>& from : {std::vector<Index>{96, 1}, {1, 48}, {97, 2}, {0, 1}, {-64, 1}, {1, 0}}) {
      const Shape shape{40, 64};
      const Strides dense = contiguous_strides(shape), strides(from);
      std::vector<char> source(8192 * size), result(40 * 64 * size);
      for (char& byte : source) byte = static_cast<char>(random());
      const Index start = from[0] < 0 ? -39 * from[0] : 0;
      char* const first = source.data() + static_cast<std::size_t>(start) * size;
      copy(result.data(), dense, first, strides, shape, static_cast<Index>(size));
      for (Index i = 0; i < 40; ++i)
        for (Index j = 0; j < 64; ++j)
          ASSERT_EQ(std::memcmp(result.data() + static_cast<std::size_t>(i * 64 + j) * size,
                                first + (i * from[0] + j * from[1]) * static_cast<Index>(size), size),
                    0)
              << size << " bytes, strides " << from[0] << " " << from[1] << ", element " << i << " " << j;
    }
}

}  // namespace stave_test
