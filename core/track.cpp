#include <stave/core/track.h>

#include <unordered_map>

#include <stave/core/tensor.h>

namespace stave_detail {

constinit std::atomic<int> trackings{0};

namespace {

struct Entry {
  NamePtr label;  // null: none
  bool tracked = false;
};
struct Register {
  std::mutex mutex;
  std::unordered_map<const Node*, Entry> nodes;
};

// Never destroyed: a tensor may be a global and die last.
Register& the_register() {
  static Register& nodes = *new Register;
  return nodes;
}

}  // namespace

void track(const Node& node) {
  const auto lock = lock_register();
  the_register().nodes[&node].tracked = true;
}

void forget(const Node& node) noexcept {
  const auto lock = lock_register();
  the_register().nodes.erase(&node);
}

void set_label(Node& node, NamePtr label) {
  if (!label && !node.registered) return;
  const auto lock = lock_register();
  the_register().nodes[&node].label = std::move(label);
  node.registered = true;
}

NamePtr label_of(const Node& node) {
  if (!node.registered) return nullptr;
  const auto lock = lock_register();
  const auto found = the_register().nodes.find(&node);
  return found == the_register().nodes.end() ? nullptr : found->second.label;
}

void visit_tracked(FunctionRef<void(const Node&, const Name*)> visit) {
  const auto lock = lock_register();
  for (const auto& [node, entry] : the_register().nodes)
    if (entry.tracked) visit(*node, entry.label.get());
}

std::unique_lock<std::mutex> lock_register() { return std::unique_lock<std::mutex>(the_register().mutex); }

}  // namespace stave_detail

namespace stave {

TensorTracking::TensorTracking() noexcept { stave_detail::trackings.fetch_add(1, std::memory_order_relaxed); }
TensorTracking::~TensorTracking() { stave_detail::trackings.fetch_sub(1, std::memory_order_relaxed); }

}  // namespace stave
