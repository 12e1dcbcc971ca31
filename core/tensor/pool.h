// A memory pool for small objects. Nodes, notes and tape entries are made and freed for each
// operation, and malloc would cost more than the operation's arithmetic.
//
//   lists of a thread    one list of free blocks per block size, with up to two chains; using it
//                        needs no lock and no atomic read-modify-write
//   shared chains        surplus chains of threads, and chains of new blocks; a whole chain moves
//                        to or from a thread's list under a mutex
//   slabs                64 KiB each, with blocks of one size; they return to the system when
//                        memory is released
//
// An object may be freed on another thread than the one that made it, and after the end of a thread
// or of the program (tensors may be globals). So nothing here is ever destroyed, and a thread
// that ends gives its lists to the other threads.
#pragma once

#include <stave/core/effects/settings.h>

#include <cstddef>
#include <utility>

namespace stave_detail {

void* pool_allocate(std::size_t bytes);
void pool_free(void* block, std::size_t bytes) noexcept;

struct PoolStats {
  std::size_t live_bytes = 0;    // in existing objects
  std::size_t cached_bytes = 0;  // in free blocks, used before or not, that later objects get
};
/// The memory of the pool, in bytes. It is exact for the calling thread; simultaneous changes
/// by other threads may be missing.
PoolStats pool_stats() noexcept;
/// Returns to the system the memory that neither an object nor another thread's list needs.
void release_pool() noexcept;

/// Base class of types whose objects are allocated in the pool.
struct Pooled {
  static void* operator new(std::size_t bytes) { return pool_allocate(bytes); }
  static void operator delete(void* block, std::size_t bytes) noexcept { pool_free(block, bytes); }
};

/// Deletes `object`. Further objects of type T that its destructor deletes through this function
/// wait in a list, so a chain of a million objects needs no stack. `next` is the member that links
/// the waiting objects; the object no longer uses it.
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
