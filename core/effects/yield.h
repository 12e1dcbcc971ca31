// Points at which a computation lets others run. A yield is an effect that a scheduler answers
// when it is the computation's turn again (handlers/transforms/concurrently.h). Without a scheduler
// nothing happens.
#pragma once

#include <stave/core/effects/effect.h>

namespace stave {

/// The effect of yield(). The library also performs it before the host reads from a device.
struct YieldPoint {
  using Result = void;
  static constexpr bool remembered = false;  // a function that runs again yields again
  /// True if the code after the yield waits for the work of a device.
  bool waits = false;
  void unhandled() const {}
};

/// Lets the other computations of the innermost scheduler run.
inline void yield() { perform(YieldPoint{}); }

}  // namespace stave
