// Small objects from thread-local free lists: nodes, notes and tape entries come and go once an operation, and malloc would
// cost more than the operation's arithmetic.
//
// An object may be freed on another thread than the one that made it, and after a thread's or the program's end (tensors
// may be globals). The pools are trivially destructible; a thread's lists go to a common one when the thread ends.
#pragma once

#include <cstddef>

namespace stave_detail {

void* pool_allocate(std::size_t bytes);
void pool_free(void* block, std::size_t bytes) noexcept;

/// Base of types that live in the pool.
struct Pooled {
  static void* operator new(std::size_t bytes) { return pool_allocate(bytes); }
  static void operator delete(void* block, std::size_t bytes) noexcept { pool_free(block, bytes); }
};

}  // namespace stave_detail
