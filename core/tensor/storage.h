// Memory of tensors: where storage comes from, and what is in use.
#pragma once

#include <memory>

#include <stave/core/tensor/backend.h>
#include <stave/core/tensor/device.h>
#include <stave/core/tensor/pool.h>

namespace stave {

/// New storage on a device for elements of this shape. Throws MemoryError, naming the operation.
StoragePtr allocate_storage(Device device, Dtype dtype, const Shape& shape, const char* operation);

// How the host sees what a device holds, and the only way: between the host and storage of a device, and between devices.
// Reading waits until the bytes are computed.
void read_storage(Device device, void* to, const void* from, std::size_t bytes);
void write_storage(Device device, void* to, const void* from, std::size_t bytes);
void copy_storage(Device to_device, void* to, Device from_device, const void* from, std::size_t bytes);

/// Waits until a device has done all that it was given; throws what went wrong meanwhile, as reading a value does: IndexError
/// for an index out of range. The CPU is always done.
void synchronize(Device device = cpu);

/// Storage for one element of a constant on a device.
StoragePtr number_storage();

/// What tensors on `device` occupy, and what describes and records them. Bytes.
MemoryStats memory_stats(Device device = cpu);
/// Makes peak_bytes start again at live_bytes.
void reset_peak_memory(Device device = cpu);
/// Gives memory that is kept for later tensors back to the system.
void release_cached_memory(Device device = cpu);

}  // namespace stave

namespace stave_detail {

// Throws MemoryError: a backend had no room for what the operation makes, or for what it needs to make it.
[[noreturn]] void fail_memory(const char* operation, stave::Dtype dtype, const stave::Shape& shape,
                              stave::Device device);

// Memory that another library lends: tensors view it, and nothing writes to it. It goes back when none does any more and, on a device, what
// was asked to read it is done; on whatever thread that is.
struct ForeignStorage final : stave::Storage, Pooled {
  using Lender = std::unique_ptr<void, void (*)(void*)>;
  ForeignStorage(stave::Device device, void* first, std::size_t size, Lender lender);
  ~ForeignStorage();

 private:
  stave::Device device_;
  Lender lender_;
};

// allocate_storage where the device's backend is at hand.
stave::StoragePtr allocate_storage(stave::Backend& backend, stave::Device device, stave::Dtype dtype,
                                   const stave::Shape& shape, const char* operation);

}  // namespace stave_detail
