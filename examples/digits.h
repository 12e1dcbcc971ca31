// The handwritten digits of data/digits.csv. Each line has 64 pixels, from 0 to 16, and the digit
// that they show.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <stave/stave.h>

struct Digits {
  stave::Tensor pixels;  ///< float32 [n, 64], from -1 (blank) to 1
  stave::Tensor labels;  ///< int32 [n], from 0 to 9
};

/// Throws stave::Error with file, line and column if the file contains anything but digits.
inline Digits read_digits(const std::string& path) {
  using namespace stave;
  constexpr int pixel_count = 64, column_count = pixel_count + 1, darkest = 16, largest_digit = 9;
  const Tensor table = read_csv(path, {.columns = column_count, .dtype = int32});
  const std::vector<std::int32_t> values = table.to_vector<std::int32_t>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t line = i / column_count + 1, column = i % column_count + 1;
    const int largest = column == column_count ? largest_digit : darkest;
    if (values[i] < 0 || values[i] > largest)
      throw Error(path + ":" + std::to_string(line) + ": column " + std::to_string(column) +
                  ": expected an integer from 0 to " + std::to_string(largest) + ", found " +
                  std::to_string(values[i]));
  }
  const Tensor pixels = table(ellipsis, slice(pixel_count)), labels = table(ellipsis, pixel_count);
  return {2 * astype(pixels, float32) / darkest - 1, contiguous(labels)};
}
