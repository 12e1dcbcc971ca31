// Memory of tensors: functions that allocate storage, copy it and report its use.
#pragma once

#include <memory>

#include <stave/core/tensor/backend.h>
#include <stave/core/tensor/device.h>
#include <stave/core/tensor/pool.h>

namespace stave {

/// Returns new storage on a device for elements of this shape. Throws MemoryError, naming
/// the operation.
StoragePtr allocate_storage(Device device, Dtype dtype, const Shape& shape, const char* operation);

// Copies between the host and the storage of a device, and between devices. The host accesses
// a device's memory only by these functions. Reading waits until the bytes are computed.
void read_storage(Device device, void* to, const void* from, std::size_t bytes);
void write_storage(Device device, void* to, const void* from, std::size_t bytes);
void copy_storage(Device to_device, void* to, Device from_device, const void* from, std::size_t bytes);

/// Waits until a device has done all requested work. Throws errors that occurred meanwhile,
/// as reading a value does: IndexError for an index out of range. The CPU has no pending work.
void synchronize(Device device = cpu);

/// Returns storage for a constant on a device: one element, in the host's memory.
StoragePtr host_constant_storage();

/// The memory of tensors on `device`, and of the objects that describe and record them.
/// All numbers are bytes.
MemoryStats memory_stats(Device device = cpu);
/// Resets peak_bytes to live_bytes.
void reset_peak_memory(Device device = cpu);
/// Returns memory that is kept for later tensors to the system.
void release_cached_memory(Device device = cpu);

}  // namespace stave

namespace stave_detail {

// Throws MemoryError: a backend had no memory for the result of the operation,
// or for its workspace.
[[noreturn]] void fail_memory(const char* operation, stave::Dtype dtype, const stave::Shape& shape,
                              stave::Device device);

// Memory that another library lends. Tensors view it, and nothing writes to it. It goes back to the
// other library when no tensor views it any more and, on a device, when all requested reads of it
// are done. This may happen on any thread.
struct ForeignStorage final : stave::Storage, Pooled {
  using Lender = std::unique_ptr<void, void (*)(void*)>;
  ForeignStorage(stave::Device device, void* first, std::size_t size, Lender lender);
  ~ForeignStorage();

 private:
  stave::Device device_;
  Lender lender_;
};

// Like allocate_storage above, for a caller that already has the device's backend.
stave::StoragePtr allocate_storage(stave::Backend& backend, stave::Device device, stave::Dtype dtype,
                                   const stave::Shape& shape, const char* operation);

}  // namespace stave_detail
