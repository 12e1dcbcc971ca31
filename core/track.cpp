#include <stave/core/track.h>

#include <unordered_set>

#include <stave/core/tensor.h>

namespace stave_detail {

constinit std::atomic<int> trackings{0};

namespace {

struct Register {
  std::mutex mutex;
  std::unordered_set<const Node*> nodes;
};

// Never destroyed: a tensor may be a global and die last.
Register& the_register() {
  static Register& tracked = *new Register;
  return tracked;
}

}  // namespace

void track(const Node& node) {
  Register& tracked = the_register();
  const std::lock_guard<std::mutex> lock(tracked.mutex);
  tracked.nodes.insert(&node);
}

void untrack(const Node& node) noexcept {
  Register& tracked = the_register();
  const std::lock_guard<std::mutex> lock(tracked.mutex);
  tracked.nodes.erase(&node);
}

void visit_tracked(stave::FunctionRef<void(const Node&)> visit) {
  Register& tracked = the_register();
  const std::lock_guard<std::mutex> lock(tracked.mutex);
  for (const Node* node : tracked.nodes) visit(*node);
}

std::unique_lock<std::mutex> lock_tracked() { return std::unique_lock<std::mutex>(the_register().mutex); }

}  // namespace stave_detail

namespace stave {

TensorTracking::TensorTracking() noexcept { stave_detail::trackings.fetch_add(1, std::memory_order_relaxed); }
TensorTracking::~TensorTracking() { stave_detail::trackings.fetch_sub(1, std::memory_order_relaxed); }

}  // namespace stave
