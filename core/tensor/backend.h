// The interface between the frontend and a backend, in terms of storage and strided views.
//
//   The frontend guarantees                           A backend must
//   - shapes, dtypes, axes and attributes are valid   - compute every operation of all_ops.h on
//     and normalised (core/op/attributes.h)             every dtype that the operation admits, for
//   - operands of elementwise operations have one       inputs of any strides (positive, negative,
//     shape and one dtype (where: bool, then one        zero for broadcasts) and any rank, also
//     dtype)                                            without elements
//   - outputs are allocated, with the inferred shape  - fill each output, which is contiguous and
//     and dtype; an elementwise output may share        row-major
//     the buffer of a contiguous input of its size    - hide the handler stack from its worker
//   - views (transposes, slices, reshapes without a     threads, and perform no operations
//     copy) and `to` never reach run                  - throw IndexError for an index out of range,
//   - all views are of memory on this device, except    before it writes; an asynchronous backend
//     numbers (View); the host accesses that memory     throws at the next read or synchronize(),
//     by read and write only (except the CPU's)         and accesses no memory at that index
//                                                     - throw nothing but stave::Error and
//                                                       std::bad_alloc
//                                                     - keep the order of requests, deallocation
//                                                       included: the inputs of an operation may be
//                                                       freed before the operation reads them
//
// DESIGN: kernels never perform operations. Handlers observe calls before
// the calls reach this interface.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include <stave/core/effects/function_ref.h>
#include <stave/core/effects/intrusive.h>
#include <stave/core/tensor/dtype.h>
#include <stave/core/tensor/shape.h>

