// The output of the debugger: wrapped text, values, source lines, and past operations.
// The commands are in debugger.cpp.
#pragma once

#include <cstddef>
#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <stave/handlers/debugger/debugger_history.h>
#include <stave/handlers/observe/source_lines.h>

namespace stave_detail {

class DebuggerView {
 public:
  /// `shows_source` tells whether stops and operations are shown with their source lines.
  DebuggerView(std::ostream& out, bool shows_source) : out_(out), shows_source_(shows_source) {}

  /// Prints a line of text. At a terminal it is wrapped, and the lines after the first
  /// are indented.
  void say(const std::string& text, std::size_t indent = 2);
  /// Returns the width of the terminal; nothing if there is none.
  std::optional<std::size_t> columns() const;

  /// Prints statistics and a picture of a value.
  void show(const std::string& name, const Tensor& x);
  void show_elements(const Tensor& x);
  /// Prints values under the names "in0", "in1", ...
  void show_all(const std::string& kind, std::span<const Tensor> xs);

  /// Prints the source line of the stop, and the operation whose derivative is computed there.
  void show_place(const StopPoint& at, const DebuggerHistory& history);
  /// Prints the last `count` operations, and the current one.
  void show_operations(const StopPoint& at, const DebuggerHistory& history, std::size_t count);

  /// Chooses the innermost function of the call stack.
  void choose_innermost() noexcept { frame_ = 0; }
  std::size_t chosen() const noexcept { return frame_; }
  /// Chooses a function of the call stack, counted from the innermost one. Throws TransformError
  /// if there is none; the message names the `end` that was reached.
  void choose(const StopPoint& at, std::size_t frame, const char* end);
  void show_functions(const StopPoint& at);
  /// Prints the source around the line of the chosen function. Returns false if it is unavailable.
  bool show_lines(const StopPoint& at, std::size_t around);

 private:
  std::vector<SourceFrame> frames_of(const StopPoint& at);
  void show_frame(const std::vector<SourceFrame>& frames, std::size_t i);
  std::string source_line(const SourceFrame& frame, int line);

  std::ostream& out_;
  const bool shows_source_;
  SourceLines lines_;
  std::size_t frame_ = 0;
};

}  // namespace stave_detail
