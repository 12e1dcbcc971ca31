// Where in its source a program is: the call stack, and the files and lines that belong to it.
//
//   const CallStack stack = call_stack();                    // some microseconds
//   SourceLines lines;
//   for (const SourceFrame& frame : lines.frames_of(stack)) std::cout << frame.str() << "\n";      // model.cpp:12 in loss
//
// Return addresses become lines by addr2line (or llvm-addr2line), a program of binutils, which reads what the compiler wrote with -g.
// Stave needs no library for that, and a program that nobody debugs pays nothing. Where that program is missing, or the C library
// is not glibc, there are no frames; without -g they have functions alone.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <stave/core/effects/settings.h>

namespace stave_detail {

/// Return addresses, innermost first.
using CallStack = std::vector<void*>;
/// The stack of the caller, or the innermost part of it: that of a computation which has a stack of its own ends where it began.
CallStack call_stack();

/// A function of the program at work.
struct SourceFrame {
  std::string function;  ///< "loss", "lambda in main"; without arguments
  std::string file;      ///< as the compiler was given it; empty: not known
  int line = 0;

  std::string file_name() const;  ///< without its folders
  std::string place() const;      ///< "model.cpp:12"; empty if the file is not known
  std::string str() const;        ///< "model.cpp:12 in loss"
  bool operator==(const SourceFrame&) const = default;
};

/// Finds frames, and remembers what it found for each address.
class SourceLines {
 public:
  /// Functions of the program, from inside out: those of Stave and of the C++ library are left out.
  std::vector<SourceFrame> frames_of(std::span<void* const> stack);
  /// The innermost whose line is known; an empty one if there is none.
  SourceFrame innermost(std::span<void* const> stack);
  /// Looks all addresses of several stacks up at once, which takes as long as one does.
  void look_up(std::span<const CallStack* const> stacks);

  /// The lines of a file; none if it cannot be read.
  const std::vector<std::string>& text_of(const std::string& file);

 private:
  std::map<void*, std::vector<SourceFrame>> frames_;
  std::map<std::string, std::vector<std::string>> texts_;
};

/// "lambda in main" of "main::{lambda(int)#1}::operator()(int) const".
std::string short_function(std::string_view demangled);

}  // namespace stave_detail
