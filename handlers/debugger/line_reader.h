// Line input at a terminal, with editing, completion by TAB, and a history.
//
// Keys are the arrows, Home, End, Backspace, Delete, and Emacs's Ctrl-A E B F P N D H K U W L.
// Ctrl-R searches earlier lines, as in shells. Ctrl-C restarts the line, and Ctrl-D on an empty
// line ends the input. Text is UTF-8, and each character takes one column. A line that is wider
// than the terminal scrolls.
#pragma once

#include <stave/core/effects/settings.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace stave_detail {

class LineReader {
 public:
  /// A function that returns the completions of the last word of the text left of the cursor.
  using Complete = std::function<std::vector<std::string>(const std::string& left)>;

  /// Returns whether standard input and output are a terminal that can move its cursor.
  static bool at_terminal();
  /// Reads a line; returns nothing at the end of input. The terminal is in raw mode meanwhile.
  std::optional<std::string> read(const std::string& prompt, const Complete& complete);

 private:
  std::vector<std::string> history_;
};

}  // namespace stave_detail
