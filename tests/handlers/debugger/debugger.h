// A function to debug, and what the debugger writes for commands.
#pragma once

#include <sstream>
#include <string>

#include <stave/stave.h>

namespace debugger_test {

using namespace stave;

inline const Tensor x3 = tensor({0.5, 1., 2.});

inline Tensor layered(const Tensor& x) {
  const Scope layer("layer1");
  return sum(label(sin(x), "hidden") * x);
}

/// Returns the debugger's output for these commands.
template <class F, class... A>
std::string transcript(const std::string& commands, F f, const A&... args) {
  std::istringstream in(commands);
  std::ostringstream out;
  debugger(f, {.in = &in, .out = &out, .source = false})(args...);
  return out.str();
}

}  // namespace debugger_test
