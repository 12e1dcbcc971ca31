// The handwritten digits of data/digits.csv: on each line 64 pixels, from 0 to 16, and the digit that they show.
#pragma once

#include <charconv>
#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include <stave/stave.h>

struct Digits {
  stave::Tensor pixels;  ///< float32 [n, 64], from -1 (blank) to 1
  stave::Tensor labels;  ///< int32 [n], from 0 to 9
};

inline std::vector<std::string_view> split_at_commas(std::string_view line) {
  std::vector<std::string_view> fields;
  for (std::size_t comma; (comma = line.find(',')) != line.npos; line.remove_prefix(comma + 1))
    fields.push_back(line.substr(0, comma));
  fields.push_back(line);
  return fields;
}

/// A field as an integer from 0 to `largest`. Throws stave::Error, which begins with `place`.
inline int parse_field(std::string_view field, int largest, const std::string& place) {
  int value = -1;
  const char* const end = field.data() + field.size();
  const auto [stop, error] = std::from_chars(field.data(), end, value);
  if (error != std::errc() || stop != end || value < 0 || value > largest)
    throw stave::Error(place + ": expected an integer from 0 to " + std::to_string(largest) + ", found '" +
                       std::string(field) + "'");
  return value;
}

/// Throws stave::Error, naming the file, the line and the column, if there is anything else in the file than digits.
inline Digits read_digits(const std::string& path) {
  constexpr int pixel_count = 64, column_count = pixel_count + 1, darkest = 16, largest_digit = 9;
  std::ifstream file(path);
  if (!file) throw stave::Error(path + ": cannot be opened");

  std::vector<float> pixels;
  std::vector<std::int32_t> labels;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    const std::string place = path + ":" + std::to_string(number);
    if (line.ends_with('\r')) line.pop_back();
    const std::vector<std::string_view> fields = split_at_commas(line);
    if (fields.size() != column_count)
      throw stave::Error(place + ": expected " + std::to_string(column_count) + " columns, found " +
                         std::to_string(fields.size()));
    int column = 1;
    for (const std::string_view field : fields) {
      const bool is_label = column == column_count;
      const int value =
          parse_field(field, is_label ? largest_digit : darkest, place + ": column " + std::to_string(column));
      if (is_label) labels.push_back(value);
      else pixels.push_back(2 * static_cast<float>(value) / darkest - 1);
      ++column;
    }
  }
  if (file.bad()) throw stave::Error(path + ": cannot be read");
  if (labels.empty()) throw stave::Error(path + ": has no digits in it");
  return {stave::from(pixels, {labels.size(), std::size_t(pixel_count)}), stave::from(labels)};
}
