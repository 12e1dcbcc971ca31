// Memory of tensors: where storage comes from, and what is in use.
#pragma once

#include <stave/core/backend.h>
#include <stave/core/device.h>

namespace stave {

/// New storage on a device. Throws std::bad_alloc.
StoragePtr allocate_storage(Device device, Index bytes);

/// What tensors on `device` occupy. Bytes.
MemoryStats memory_stats(Device device = cpu);
/// Makes peak_bytes start again at live_bytes.
void reset_peak_memory(Device device = cpu);
/// Gives memory that is kept for later tensors back to the system.
void release_cached_memory(Device device = cpu);

}  // namespace stave
