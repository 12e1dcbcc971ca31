#include <stave/handlers/transforms/repeat.h>

#include <algorithm>
#include <limits>
#include <utility>

#include <stave/core/tensor/fail.h>
#include <stave/handlers/transforms/paths.h>
#include <stave/handlers/transforms/tape.h>

namespace stave_detail {

namespace {

/// (s + r)! / (s! r!): the most steps that are walked back with s snapshots where each is taken at most r times before it is
/// recorded. At most the largest number.
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

// With r the least for which n steps are possible, both parts are among those that leave the fewest steps: before the snapshot at
// most most_steps(s, r - 1), after it at least most_steps(s - 1, r - 1).
Index steps_to_snapshot(Index n, Index snapshots) {
  Index r = 1;
  while (most_steps(snapshots, r) < n) ++r;
  return std::min(most_steps(snapshots, r - 1), n - most_steps(snapshots - 1, r - 1));
}

// Transforms see an operation that carries the body, and have rules for it.
LoopKeeper keeper_of_loops() {
  LoopKeeper found;
  for (const Frame* frame = current; frame; frame = frame->below) {
    if (frame->kind == Frame::Kind::computation) return {};  // it may go on more than once
    if (!frame->operations) continue;
    if ((found.keeper = dynamic_cast<KeepsLoops*>(frame->handler))) {
      for (PathRun* run : found.paths) run->end_log();  // the keeper may take the steps otherwise another time
      return found;
    }
    if (auto* const run = dynamic_cast<PathRun*>(frame->handler)) found.paths.push_back(run);
    if (!frame->trusted) return {};
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
                    [](PathRun* run) { return !std::exchange(run->keeps_rows, false); });  // one around sees to these
    }
    ~KeepNoRows() {
      for (PathRun* run : paths) run->keeps_rows = true;
    }
  } until_taken(paths);
  return keeper->take(n, snapshots, step, changes, state);
}

void check_repeat(Index n, Index snapshots) {
  if (n < 0) fail<TransformError>("repeat: a function cannot be applied {} times", n);
  if (snapshots < 0) fail<TransformError>("repeat: there cannot be {} snapshots", snapshots);
}

}  // namespace stave_detail
