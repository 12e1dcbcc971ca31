// A register of the nodes that live, on request, for whos() (handlers/observe/whos.h). A node that is not in it costs one load and two
// branches.
//
// Any thread may read the register at any time. A node's shape, dtype and storage never change, it leaves the register before
// it dies, and what may change while one handle owns it, its list of notes, changes under the register's lock.
#pragma once

#include <atomic>
#include <mutex>

#include <stave/core/effects/function_ref.h>

namespace stave {

struct Node;

/// While it stands, the tensors that any thread makes are registered, for whos().
class TensorTracking {
 public:
  [[nodiscard]] TensorTracking() noexcept;
  ~TensorTracking();
  TensorTracking(const TensorTracking&) = delete;
  TensorTracking& operator=(const TensorTracking&) = delete;
};

}  // namespace stave

namespace stave_detail {

using namespace stave;

extern constinit std::atomic<int> trackings;  // that stand
void track(const Node& node);
/// The node dies.
void forget(const Node& node) noexcept;
/// Calls visit with each tracked node that lives. visit may neither make nor drop a tensor.
void visit_tracked(FunctionRef<void(const Node&)> visit);
std::unique_lock<std::mutex> lock_register();

}  // namespace stave_detail
