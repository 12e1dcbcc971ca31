// The register of live nodes.
#include <stave/core/tensor/tensor_register.h>

#include <unordered_set>

#include <stave/core/effects/fork.h>
#include <stave/core/tensor/tensor.h>

namespace stave_detail {

constinit std::atomic<int> trackings{0};

namespace {

constinit std::mutex register_mutex;
const HeldOverFork<register_mutex> register_over_fork;

// The set is never destroyed: a tensor may be a global variable that dies last.
std::unordered_set<const Node*>& tensor_registry() {
  static auto& nodes = *new std::unordered_set<const Node*>;
  return nodes;
}

}  // namespace

void track(const Node& node) {
  const auto lock = lock_register();
  tensor_registry().insert(&node);
}

void forget(const Node& node) noexcept {
  const auto lock = lock_register();
  tensor_registry().erase(&node);
}

void visit_tracked(FunctionRef<void(const Node&)> visit) {
  const auto lock = lock_register();
  for (const Node* node : tensor_registry()) visit(*node);
}

std::unique_lock<std::mutex> lock_register() { return std::unique_lock<std::mutex>(register_mutex); }

}  // namespace stave_detail

namespace stave {

TensorTracking::TensorTracking() noexcept { stave_detail::trackings.fetch_add(1, std::memory_order_relaxed); }
TensorTracking::~TensorTracking() { stave_detail::trackings.fetch_sub(1, std::memory_order_relaxed); }

}  // namespace stave
