// What a debugger writes: text as wide as the terminal, values, the place in the source, operations that ran before. The commands are in
// debugger.cpp.
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
  /// `shows_source`: whether stops and operations are shown with their lines.
  DebuggerView(std::ostream& out, bool shows_source) : out_(out), shows_source_(shows_source) {}

  /// A line of text; at a terminal in lines as wide as that, those after the first indented.
  void say(const std::string& text, std::size_t indent = 2);
  /// Of the terminal; nothing if there is none.
  std::optional<std::size_t> columns() const;

  /// Statistics, and a picture.
  void show(const std::string& name, const Tensor& x);
  void show_elements(const Tensor& x);
  /// "in0 ...", "in1 ..."
  void show_all(const std::string& kind, std::span<const Tensor> xs);

  /// The line where the program stands, and the operation whose derivative is computed there.
  void show_place(const StopPoint& at, const DebuggerHistory& history);
  /// The last `count` operations, and that at which the program stands.
  void show_operations(const StopPoint& at, const DebuggerHistory& history, std::size_t count);

  /// Chooses the innermost function, of those that are at work.
  void choose_innermost() noexcept { frame_ = 0; }
  std::size_t chosen() const noexcept { return frame_; }
  /// Chooses that function, counted from inside out. Throws TransformError if there is none: beyond the `end` one.
  void choose(const StopPoint& at, std::size_t frame, const char* end);
  void show_functions(const StopPoint& at);
  /// The source around the line of the chosen function. False if it cannot be shown.
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
