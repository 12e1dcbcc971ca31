#include <stave/handlers/transforms/repeat.h>

#include <algorithm>
#include <limits>
#include <utility>

#include <stave/core/tensor/fail.h>
#include <stave/handlers/transforms/paths.h>
#include <stave/handlers/transforms/tape.h>

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

// Finds the innermost handler that records loops. Handlers inside of it are passed over if their
// answers need no check (Frame::answers_need_no_check), as those of transforms: they see the loop
// as one operation, for which they have rules.
LoopKeeper keeper_of_loops() {
  LoopKeeper found;
  for (const Frame* frame = current; frame; frame = frame->below) {
    // The computation may continue more than once.
    if (frame->kind == Frame::Kind::computation) return {};
    if (!frame->operations) continue;
    if ((found.keeper = dynamic_cast<KeepsLoops*>(frame->handler))) {
      // When the lanes run again, the keeper may record the steps in another way than in this run.
      for (PathRun* run : found.paths) run->end_log();
      return found;
    }
    if (auto* const run = dynamic_cast<PathRun*>(frame->handler)) found.paths.push_back(run);
    if (!frame->answers_need_no_check) return {};
    if (const auto* const counts = dynamic_cast<CountsOperations*>(frame->handler); counts && counts->counts())
      return {};
  }
  return {};
}

Index LoopKeeper::take(Index n, Index snapshots, FlatFunction step, const bool& changes, Outputs& state) const {
  struct KeepNoRows {
    std::vector<PathRun*> paths;
    explicit KeepNoRows(std::vector<PathRun*> of) : paths(std::move(of)) {
      std::erase_if(paths,
                    // The enclosing scope that cleared the flag of these runs restores it.
                    [](PathRun* run) { return !std::exchange(run->keeps_rows, false); });
    }
    ~KeepNoRows() {
      for (PathRun* run : paths) run->keeps_rows = true;
    }
  } until_taken(paths);
  return keeper->take(n, snapshots, step, changes, state);
}

void check_repeat(Index n, Index snapshots) {
  if (n < 0) fail<TransformError>("repeat: n is {}: it must not be negative", n);
  if (snapshots < 0) fail<TransformError>("repeat: snapshots is {}: it must not be negative", snapshots);
}

}  // namespace stave_detail
