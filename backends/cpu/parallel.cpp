// parallel_for on oneTBB.
#include <stave/backends/cpu/parallel.h>

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <stave/core/fiber.h>

namespace stave_cpu {

int thread_count() { return tbb::this_task_arena::max_concurrency(); }

// Isolated: while it waits, this thread may run pieces of this loop only. Otherwise it could pick up a task of the
// user's own oneTBB loop, which would then perform its operations under this thread's handlers. Never on a fiber's stack,
// where oneTBB would wait without helping (measured: 0 of 100 tasks).
void parallel_for_split(Index n, Index grain, RangeBody body) {
  stave_detail::on_thread_stack([&] {
    tbb::this_task_arena::isolate([&] {
      tbb::parallel_for(tbb::blocked_range<Index>(0, n, static_cast<std::size_t>(grain)),
                        [&](const tbb::blocked_range<Index>& range) { body(range.begin(), range.end()); });
    });
  });
}

}  // namespace stave_cpu
