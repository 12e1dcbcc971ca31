// Each thread has the number of its current rerun; reruns are counted over all threads.
#include <stave/core/op/rematerialization_barrier.h>

#include <atomic>
#include <utility>

namespace stave_detail {

namespace {
constinit thread_local std::uint64_t barrier = 0;
constinit std::atomic<std::uint64_t> barriers{0};
}  // namespace

std::uint64_t current_rematerialization_barrier() noexcept { return barrier; }
std::uint64_t next_rematerialization_barrier() noexcept { return barriers.fetch_add(1, std::memory_order_relaxed) + 1; }
RematerializationBarrier::RematerializationBarrier(std::uint64_t number) noexcept
    : saved_(std::exchange(barrier, number)) {}
RematerializationBarrier::~RematerializationBarrier() { barrier = saved_; }

}  // namespace stave_detail
