// RecordLoop: the effect by which `repeat` offers a loop to a recorder, which records it as one
// operation.
#pragma once

#include <stave/core/op/op.h>

namespace stave_detail {

/// Performs some or all of n steps from `state`. The answer is how many steps are left. A handler
/// inside of the recorder passes the effect on; the recorder runs the steps where the loop was
/// performed, and may discard them.
struct RecordLoop {
  static constexpr bool remembered = false;
  using Result = Index;
  const Index n, snapshots;
  const FunctionRef<Outputs(std::span<const Tensor>)> step;
  /// Set by `step` when the steps have changed anything in the state other than its tensors.
  const bool& changes;
  Outputs& state;
  Frame* const performer = current;
  Index unhandled() const noexcept { return n; }
};

/// Returns true if a recorder would record a loop that is performed here. Handlers inside of it
/// must be transforms, whose answers need no check: they see the loop as one operation, for which
/// they have rules.
bool is_loop_recorded() noexcept;

}  // namespace stave_detail
