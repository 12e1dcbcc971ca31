// Which tensors live: a register of nodes, kept on request (handlers/whos.h shows it). Where nobody asks, a node costs one load
// and two branches.
//
// Any thread may read the register at any time. A node's shape, dtype and storage never change, it leaves the register before
// it dies, and what may change while one handle owns it, its label and its list of notes, changes under the register's lock.
#pragma once

#include <atomic>
#include <mutex>

#include <stave/core/function_ref.h>

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

using stave::Node;

extern constinit std::atomic<int> trackings;  // that stand
void track(const Node& node);
void untrack(const Node& node) noexcept;
/// Calls visit for each registered node that lives. visit may neither make nor drop a tensor.
void visit_tracked(stave::FunctionRef<void(const Node&)> visit);
std::unique_lock<std::mutex> lock_tracked();

}  // namespace stave_detail
