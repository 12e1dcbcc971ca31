// Memory of CPU tensors: cached, because fresh pages for every result cost 5 to 8 times the arithmetic on them.
//
//   small (payload up to 1 KiB)  header and payload are one block from a free list of the thread: no lock, no atomic
//                                read-modify-write, about 10 ns to take and give back; up to 16 bytes, one cache line
//   large                        payload from a process-wide cache of size classes, at most 12.5 % larger than asked
//                                for, under a mutex; from 2 MiB on mapped in huge pages
//
// Tensors may be globals and may be freed by a thread that did not make them: nothing here is ever destroyed, and a
// thread that ends gives its lists to the others. Under the address and thread sanitizers nothing is cached, so that
// they see every use after free and every leak.
#pragma once

#include <stave/core/tensor/backend.h>

namespace stave_cpu {

/// Storage of `bytes` bytes owned by `owner`. Throws std::bad_alloc, after giving all cached memory back and trying again.
stave::Storage* allocate(stave::Backend* owner, std::size_t bytes);
void deallocate(stave::Storage* storage) noexcept;

/// Exact for what the calling thread and ended threads did; what others do meanwhile may be missing.
stave::MemoryStats memory_stats();
void reset_peak_memory();
/// The process-wide caches, and the calling thread's lists.
void release_cached_memory();

}  // namespace stave_cpu
