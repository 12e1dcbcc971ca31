#include <stave/handlers/observe/html_json.h>

#include <cmath>

#include <fmt/format.h>

#include <stave/core/tensor/utf8.h>

namespace stave_detail {

namespace {

// Quotes text for a <script>: "<" could end the script or begin a comment in it.
// Older parsers treat U+2028 and U+2029 as line ends.
std::string in_script_quotes(const std::string& text) {
  std::string result;
  const std::string quoted = in_json_quotes(text);
  for (std::size_t i = 0; i < quoted.size(); ++i) {
    const bool ends_line = quoted.compare(i, 3, "\u2028") == 0 || quoted.compare(i, 3, "\u2029") == 0;
    if (quoted[i] == '<') result += "\\u003c";
    else if (ends_line) result += quoted[i + 2] == '\xa8' ? "\\u2028" : "\\u2029";
    else result += quoted[i];
    if (ends_line) i += 2;
  }
  return result;
}

}  // namespace

// JSON has neither NaN nor infinity. Parsers read a number that is too large for a double, such as
// 1e999, as infinity.
std::string in_json(double number) {
  if (std::isnan(number)) return "null";
  if (std::isinf(number)) return number > 0 ? "1e999" : "-1e999";
  return fmt::format("{}", number);
}
std::string in_json(std::int64_t number) { return fmt::format("{}", number); }
std::string in_json(std::uint64_t number) { return fmt::format("{}", number); }
std::string in_json(int number) { return fmt::format("{}", number); }
std::string in_json(const std::string& text) { return in_script_quotes(text); }

}  // namespace stave_detail
