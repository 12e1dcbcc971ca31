#include <stave/handlers/debugger/debugger_view.h>

#include <algorithm>
#include <ostream>
#include <sstream>

#include <fmt/format.h>

#include <stave/core/tensor/fail.h>
#include <stave/handlers/model/summary.h>
#include <stave/handlers/model/terminal.h>

namespace stave_detail {

void DebuggerView::say(const std::string& text, std::size_t indent) {
  const auto columns = this->columns();
  out_ << (columns ? wrapped(text, *columns, indent) : text) << std::endl;
}

std::optional<std::size_t> DebuggerView::columns() const { return columns_of_terminal(descriptor_of(out_)); }

// ---- values ----------------------------------------------------------------------------

void DebuggerView::show(const std::string& name, const Tensor& x) {
  const std::size_t indent = columns_of(name) <= 8 ? columns_of(name) + 2 : 2;
  say(name + "  " + stave::summary_of(x), indent);
  stave::PictureOptions options;
  if (const auto columns = this->columns())
    options.columns =
        std::clamp<Index>(static_cast<Index>(*columns) - static_cast<Index>(indent) - 1, 1, options.columns);
  std::istringstream lines(stave::picture_of(x, options));
  for (std::string line; std::getline(lines, line);) out_ << std::string(indent, ' ') << line << "\n";
  out_ << std::flush;
}

void DebuggerView::show_elements(const Tensor& x) {
  std::istringstream lines(x.str());
  for (std::string line; std::getline(lines, line);) say(line, 2);
}

void DebuggerView::show_all(const std::string& kind, std::span<const Tensor> xs) {
  for (std::size_t i = 0; i < xs.size(); ++i) show(kind + std::to_string(i), xs[i]);
}

// ---- places and operations -------------------------------------------------------------

namespace {

std::string without_indentation(const std::string& line) {
  return line.substr(std::min(line.find_first_not_of(" \t"), line.size()));
}

}  // namespace

void DebuggerView::show_place(const StopPoint& at, const DebuggerHistory& history) {
  if (shows_source_)
    if (const SourceFrame frame = lines_.innermost(StopDetails::stack(at)); !frame.file.empty()) {
      const std::string text = without_indentation(source_line(frame, frame.line));
      say("  " + frame.str() + (text.empty() ? "" : ": " + text), 4);
    }
  const auto& forward = StopDetails::forward(at);
  if (!forward) return;
  std::string text = "  derivative of " + forward->text;
  if (const PastOperation* const past = history.forward_of(*forward)) {
    text += fmt::format(": #{}", past->number);
    if (shows_source_)
      if (const SourceFrame frame = lines_.innermost(past->stack); !frame.file.empty()) text += ", " + frame.str();
  }
  say(text, 4);
}

void DebuggerView::show_operations(const StopPoint& at, const DebuggerHistory& history, std::size_t count) {
  const std::deque<PastOperation>& all = history.operations();
  if (all.empty()) return say("no operation ran before");
  const bool here = at.at_operation();  // Whether the last operation is the current one.
  const std::size_t first = all.size() - std::min(count + here, all.size());
  std::vector<const CallStack*> stacks;
  for (std::size_t i = first; i < all.size(); ++i) stacks.push_back(&all[i].stack);
  if (shows_source_) lines_.look_up(stacks);
  for (std::size_t i = first; i < all.size(); ++i) {
    std::string line = fmt::format("{} #{} {}", here && i + 1 == all.size() ? "->" : "  ", all[i].number, all[i].text);
    const std::string place = shows_source_ ? lines_.innermost(all[i].stack).place() : "";
    say(line + (place.empty() ? "" : "  " + place), 6);
  }
}

// ---- functions -------------------------------------------------------------------------

std::vector<SourceFrame> DebuggerView::frames_of(const StopPoint& at) {
  std::vector<SourceFrame> frames = lines_.frames_of(StopDetails::stack(at));
  if (frames.empty())
    fail<TransformError>(
        "debugger: no function of the program is known here: this needs addr2line, of binutils, and a program that was "
        "not stripped");
  return frames;
}

void DebuggerView::show_frame(const std::vector<SourceFrame>& frames, std::size_t i) {
  say(fmt::format("{} #{} {}", i == frame_ ? "->" : "  ", i, frames[i].str()), 6);
}

void DebuggerView::show_functions(const StopPoint& at) {
  const std::vector<SourceFrame> all = frames_of(at);
  for (std::size_t i = 0; i < all.size(); ++i) show_frame(all, i);
  if (std::all_of(all.begin(), all.end(), [](const SourceFrame& frame) { return frame.file.empty(); }))
    say("lines are not known: the program was compiled without -g");
}

void DebuggerView::choose(const StopPoint& at, std::size_t frame, const char* end) {
  const std::vector<SourceFrame> all = frames_of(at);
  if (frame >= all.size()) fail<TransformError>("debugger: this is the {} function", end);
  frame_ = frame;
  show_frame(all, frame);
  if (const std::string text = without_indentation(source_line(all[frame], all[frame].line)); !text.empty())
    say("     " + text, 6);
}

bool DebuggerView::show_lines(const StopPoint& at, std::size_t around) {
  const std::vector<SourceFrame> all = frames_of(at);
  // If the user has chosen no function, the innermost one whose line is known is shown.
  std::size_t chosen = std::min(frame_, all.size() - 1);
  while (frame_ == 0 && chosen + 1 < all.size() && all[chosen].file.empty()) ++chosen;
  const SourceFrame& frame = all[chosen];
  const auto size = static_cast<int>(lines_.text_of(frame.file).size());
  if (size == 0) {
    say(frame.str() + " cannot be shown: " +
        (frame.file.empty() ? "the program was compiled without -g" : "the file cannot be read") + ". Operations:");
    return false;
  }
  say(frame.str());
  const auto reach = static_cast<int>(std::min<std::size_t>(around, 1000));
  for (int line = std::max(frame.line - reach, 1); line <= std::min(frame.line + reach, size); ++line) {
    const std::string text =
        fmt::format("{} {:>4}  {}", line == frame.line ? "->" : "  ", line, source_line(frame, line));
    out_ << cut(text, columns().value_or(text.size())) << "\n";
  }
  out_ << std::flush;
  return true;
}

// Returns a line of a file, counted from 1; empty if it cannot be read.
std::string DebuggerView::source_line(const SourceFrame& frame, int line) {
  const std::vector<std::string>& text = lines_.text_of(frame.file);
  return line < 1 || static_cast<std::size_t>(line) > text.size() ? "" : text[static_cast<std::size_t>(line) - 1];
}

}  // namespace stave_detail
