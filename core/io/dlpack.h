// DLPack: exchange of arrays with other libraries without a copy. NumPy, PyTorch, JAX, CuPy and
// others support it.
//
//   // Memory of another library, which gets it back when the last tensor that views it dies:
//   const Tensor x = from_dlpack(theirs);
//   // Memory of Stave, which stays until the structure's deleter is called:
//   DLManagedTensorVersioned* ours = to_dlpack(f(x));
//
// The two structures are those of dlpack.h, any version 1.x. Include that header only to access
// their members.
//
// - Tensors are immutable. Stave reads memory of other libraries and never writes to it, and
//   memory_stats() does not count it. Transforms and compiled functions treat it as constant, so a
//   library that goes on writing to its memory must pass a copy.
// - Other libraries may only read the memory of a tensor. A flag of the versioned structure says
//   so. The older structure has no such flag: for a library that may write, export a copy.
// - Bools are bytes of 0 and 1. Every other byte counts as true, as in NumPy's and PyTorch's
//   uint8.view(bool); an array with such a byte is copied. from_dlpack looks at all bytes of bools,
//   and waits for a device to do so.
// - Values keep dtype, shape and strides. All dtypes of Stave and any strides are possible.
//   Host memory, pinned or not, makes tensors on the CPU; CUDA memory and managed memory make
//   tensors on cuda(i).
// - Neither function is an operation that handlers see. to_dlpack reads its tensor as data() does:
//   it throws where a transform traces the derivative, vmap splits lanes there, and compile records
//   a read of the value.
// - For memory on a device, both functions return without waiting for the device: streams wait for
//   one another instead. Only the import of bools waits. Operations on a tensor run on
//   dlpack_stream(device). The other library's export must make its memory ready for that stream
//   (obj.__dlpack__(stream=...)). When the last tensor over memory of another library ends, the
//   host waits until the device no longer reads that memory.
//
// Source: https://dmlc.github.io/dlpack/latest/c_api.html,
// https://data-apis.org/array-api/latest/design_topics/data_interchange.html
#pragma once

#include <cstdint>

#include <stave/core/tensor/options.h>
#include <stave/core/tensor/tensor.h>

struct DLManagedTensor;
struct DLManagedTensorVersioned;

namespace stave {

/// Returns a tensor over the memory of a DLPack structure, and takes ownership of the structure. If
/// this function throws, it calls the structure's deleter first; otherwise the thread that drops
/// the last tensor over the memory calls it. Throws DtypeError for an element type that Stave
/// lacks, DeviceError for memory without a backend, ShapeError for lengths and strides that
/// describe no array, and Error for a version that is not 1.x, for elements that are not aligned to
/// their size, and for a null pointer.
Tensor from_dlpack(DLManagedTensorVersioned* managed);
Tensor from_dlpack(DLManagedTensor* managed);

struct DlpackOptions {
  [[no_unique_address]] ByName by_name{};
  /// Exports a row-major copy that nothing else uses, so that the other library may write to it.
  bool copy = false;
  /// For a device, the stream that waits for the value before its next work. It is numbered as in
  /// Python's array API: 1 is the default stream, 2 the per-thread default stream, -1 no stream,
  /// and any other number the handle of a stream; 0 throws DeviceError, because it could mean 1 or
  /// 2.
  std::intptr_t stream = 1;
};

/// Returns the value as a DLPack structure for another library. That library calls the deleter,
/// on any thread, when it no longer uses the value. If the value is on a device, the library's work
/// on it must have ended before, because later tensors reuse the memory.
DLManagedTensorVersioned* to_dlpack(const Tensor& x, DlpackOptions options = {});
/// Returns the value as a structure from before DLPack 1.0, for a library that does not know 1.0.
DLManagedTensor* to_dlpack_unversioned(const Tensor& x, DlpackOptions options = {});

/// Calls the deleter of a structure that no library took over. Does nothing for null.
void release_dlpack(DLManagedTensorVersioned* managed) noexcept;
void release_dlpack(DLManagedTensor* managed) noexcept;

/// Returns the stream on which tensors of a device are computed, numbered as in DlpackOptions;
/// 0 where there is none, as on the CPU.
std::intptr_t dlpack_stream(Device device);

}  // namespace stave
