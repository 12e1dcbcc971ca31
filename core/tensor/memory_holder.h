// A register of objects that hold memory without being tensors, such as compiled programs,
// for whos() (handlers/observe/whos.h). Registration costs time only when the object is made and
// when it is destroyed.
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

/// The registration of an object that holds memory without being a tensor. The object is in the
/// register as long as its MemoryHolder lives.
class MemoryHolder {
 public:
  struct Held {
    std::string name;
    Device device;
    // The arenas, which the object does not share: their number, and their total size.
    std::size_t arenas = 0, arena_bytes = 0;
    std::vector<const Storage*> constants;  // storage that tensors may share
  };
  /// `held` describes the memory at the time of the call. Any thread may call it, even when the
  /// destructor of this object has begun. It may neither make nor drop a tensor.
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
