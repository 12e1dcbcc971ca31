// The number of the current rerun, one per thread.
#include <stave/core/op/epoch.h>

#include <atomic>

namespace stave_detail {

namespace {
constinit thread_local std::uint64_t epoch = 0;
constinit std::atomic<std::uint64_t> epochs{0};
}  // namespace

std::uint64_t current_epoch() noexcept { return epoch; }
Epoch::Epoch() noexcept : saved_(epoch) { epoch = epochs.fetch_add(1, std::memory_order_relaxed) + 1; }
Epoch::~Epoch() { epoch = saved_; }

}  // namespace stave_detail
