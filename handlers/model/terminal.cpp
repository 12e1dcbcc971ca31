#include <stave/handlers/model/terminal.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iostream>

#include <sys/ioctl.h>
#include <unistd.h>

namespace stave_detail {

std::optional<std::size_t> columns_of_terminal(int descriptor) {
  if (descriptor < 0 || !isatty(descriptor)) return std::nullopt;
  winsize size{};
  return ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

bool moves_cursor(int descriptor) {
  const char* const kind = std::getenv("TERM");
  return descriptor >= 0 && isatty(descriptor) && !(kind && std::strcmp(kind, "dumb") == 0);
}

int descriptor_of(const std::ostream& out) {
  if (&out == &std::cout) return STDOUT_FILENO;
  return &out == &std::cerr || &out == &std::clog ? STDERR_FILENO : -1;
}

std::size_t columns_of(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return !is_utf8_continuation(c); }));
}

std::string_view cut(std::string_view text, std::size_t columns) {
  std::size_t end = 0;
  for (; end < text.size(); ++end)
    if (!is_utf8_continuation(text[end]) && columns-- == 0) break;
  return text.substr(0, end);
}

std::string padded(std::string text, std::size_t columns) {
  const std::size_t taken = columns_of(text);
  return taken < columns ? text + std::string(columns - taken, ' ') : text;
}

std::string wrapped(std::string_view text, std::size_t columns, std::size_t indent) {
  columns = std::max<std::size_t>(columns, 8);
  indent = std::min(indent, columns / 2);
  std::string lines;
  for (std::size_t room = columns; columns_of(text) > room; room = columns - indent) {
    std::string_view line = cut(text, room + 1);
    const std::size_t blank = line.find_last_of(' ');
    const bool breaks = blank != std::string_view::npos && line.find_first_not_of(' ') < blank;
    line = breaks ? line.substr(0, blank) : cut(text, room);
    text.remove_prefix(line.size());
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    line.remove_suffix(line.size() - std::min(line.find_last_not_of(' ') + 1, line.size()));
    lines += std::string(line) + "\n";
    if (text.empty()) return lines.substr(0, lines.size() - 1);
    lines += std::string(indent, ' ');
  }
  return lines + std::string(text);
}

}  // namespace stave_detail
