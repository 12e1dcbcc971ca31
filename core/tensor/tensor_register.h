// An optional register of the live nodes, for whos() (handlers/observe/whos.h). A node that is not
// registered costs one load and two branches.
//
// Any thread may read the register at any time. A node's shape, dtype and storage never change,
// and it leaves the register before it dies. Its list of notes may change while one handle owns
// the node; that happens under the register's lock.
#pragma once

#include <atomic>
#include <mutex>

#include <stave/core/effects/function_ref.h>

namespace stave {

struct Node;

/// While this object lives, the tensors that any thread makes are registered, for whos().
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

extern constinit std::atomic<int> trackings;  // the number of live TensorTracking objects
void track(const Node& node);
/// Removes a node from the register; the node's destructor calls it.
void forget(const Node& node) noexcept;
/// Calls visit with each registered live node. visit may neither make nor drop a tensor.
void visit_tracked(FunctionRef<void(const Node&)> visit);
std::unique_lock<std::mutex> lock_register();

}  // namespace stave_detail
