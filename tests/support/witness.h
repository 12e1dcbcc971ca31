// Tells tests whether an object was destroyed, for example by unwinding.
#pragma once

namespace stave_test {

/// Counts its destruction.
struct Witness {
  int& destroyed;
  ~Witness() { ++destroyed; }
};

}  // namespace stave_test
