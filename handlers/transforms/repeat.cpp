#include <stave/handlers/transforms/repeat.h>

#include <algorithm>
#include <limits>
#include <utility>

#include <stave/core/tensor/fail.h>

namespace stave_detail {

namespace {

/// Returns (s + r)! / (s! r!), the largest number of steps that can be walked back with s
/// snapshots if each step runs at most r times before it is recorded. The result saturates
/// at the largest Index.
Index most_steps(Index s, Index r) {
  Index most = 1;
  for (Index k = 1; k <= std::min(s, r); ++k) {
    const Index factor = std::max(s, r) + k;
    if (most > std::numeric_limits<Index>::max() / factor) return std::numeric_limits<Index>::max();
    most = most * factor / k;
  }
  return most;
}

}  // namespace

// Let r be the least number with most_steps(s, r) >= n. A split of the n steps at the next snapshot
// takes the fewest steps in total if at most most_steps(s, r - 1) steps come before the snapshot,
// and at least most_steps(s - 1, r - 1) after it.
Index steps_to_snapshot(Index n, Index snapshots) {
  Index r = 1;
  while (most_steps(snapshots, r) < n) ++r;
  return std::min(most_steps(snapshots, r - 1), n - most_steps(snapshots - 1, r - 1));
}

bool is_loop_recorded() noexcept {
  for (const Frame* frame = current; frame; frame = frame->below) {
    // A controller may suspend or drop the computation in the middle of the loop.
    if (frame->kind == Frame::Kind::computation) return false;
    if (!frame->slot) continue;
    const HandlerProperties handler = frame->handler->properties();
    if (handler.records_loops) return true;
    if (!frame->answers_need_no_check || handler.counts_slot_effects) return false;
  }
  return false;
}

void check_repeat(Index n, Index snapshots) {
  if (n < 0) fail<TransformError>("repeat: n is {}: it must not be negative", n);
  if (snapshots < 0) fail<TransformError>("repeat: snapshots is {}: it must not be negative", snapshots);
}

}  // namespace stave_detail
