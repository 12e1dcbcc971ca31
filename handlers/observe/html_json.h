// JSON that can be embedded in a <script> of a page.
#pragma once

#include <cstdint>
#include <string>

#include <stave/core/effects/settings.h>

namespace stave_detail {

/// Returns a number as JSON: NaN is null, and an infinity is a number that is too large
/// for a double.
std::string in_json(double number);
std::string in_json(std::int64_t number);
std::string in_json(std::uint64_t number);
std::string in_json(int number);
/// Returns text in quotes, without "<".
std::string in_json(const std::string& text);

/// Returns a list of numbers: "[1,2,3]".
template <class Numbers>
std::string list_in_json(const Numbers& numbers) {
  std::string text = "[";
  for (const auto number : numbers) text += (text.size() > 1 ? "," : "") + in_json(number);
  return text + "]";
}

}  // namespace stave_detail
