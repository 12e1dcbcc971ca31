// Where a computation may let others go on: an effect, which a scheduler answers when the computation's turn comes
// (handlers/transforms/concurrently.h). Where there is none, nothing happens.
#pragma once

#include <stave/core/effects/effect.h>

namespace stave {

/// Performed by yield(), and before the host reads what lives on a device.
struct YieldPoint {
  using Result = void;
  static constexpr bool remembered = false;  // what runs again yields again
  bool waits = false;                        ///< what follows waits until a device has done what it was asked for
  void unhandled() const {}
};

/// Lets the other computations of the innermost scheduler around have their turns.
inline void yield() { perform(YieldPoint{}); }

}  // namespace stave
