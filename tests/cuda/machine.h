// The machines whose launches tests imitate on the host.
#pragma once

namespace stave_test {

/// As many blocks as a machine runs at once, and in which order its threads come.
struct Machine {
  int multiprocessors;
  bool backwards;
};
inline constexpr Machine large{132, false}, small{1, true};

}  // namespace stave_test
