// What a terminal is like, and text that fits it: for the progress bars and the debugger.
#pragma once

#include <cstddef>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>

#include <stave/core/effects/settings.h>

namespace stave_detail {

/// The width of the terminal behind a file descriptor, as it is at this moment; nothing if there is no terminal.
std::optional<std::size_t> columns_of_terminal(int descriptor);
/// Whether the terminal behind a file descriptor can move its cursor.
bool moves_cursor(int descriptor);
/// 1 for std::cout, 2 for std::cerr and std::clog, -1 for other streams.
int descriptor_of(const std::ostream& out);

/// Whether a byte continues a character of UTF-8.
constexpr bool continues(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }
/// The columns that UTF-8 text takes: each character takes one.
std::size_t columns_of(std::string_view text);
/// The first `columns` columns of the text.
std::string_view cut(std::string_view text, std::size_t columns);
/// The text with blanks added until it takes `columns` columns.
std::string padded(std::string text, std::size_t columns);
/// The text in lines of at most `columns` columns, broken at blanks; all lines but the first begin with `indent` blanks. A word
/// that is longer than a line is broken.
std::string wrapped(std::string_view text, std::size_t columns, std::size_t indent);

}  // namespace stave_detail
