#include <stave/core/track.h>

#include <unordered_map>

#include <stave/core/effects/fork.h>
#include <stave/core/tensor.h>

namespace stave_detail {

constinit std::atomic<int> trackings{0};

namespace {

struct Entry {
  NamePtr label;  // null: none
  bool tracked = false;
};

constinit std::mutex mutex;
const HeldOverFork<mutex> held_over_fork;

// Never destroyed: a tensor may be a global and die last.
std::unordered_map<const Node*, Entry>& the_register() {
  static auto& nodes = *new std::unordered_map<const Node*, Entry>;
  return nodes;
}

}  // namespace

void track(const Node& node) {
  const auto lock = lock_register();
  the_register()[&node].tracked = true;
}

void forget(const Node& node) noexcept {
  const auto lock = lock_register();
  the_register().erase(&node);
}

void set_label(Node& node, NamePtr label) {
  if (!label && !node.registered) return;
  const auto lock = lock_register();
  the_register()[&node].label = std::move(label);
  node.registered = true;
}

NamePtr label_of(const Node& node) {
  if (!node.registered) return nullptr;
  const auto lock = lock_register();
  const auto found = the_register().find(&node);
  return found == the_register().end() ? nullptr : found->second.label;
}

void visit_tracked(FunctionRef<void(const Node&, const Name*)> visit) {
  const auto lock = lock_register();
  for (const auto& [node, entry] : the_register())
    if (entry.tracked) visit(*node, entry.label.get());
}

std::unique_lock<std::mutex> lock_register() { return std::unique_lock<std::mutex>(mutex); }

}  // namespace stave_detail

namespace stave {

TensorTracking::TensorTracking() noexcept { stave_detail::trackings.fetch_add(1, std::memory_order_relaxed); }
TensorTracking::~TensorTracking() { stave_detail::trackings.fetch_sub(1, std::memory_order_relaxed); }

}  // namespace stave
