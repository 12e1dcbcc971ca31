// The implementation of parallel_for on oneTBB.
#include <stave/backends/cpu/parallel.h>

#include <pthread.h>

#include <atomic>

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <stave/core/effects/fiber.h>

namespace stave_cpu {

namespace {

// In a child of fork(), oneTBB's worker threads do not exist, and oneTBB does not detect this.
// So if the parent had workers, the child computes on one thread.
constinit std::atomic<bool> has_workers{false}, alone{false};
[[maybe_unused]] const int registered = pthread_atfork(nullptr, nullptr, [] { alone = has_workers.load(); });

}  // namespace

int thread_count() { return alone ? 1 : tbb::this_task_arena::max_concurrency(); }

// The loop is isolated: while this thread waits for other threads, it may run parts of this loop
// only. Otherwise it could run a task of a oneTBB loop in the user's program, whose operations
// would then be performed under this thread's handlers. The loop never runs on a fiber's stack,
// where oneTBB would wait without running tasks itself (measured: 0 of 100 tasks).
void parallel_for_split(Index n, Index grain, RangeBody body) {
  if (alone) return body(0, n);
  has_workers.store(true, std::memory_order_relaxed);
  stave_detail::on_thread_stack([&] {
    tbb::this_task_arena::isolate([&] {
      tbb::parallel_for(tbb::blocked_range<Index>(0, n, static_cast<std::size_t>(grain)),
                        [&](const tbb::blocked_range<Index>& range) { body(range.begin(), range.end()); });
    });
  });
}

}  // namespace stave_cpu
