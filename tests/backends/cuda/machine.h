// Simulated machines for launches of kernels on the host.
#pragma once

namespace stave_test {

/// The number of blocks that a machine runs at once, and the order of its threads.
struct Machine {
  int blocks;
  bool backwards;
};
inline constexpr Machine large{1056, false}, small{8, true};

}  // namespace stave_test
