// Functions that quote text from outside the program for other programs: UTF-8, JSON, DOT.
#pragma once

#include <stave/core/effects/settings.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace stave_detail {

/// The length of the first character of `text`; 0 if its bytes are not valid UTF-8.
/// (RFC 3629, section 4)
inline std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const unsigned first = byte(0), second = byte(1);
  if (first < 0x80) return text.empty() ? 0 : 1;
  const std::size_t length = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  // An overlong encoding, half of a surrogate pair, or a value beyond the last character.
  const bool outside = (first == 0xe0 && second < 0xa0) || (first == 0xed && second >= 0xa0) ||
                       (first == 0xf0 && second < 0x90) || (first == 0xf4 && second >= 0x90);
  return outside ? 0 : length;
}

/// The byte as text: "\xNN".
inline std::string escaped_byte(char c) {
  constexpr char digits[] = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(c);
  return {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
}

/// The text with "\xNN" in place of each byte that is not valid UTF-8.
inline std::string valid_utf8(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    result += length ? std::string(text.substr(0, length)) : escaped_byte(text[0]);
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return result;
}

/// The text as a JSON string with its quotes: RFC 8259, section 7. JSON is UTF-8.
inline std::string in_json_quotes(std::string_view text) {
  std::string result;
  for (const char c : valid_utf8(text)) {
    if (c == '"' || c == '\\') result += '\\';
    if (static_cast<unsigned char>(c) < 0x20) result += "\\u00" + escaped_byte(c).substr(2);
    else result += c;
  }
  return '"' + result + '"';
}

/// The text as a DOT string with its quotes. A backslash begins an escape of DOT's own
/// ("\N" is the node's name).
inline std::string in_dot_quotes(std::string_view text) {
  std::string result;
  for (const char c : valid_utf8(text)) {
    if (c == '"' || c == '\\') result += '\\';
    if (c == '\n') result += "\\n";
    else result += c;
  }
  return '"' + result + '"';
}

}  // namespace stave_detail
