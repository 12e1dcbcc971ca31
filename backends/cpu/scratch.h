// Temporary buffers of operations, from the cache of tensor memory (allocator.h). For large
// buffers, malloc returns fresh pages. The system must clear such pages, which may take longer than
// the use of the buffer.
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

/// Returns an uninitialised buffer of `count` numbers.
template <class T>
Scratch<T> scratch(std::size_t count) {
  static_assert(std::is_trivially_destructible_v<T>);
  stave::Storage* const storage = allocate(nullptr, count * sizeof(T));
  return Scratch<T>(static_cast<T*>(storage->data), GiveBack{storage});
}

}  // namespace stave_cpu
