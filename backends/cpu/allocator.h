// The memory of CPU tensors. Freed memory is cached, because mapping fresh pages for every result
// would take 5 to 8 times as long as the arithmetic on them.
//
//   small (payload up to 1 KiB)  Header and payload are one block from a free list of the thread.
//                                There is no lock and no atomic read-modify-write; to allocate and
//                                free one takes about 10 ns. With up to 16 bytes of payload, a
//                                block is one cache line.
//   large                        The payload comes from a process-wide cache of size classes, at
//                                most 12.5 % larger than requested, under a mutex. From 2 MiB on
//                                it is mapped in huge pages.
//
// Tensors may be globals, and a thread may free a tensor that another thread made. So the
// allocator's state is never destroyed, and a thread that ends moves its free blocks to lists that
// all threads share. Under the address and thread sanitizers nothing is cached, so that they detect
// every use after free and every leak.
#pragma once

#include <stave/core/tensor/backend.h>

namespace stave_cpu {

/// Allocates a storage of `bytes` bytes owned by `owner`. If memory is short, it releases all
/// cached memory and tries again; then it throws std::bad_alloc.
stave::Storage* allocate(stave::Backend* owner, std::size_t bytes);
void deallocate(stave::Storage* storage) noexcept;

/// Returns at least `bytes` bytes, aligned to a cache line, for parts of operands. They belong to
/// the calling thread until it calls again. The thread keeps the memory for that, as BLAS keeps its
/// buffers, and it does not count as memory of tensors. Throws std::bad_alloc.
void* thread_workspace(std::size_t bytes);

/// Returns allocation statistics. They are exact for the calling thread and for ended threads;
/// concurrent changes of other threads may be missing.
stave::MemoryStats memory_stats();
void reset_peak_memory();
/// Releases the process-wide caches and the calling thread's lists.
void release_cached_memory();

}  // namespace stave_cpu
