// Lines that are typed at a terminal: edited, completed by TAB, and found again by the arrows.
//
// Keys: arrows, Home, End, Backspace, Delete, and of Emacs Ctrl-A E B F P N D H K U W L; Ctrl-R searches the lines before for a text, as
// shells do; Ctrl-C begins the line anew, Ctrl-D on an empty one is the end. UTF-8; a character takes one column. What does not fit into the terminal's width scrolls.
#pragma once

#include <stave/core/effects/settings.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace stave_detail {

class LineReader {
 public:
  /// The words that may stand in place of the last one of what is left of the cursor.
  using Complete = std::function<std::vector<std::string>(const std::string& left)>;

  /// Whether standard input and output are a terminal that can move its cursor.
  static bool at_terminal();
  /// Nothing at the end of input. While it waits the terminal is in raw mode.
  std::optional<std::string> read(const std::string& prompt, const Complete& complete);

 private:
  std::vector<std::string> history_;
};

}  // namespace stave_detail
