// The register of objects that hold memory without being tensors.
#include <stave/core/tensor/holding.h>

#include <mutex>
#include <unordered_set>

#include <stave/core/effects/fork.h>

namespace stave_detail {

namespace {

constinit std::mutex holdings_mutex;
const HeldOverFork<holdings_mutex> holdings_over_fork;

// The set is never destroyed: a compiled function may be a global variable that dies last.
std::unordered_set<const Holding*>& the_holdings() {
  static auto& holdings = *new std::unordered_set<const Holding*>;
  return holdings;
}

}  // namespace

Holding::Holding(std::function<Held()> held) : held_(std::move(held)) {
  const std::lock_guard lock(holdings_mutex);
  the_holdings().insert(this);
}

Holding::~Holding() {
  const std::lock_guard lock(holdings_mutex);
  the_holdings().erase(this);
}

void visit_holdings(FunctionRef<void(const Holding::Held&)> visit) {
  const std::lock_guard lock(holdings_mutex);
  for (const Holding* holding : the_holdings()) visit(holding->held_());
}

}  // namespace stave_detail
