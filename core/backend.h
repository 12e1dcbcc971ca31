// The seam between the frontend and a backend: one declared interface, spoken in storage and strided views.
//
//   The frontend guarantees                              A backend must
//   - shapes, dtypes, axes and attributes are valid       - compute every operation of all_ops.h on every dtype that the
//     and normalised (core/ops/attributes.h)                operation admits, for inputs of any strides: positive,
//   - operands of elementwise operations have one           negative, zero (broadcast), any rank, no elements
//     shape and one dtype (where: bool, then one dtype)   - fill each output, which is contiguous row-major
//   - outputs are allocated, of the inferred shape and    - keep its workers off the handler stack, and perform nothing
//     dtype; an elementwise output may be the very        - throw IndexError for an index out of range, before writing;
//     buffer of a contiguous input of the same size         one that computes later: at the next read or synchronize(),
//   - views (transposes, slices, reshapes that need no      and read and write nothing there
//     copy) and `to` never reach run                      - let no exception of its own leave other than stave::Error
//   - all views are of this backend's storage; the host     and std::bad_alloc
//     looks at it through read and write alone            - do what it is asked in the order of asking, deallocation
//     (the CPU's excepted)                                  included: an operation may be run and its inputs freed before
//                                                           they are read
//
// DESIGN: kernels never perform operations. A handler that wants to see what runs looks at calls, above this line.
#pragma once

#include <cstddef>
#include <span>

#include <stave/core/dtype.h>
#include <stave/core/intrusive.h>
#include <stave/core/ops/all_ops.h>
#include <stave/core/ops/attributes.h>
#include <stave/core/shape.h>

namespace stave {

class Backend;

/// Bytes on a device, shared by the tensors that view them. `data` is aligned to 64 bytes.
struct Storage : RefCounted {
  Backend* owner = nullptr;
  void* data = nullptr;
  std::size_t bytes = 0;     // asked for
  std::size_t capacity = 0;  // given
};
using StoragePtr = IntrusivePtr<Storage>;
void destroy(Storage* storage) noexcept;  // back to its owner

/// A strided view as a kernel gets it: `data` points at element (0, ..., 0), strides count elements.
struct View {
  void* data;
  Dtype dtype;
  std::span<const Index> shape;
  std::span<const Index> strides;
};

/// What a backend has given out and keeps. Bytes.
struct MemoryStats {
  std::size_t live_bytes = 0;    // in storage of tensors that exist
  std::size_t peak_bytes = 0;    // the most that live_bytes has been since reset_peak_memory()
  std::size_t cached_bytes = 0;  // freed, kept for the next tensor
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual const char* name() const = 0;
  /// Throws std::bad_alloc. Zero bytes give storage with a valid pointer.
  virtual Storage* allocate(std::size_t bytes) = 0;
  virtual void deallocate(Storage* storage) noexcept = 0;
  /// Computes `op` on `inputs` into `outputs`.
  virtual void run(OpId op, const Attributes* attributes, std::span<const View> inputs,
                   std::span<const View> outputs) = 0;
  /// From the host into storage. The host's memory is free for other use when it returns.
  virtual void write(void* to, const void* from, std::size_t bytes) = 0;
  /// From storage to the host; waits for what computes it.
  virtual void read(void* to, const void* from, std::size_t bytes) = 0;
  /// From another backend's storage into this one's. False: there is no such way, and the host carries it.
  virtual bool copy_from(Backend& /*other*/, void* /*to*/, const void* /*from*/, std::size_t /*bytes*/) {
    return false;
  }
  /// Waits until everything that was asked for is done; throws what went wrong meanwhile.
  virtual void synchronize() = 0;
  virtual MemoryStats memory_stats() const = 0;
  virtual void reset_peak_memory() = 0;
  /// Returns cached memory to the system.
  virtual void release_cached_memory() = 0;
};

/// The CPU: defined by the library's backends/cpu; core knows it by this declaration only.
Backend& cpu_backend();
/// A CUDA device: defined by backends/cuda, or, in a library without it, by core/storage.cpp, where it throws DeviceError.
Backend& cuda_backend(int index);

}  // namespace stave

namespace stave_detail {

/// Makes `backend` that of a CUDA device, whether there is one or not; null: no longer. Tests stand in a backend so, and
/// see on any machine that nothing but a backend touches a device's memory.
void stand_in(int index, stave::Backend* backend) noexcept;

}  // namespace stave_detail
