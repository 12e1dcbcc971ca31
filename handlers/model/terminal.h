// Properties of terminals, and text that fits them; used by the progress bars and the debugger.
#pragma once

#include <cstddef>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>

#include <stave/core/effects/settings.h>

namespace stave_detail {

/// Returns the current width of the terminal behind a file descriptor; nothing if there is none.
std::optional<std::size_t> columns_of_terminal(int descriptor);
/// Returns whether the terminal behind a file descriptor can move its cursor.
bool moves_cursor(int descriptor);
/// Returns the file descriptor of a stream: 1 for std::cout, 2 for std::cerr and std::clog,
/// else -1.
int descriptor_of(const std::ostream& out);

/// Returns whether a byte continues a character of UTF-8.
constexpr bool is_utf8_continuation(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }
/// Returns the number of columns that UTF-8 text takes, one per character.
std::size_t columns_of(std::string_view text);
/// Returns the first `columns` columns of the text.
std::string_view cut(std::string_view text, std::size_t columns);
/// Returns the text with blanks appended until it takes `columns` columns.
std::string padded(std::string text, std::size_t columns);
/// Returns the text in lines of at most `columns` columns, broken at blanks. All lines but
/// the first begin with `indent` blanks. A word longer than a line is broken.
std::string wrapped(std::string_view text, std::size_t columns, std::size_t indent);

}  // namespace stave_detail
