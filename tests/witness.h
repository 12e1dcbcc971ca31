// Tells the tests when something unwinds.
#pragma once

namespace stave_test {

/// Counts its destruction.
struct Witness {
  int& destroyed;
  ~Witness() { ++destroyed; }
};

}  // namespace stave_test
