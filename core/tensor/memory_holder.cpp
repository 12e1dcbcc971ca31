// The register of objects that hold memory without being tensors.
#include <stave/core/tensor/memory_holder.h>

#include <mutex>
#include <unordered_set>

#include <stave/core/effects/fork.h>

namespace stave_detail {

namespace {

constinit std::mutex memory_holders_mutex;
const HeldOverFork<memory_holders_mutex> memory_holders_over_fork;

// The set is never destroyed: a compiled function may be a global variable that dies last.
std::unordered_set<const MemoryHolder*>& memory_holder_registry() {
  static auto& holdings = *new std::unordered_set<const MemoryHolder*>;
  return holdings;
}

}  // namespace

MemoryHolder::MemoryHolder(std::function<Held()> held) : held_(std::move(held)) {
  const std::lock_guard lock(memory_holders_mutex);
  memory_holder_registry().insert(this);
}

MemoryHolder::~MemoryHolder() {
  const std::lock_guard lock(memory_holders_mutex);
  memory_holder_registry().erase(this);
}

void visit_memory_holders(FunctionRef<void(const MemoryHolder::Held&)> visit) {
  const std::lock_guard lock(memory_holders_mutex);
  for (const MemoryHolder* holding : memory_holder_registry()) visit(holding->held_());
}

}  // namespace stave_detail
