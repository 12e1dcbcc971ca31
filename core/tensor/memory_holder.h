// A register of objects that hold memory without being tensors, such as compiled programs,
// for whos() (handlers/observe/whos.h). A registered object pays only when it is made and when
// it dies.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <stave/core/effects/function_ref.h>
#include <stave/core/tensor/device.h>

namespace stave {

struct Storage;

}  // namespace stave

namespace stave_detail {

using namespace stave;

/// The registration of an object that holds memory without being a tensor. It is in the register
/// as long as it lives.
class MemoryHolder {
 public:
  struct Held {
    std::string name;
    Device device;
    // Memory of its own: the number of pieces, and their total size.
    std::size_t arenas = 0, arena_bytes = 0;
    std::vector<const Storage*> constants;  // tensors may hold these as well
  };
  /// Any thread may call `held`, also while this object is destroyed. `held` may neither make nor
  /// drop a tensor.
  explicit MemoryHolder(std::function<Held()> held);
  ~MemoryHolder();
  MemoryHolder(const MemoryHolder&) = delete;

 private:
  friend void visit_memory_holders(FunctionRef<void(const Held&)> visit);
  const std::function<Held()> held_;
};
/// Calls visit for each registered object. visit may neither make nor drop a tensor.
void visit_memory_holders(FunctionRef<void(const MemoryHolder::Held&)> visit);

}  // namespace stave_detail
