// The call stack of a program, and the source files and lines that belong to it.
//
//   const CallStack stack = call_stack();                    // some microseconds
//   SourceLines lines;
//   for (const SourceFrame& frame : lines.frames_of(stack))
//     std::cout << frame.str() << "\n";                       // model.cpp:12 in loss
//
// Addresses are converted to lines by addr2line (or llvm-addr2line), a program of binutils
// that reads the debug information of -g. So Stave needs no library for this, and a program
// that is not debugged has no cost. If addr2line is missing, or if the C library is not glibc,
// there are no frames. Without -g, frames have function names only.
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
/// Returns the call stack of the caller, at most the innermost 128 frames. The stack of a
/// computation that runs on a fiber ends where the fiber begins.
CallStack call_stack();

/// A function on the call stack.
struct SourceFrame {
  std::string function;  ///< "loss", "lambda in main"; without arguments.
  std::string file;      ///< The path given to the compiler; empty if unknown.
  int line = 0;

  std::string file_name() const;  ///< The name without folders.
  std::string place() const;      ///< "model.cpp:12"; empty if unknown.
  std::string str() const;        ///< "model.cpp:12 in loss".
  bool operator==(const SourceFrame&) const = default;
};

/// Finds the source lines of addresses, and caches them.
class SourceLines {
 public:
  /// Returns the functions of the program, innermost first, without those of Stave and the C++
  /// library.
  std::vector<SourceFrame> frames_of(std::span<void* const> stack);
  /// Returns the innermost frame whose line is known; an empty frame if there is none.
  SourceFrame innermost(std::span<void* const> stack);
  /// Looks up all addresses of several stacks at once, which takes as long as a single look-up.
  void look_up(std::span<const CallStack* const> stacks);

  /// Returns the lines of a file; none if it cannot be read.
  const std::vector<std::string>& text_of(const std::string& file);

 private:
  std::map<void*, std::vector<SourceFrame>> frames_;
  std::map<std::string, std::vector<std::string>> texts_;
};

/// Returns a short name of a function: "lambda in main" for "main::{lambda(int)#1}::operator()(int)
/// const".
std::string short_function(std::string_view demangled);

}  // namespace stave_detail
