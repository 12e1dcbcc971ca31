// Helpers of tests that hold programs to the functions that they record.
#pragma once

#include <gmock/gmock.h>

#include <algorithm>

#include <stave/core/program/loop.h>
#include <stave/core/program/program.h>

namespace stave_test {

/// Matches a tensor with the same bits.
MATCHER_P(Is, expected, "") {
  const stave::Tensor want = expected;
  return stave_detail::same_bits(arg, want);
}

/// The number of a program's instructions that are loops.
inline std::size_t count_loops(const stave::Program& program) {
  return static_cast<std::size_t>(std::count_if(program.instructions.begin(), program.instructions.end(),
                                                [](const auto& step) { return stave_detail::loop_of(step); }));
}

/// The number of a program's instructions that perform `op`.
inline std::size_t count(const stave::Program& program, const stave::Op& op) {
  return static_cast<std::size_t>(std::count_if(program.instructions.begin(), program.instructions.end(),
                                                [&](const auto& step) { return step.op == &op; }));
}

/// Returns a function that performs n steps of f, without loop(n, f).
template <class F>
auto unrolled(int n, F f) {
  return [n, f](auto y) {
    for (int i = 0; i < n; ++i) y = f(y);
    return y;
  };
}

}  // namespace stave_test
