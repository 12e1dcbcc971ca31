// A register of what holds memory without being a tensor, as compiled programs do: for whos() (handlers/observe/whos.h). Whoever is in it pays
// when it is made and when it dies.
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

/// What holds memory without being a tensor: in the register as long as it lives.
class Holding {
 public:
  struct Held {
    std::string name;
    Device device;
    std::size_t arenas = 0, arena_bytes = 0;  // memory of its own: how many pieces, and all their bytes
    std::vector<const Storage*> constants;    // which tensors may hold as well
  };
  /// `held` is called by any thread, also while this is destroyed, and may neither make nor drop a tensor.
  explicit Holding(std::function<Held()> held);
  ~Holding();
  Holding(const Holding&) = delete;

 private:
  friend void visit_holdings(FunctionRef<void(const Held&)> visit);
  const std::function<Held()> held_;
};
/// visit may neither make nor drop a tensor.
void visit_holdings(FunctionRef<void(const Holding::Held&)> visit);

}  // namespace stave_detail
