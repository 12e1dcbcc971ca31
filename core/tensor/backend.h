// The seam between the frontend and a backend: one declared interface, spoken in storage and strided views.
//
//   The frontend guarantees                              A backend must
//   - shapes, dtypes, axes and attributes are valid       - compute every operation of all_ops.h on every dtype that the
//     and normalised (core/op/attributes.h)                operation admits, for inputs of any strides: positive,
//   - operands of elementwise operations have one           negative, zero (broadcast), any rank, no elements
//     shape and one dtype (where: bool, then one dtype)   - fill each output, which is contiguous row-major
//   - outputs are allocated, of the inferred shape and    - keep its workers off the handler stack, and perform nothing
//     dtype; an elementwise output may be the very        - throw IndexError for an index out of range, before writing;
//     buffer of a contiguous input of the same size         one that computes later: at the next read or synchronize(),
//   - views (transposes, slices, reshapes that need no      and read and write nothing there
//     copy) and `to` never reach run                      - let no exception of its own leave other than stave::Error
//   - all views are of memory on this device, but for       and std::bad_alloc
//     numbers (View); the host looks at it through        - do what it is asked in the order of asking, deallocation
//     read and write alone (the CPU's excepted)             included: an operation may be run and its inputs freed before
//                                                           they are read
//
// DESIGN: kernels never perform operations. A handler that wants to see what runs looks at calls, above this line.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <stave/core/effects/function_ref.h>
#include <stave/core/effects/intrusive.h>
#include <stave/core/tensor/dtype.h>
#include <stave/core/tensor/shape.h>

namespace stave {

class Backend;
struct Attributes;
struct Op;

/// Bytes on a device, shared by the tensors that view them. `data` is aligned to 64 bytes; to 16 if there are no more
/// than that; another library's to the size of an element.
struct Storage : RefCounted {
  bool number = false;       // of a constant on a device: one element, in the host's memory, with no bytes there
  Backend* owner = nullptr;  // null: memory that no result may take, a number's or another library's (storage.h)
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
  bool number = false;  // one element for all, in the host's memory until run() returns
};

/// What a backend has given out and keeps. Bytes.
struct MemoryStats {
  std::size_t live_bytes = 0;    // in storage of tensors that exist
  std::size_t peak_bytes = 0;    // the most that live_bytes has been since reset_peak_memory()
  std::size_t cached_bytes = 0;  // freed, kept for the next tensor
  std::size_t object_bytes = 0;  // of the host, besides: the library's small objects, such as nodes, notes and tapes
};

/// The time that a device spends, for those who show it.
class BackendStopwatch {
 public:
  virtual ~BackendStopwatch() = default;
  /// From when this was made to the end of what has been asked for since; waits for that end.
  virtual std::chrono::nanoseconds elapsed() = 0;
};

/// Operations that a backend recorded, to be asked for as a whole.
class RecordedWork {
 public:
  virtual ~RecordedWork() = default;
  /// Asks for all of it: in the order of asking, on the memory that it was recorded for.
  virtual void repeat() = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual const char* name() const = 0;
  /// Throws std::bad_alloc. Zero bytes give storage with a valid pointer.
  virtual Storage* allocate(std::size_t bytes) = 0;
  virtual void deallocate(Storage* storage) noexcept = 0;
  /// Computes `op` on `inputs` into `outputs`. Inputs of elementwise operations and of `copy` may be numbers (View).
  virtual void run(const Op& op, const Attributes* attributes, std::span<const View> inputs,
                   std::span<const View> outputs) = 0;
  /// One of several operations in turn.
  struct Step {
    const Op* op;
    const Attributes* attributes;
    std::span<const View> inputs, outputs;
  };
  /// Operations in turn, of which each makes row i of its outputs of row i of its inputs: index i of axis 0, where all have so many.
  /// So a part of the rows may go through all, before the next part does.
  virtual void run_by_rows(std::span<const Step> steps, Index rows);
  /// What `work` asks run() for on this thread, recorded and not done. `work` does nothing else, and what it asks for has been run before,
  /// with views of the same layouts. Null: this backend cannot, or not this work; nothing is changed then.
  virtual std::unique_ptr<RecordedWork> record(FunctionRef<void()> /*work*/) { return nullptr; }
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
  // For other libraries that work on the same device, on streams of theirs (dlpack.h). A backend that computes at once has none.
  /// The stream that this one works on, by the numbers of Python's array API; 0: none.
  virtual std::intptr_t stream() { return 0; }
  /// What `stream` is given from now on begins when everything that was asked for here is done.
  virtual void lead(std::intptr_t /*stream*/) {}
  /// Waits until everything that was asked for is done. What went wrong meanwhile is left for the next read or synchronize().
  virtual void drain() noexcept {}
  /// The host's clock, for a backend that computes at once.
  virtual std::unique_ptr<BackendStopwatch> stopwatch();
  virtual MemoryStats memory_stats() const = 0;
  virtual void reset_peak_memory() = 0;
  /// Returns cached memory to the system.
  virtual void release_cached_memory() = 0;
};

/// The CPU: defined by the library's backends/cpu; core knows it by this declaration only.
Backend& cpu_backend();
/// A CUDA device, and how many there are: defined by backends/cuda, or, in a library without it, by core/tensor/storage.cpp, where it
/// throws DeviceError, and there are none. Beside a shared library they stand in another one, which a program is not linked to:
/// it calls backend_of() and cuda_device_count().
Backend& cuda_backend(int index);
int cuda_backend_count();

}  // namespace stave

namespace stave_detail {

/// Makes `backend` that of a CUDA device, whether there is one or not; null: no longer. Tests stand in a backend so, and
/// see on any machine that nothing but a backend touches a device's memory.
void stand_in(int index, stave::Backend* backend) noexcept;

}  // namespace stave_detail
