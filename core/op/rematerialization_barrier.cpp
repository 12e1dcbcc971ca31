// The number of the current rerun, one per thread.
#include <stave/core/op/rematerialization_barrier.h>

#include <atomic>

namespace stave_detail {

namespace {
constinit thread_local std::uint64_t barrier = 0;
constinit std::atomic<std::uint64_t> barriers{0};
}  // namespace

std::uint64_t current_rematerialization_barrier() noexcept { return barrier; }
RematerializationBarrier::RematerializationBarrier() noexcept : saved_(barrier) {
  barrier = barriers.fetch_add(1, std::memory_order_relaxed) + 1;
}
RematerializationBarrier::~RematerializationBarrier() { barrier = saved_; }

}  // namespace stave_detail