namespace stave {

class Backend;
struct Attributes;
struct Op;
struct Program;
class MachineCode;

/// Bytes on a device, shared by the tensors that view them. `data` is aligned to 64 bytes, or to 16
/// if the storage has at most 16 bytes. Memory that another library lends is aligned only to the
/// size of an element.
struct Storage : RefCounted {
  // True for a constant on a device: its one element is in the host's memory, and no bytes are on
  // the device.
  bool is_host_constant = false;
  // The backend that allocated the memory. Null if the memory is a host constant or belongs to
  // another library (storage.h); then no result may reuse it.
  Backend* owner = nullptr;
  void* data = nullptr;
  std::size_t bytes = 0;     // requested bytes
  std::size_t capacity = 0;  // allocated bytes
};
using StoragePtr = IntrusivePtr<Storage>;
void destroy(Storage* storage) noexcept;  // returns the storage to its owner

/// A strided view, as a kernel receives it: `data` points at element (0, ..., 0);
/// strides count elements.
struct View {
  void* data;
  Dtype dtype;
  std::span<const Index> shape;
  std::span<const Index> strides;
  // True if `data` points at one element in the host's memory, which is the value at all positions.
  // The element exists until run() returns.
  bool is_host_constant = false;
};

/// The memory of a backend: allocated and cached. All numbers are bytes.
struct MemoryStats {
  std::size_t live_bytes = 0;    // in storage of existing tensors
  std::size_t peak_bytes = 0;    // the maximum of live_bytes since reset_peak_memory()
  std::size_t cached_bytes = 0;  // freed, and kept for later tensors
  // In small objects of the library on the host, such as nodes, notes and tapes;
  // not part of live_bytes.
  std::size_t object_bytes = 0;
};

/// A stopwatch for the time that a device spends, used by observers.
class BackendStopwatch {
 public:
  virtual ~BackendStopwatch() = default;
  /// The time from the construction of this object to the end of all work requested since;
  /// waits for that end.
  virtual std::chrono::nanoseconds elapsed() = 0;
};

/// Operations of a backend that were recorded, so that one call of repeat() requests them all.
class RecordedWork {
 public:
  virtual ~RecordedWork() = default;
  /// Requests all the operations, in their recorded order, on the memory that they were
  /// recorded for.
  virtual void repeat() = 0;
};

/// Whether operations on small arrays run as machine code (core/program/native.h).
enum class Native {
  automatic,  // where it pays
  never,
  required  // everywhere: an operation that has no machine code is an error
};

/// The right matrix of a product, or the weights of a convolution, in the form in which a kernel
/// reads them (Backend::prepare).
class PreparedInput {
 public:
  virtual ~PreparedInput() = default;
  virtual std::size_t bytes() const = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual const char* name() const = 0;
  /// Returns new storage. Throws std::bad_alloc. For zero bytes the storage still has
  /// a valid pointer.
  virtual Storage* allocate(std::size_t bytes) = 0;
  virtual void deallocate(Storage* storage) noexcept = 0;
  /// Computes `op` on `inputs` into `outputs`. Inputs of elementwise operations and of `copy` may
  /// be numbers (View).
  virtual void run(const Op& op, const Attributes* attributes, std::span<const View> inputs,
                   std::span<const View> outputs) = 0;
  /// One operation of a sequence.
  struct Step {
    const Op* op;
    const Attributes* attributes;
    std::span<const View> inputs, outputs;
    const PreparedInput* prepared = nullptr;  // for run_product
  };
  /// Runs a sequence of operations that are independent by rows: each computes row i of its
  /// outputs from row i of its inputs, where row i is index i of axis 0 of length `rows`.
  /// So a backend may pass some rows through all operations before it starts on the next rows.
  virtual void run_row_blocks(std::span<const Step> steps, Index rows);
  /// Prepares the second input of a matmul or convolution that will run many times with the same
  /// second input. Only this input needs an address in `product`. Results with a prepared input may
  /// differ from those of run() in the last digits. Returns null if run() reads the input in its
  /// best form.
  virtual std::shared_ptr<const PreparedInput> prepare(const Step& /*product*/) { return nullptr; }
  /// Runs a matmul or convolution, and then `epilogue`, unless it is null: an operation with one
  /// output, each of whose elements depends on one element of each input. It reads the product's
  /// output in its order, and the two outputs may share a buffer.
  virtual void run_product(const Step& product, const Step* epilogue);
  /// Records the operations that `work` requests by run() on this thread, without running them.
  /// `work` does nothing else, and its operations have run before, with views of the same layouts.
  /// Returns null if this backend cannot record this work; then nothing has changed.
  virtual std::unique_ptr<RecordedWork> record(FunctionRef<void()> /*work*/) { return nullptr; }
  /// Compiles an optimized program for inputs of these strides, none of which is negative. The
  /// results of the code have the same bits as those of the kernels. Returns null and sets `reason`
  /// if there is no code.
  virtual std::shared_ptr<const MachineCode> compile(const Program&, std::span<const Strides>, std::string& reason) {
    reason = "this backend has no machine code";
    return nullptr;
  }
  /// Copies from the host into storage. When it returns, the host's memory is free for other use.
  virtual void write(void* to, const void* from, std::size_t bytes) = 0;
  /// Copies from storage to the host; waits until the storage is computed.
  virtual void read(void* to, const void* from, std::size_t bytes) = 0;
  /// copy_from(other, to, from, bytes) copies from another backend's storage into this one's.
  /// It returns false if there is no direct way; the copy then goes through the host.
  virtual bool copy_from(Backend&, void*, const void*, std::size_t) { return false; }
  /// Waits until all requested work is done; throws errors that occurred meanwhile.
  virtual void synchronize() = 0;
  // The next three functions order work between this backend and other libraries, which use the
  // same device on streams of their own (dlpack.h). A synchronous backend has no stream.
  /// The stream on which this backend works, numbered as in Python's array API; 0: none.
  virtual std::intptr_t stream() { return 0; }
  /// Makes later work on `stream` wait for all work that was requested here.
  virtual void make_stream_wait(std::intptr_t /*stream*/) {}
  /// Waits until all requested work is done. Errors that occurred meanwhile are left for the next
  /// read or synchronize().
  virtual void drain() noexcept {}
  /// Starts a stopwatch; the default, for a synchronous backend, uses the host's clock.
  virtual std::unique_ptr<BackendStopwatch> stopwatch();
  virtual MemoryStats memory_stats() const = 0;
  virtual void reset_peak_memory() = 0;
  /// Returns cached memory to the system.
  virtual void release_cached_memory() = 0;
};

/// The CPU backend. It is defined in backends/cpu; core knows only this declaration.
Backend& cpu_backend();
/// The backend of a CUDA device, and the number of devices. They are defined in backends/cuda,
/// or, in a library without it, in core/tensor/storage.cpp, where cuda_backend throws DeviceError
/// and the number is 0. With a shared library they are in a second library that programs do not
/// link to: a program calls backend_of() and cuda_device_count().
Backend& cuda_backend(int index);
int cuda_backend_count();

}  // namespace stave

namespace stave_detail {

/// Makes `backend` the backend of a CUDA device, whether the device exists or not; null undoes it.
/// Tests use it to check on any machine that only a backend touches a device's memory.
void set_backend_for_tests(int index, stave::Backend* backend) noexcept;

}  // namespace stave_detail
