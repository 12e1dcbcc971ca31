// The machines whose launches tests imitate on the host.
#pragma once

namespace stave_test {

/// As many blocks as a machine runs at once, and in which order its threads come.
struct Machine {
  int blocks;
  bool backwards;
};
inline constexpr Machine large{1056, false}, small{8, true};

}  // namespace stave_test
