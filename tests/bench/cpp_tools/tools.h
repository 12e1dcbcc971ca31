// What each tool of this folder provides: derivatives of the programs of programs.h.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "programs.h"

namespace cpp_tools {

/// The derivative of a program by a tool: the gradient, or the Jacobian in row-major order.
struct Derivative {
  std::string program, tool;
  /// Computes the derivative; this is measured. What a tool does once, such as recording, was done.
  std::function<void()> compute;
  /// Returns the derivative that was computed last.
  std::function<Numbers()> values;
};

std::vector<Derivative> by_stave();
std::vector<Derivative> by_adolc();
std::vector<Derivative> by_cppad();

}  // namespace cpp_tools
