// Room for what a driver computes on its way, from the cache of tensors' memory: of fresh pages, which malloc gives for what is large,
// clearing alone may cost more than the use that is made of them.
#pragma once

#include <memory>
#include <type_traits>

#include <stave/backends/cpu/allocator.h>

namespace stave_cpu {

struct GiveBack {
  stave::Storage* storage = nullptr;
  void operator()(const void*) const noexcept { deallocate(storage); }
};
template <class T>
using Scratch = std::unique_ptr<T[], GiveBack>;

/// `count` numbers that nobody has set.
template <class T>
Scratch<T> scratch(std::size_t count) {
  static_assert(std::is_trivially_destructible_v<T>);
  stave::Storage* const storage = allocate(nullptr, count * sizeof(T));
  return Scratch<T>(static_cast<T*>(storage->data), GiveBack{storage});
}

}  // namespace stave_cpu
