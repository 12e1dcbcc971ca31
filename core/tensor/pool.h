// Memory of small objects: nodes, notes and tape entries come and go once an operation, and malloc would cost more than the
// operation's arithmetic.
//
//   a thread's lists     one for each size, of up to two chains of blocks: no lock, no atomic read-modify-write
//   what all share       chains that threads have too many of, and chains of new blocks; a whole chain changes hands under a mutex
//   slabs                64 KiB each, of blocks of one size; they go back to the system when memory is asked back
//
// An object may be freed on another thread than the one that made it, and after a thread's or the program's end (tensors
// may be globals): nothing here is ever destroyed, and a thread that ends gives its lists to the others.
#pragma once

#include <stave/core/effects/settings.h>

#include <cstddef>
#include <utility>

namespace stave_detail {

void* pool_allocate(std::size_t bytes);
void pool_free(void* block, std::size_t bytes) noexcept;

struct PoolStats {
  std::size_t live_bytes = 0;    // in objects that exist
  std::size_t cached_bytes = 0;  // freed, kept for the next object
};
/// Exact for the calling thread; what others do meanwhile may be missing.
PoolStats pool_stats() noexcept;
/// Returns to the system what neither an object nor another thread's list needs.
void release_pool() noexcept;

/// Base of types that live in the pool.
struct Pooled {
  static void* operator new(std::size_t bytes) { return pool_allocate(bytes); }
  static void operator delete(void* block, std::size_t bytes) noexcept { pool_free(block, bytes); }
};

/// Deletes `object`; in a loop, with what it owned of its kind, and that, and so on: a chain of a million needs no stack. `next`
/// links those that wait, and is free for it.
template <auto next, class T>
void delete_in_loop(T* object) noexcept {
  static constinit thread_local T* waiting = nullptr;
  static constinit thread_local bool deleting = false;
  object->*next = std::exchange(waiting, object);
  if (deleting) return;
  deleting = true;
  while (T* const first = waiting) {
    waiting = first->*next;
    delete first;
  }
  deleting = false;
}

}  // namespace stave_detail
