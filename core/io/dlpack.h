// DLPack: arrays that libraries hand to one another where they lie, without a copy. NumPy, PyTorch, JAX, CuPy and others have it.
//
//   const Tensor x = from_dlpack(theirs);                      // their memory; it goes back with the last tensor that views it
//   DLManagedTensorVersioned* ours = to_dlpack(f(x));          // our memory; it stays until the structure's deleter is called
//
// The two structures are dlpack.h's of any version 1.x; that header is needed only by who looks into them.
//
// - Tensors are immutable. Memory from elsewhere is read and never written, nor counted by memory_stats(). Transforms and compiled
//   functions take it for constant, so whoever goes on writing to it hands over a copy.
// - What others get of a tensor is theirs to read. The versioned structure says so by its flag; the older one cannot, and who may write
//   to it is given a copy.
// - Bools are bytes of 0 and 1. Every other byte is true, as in NumPy's and PyTorch's
//   uint8.view(bool); an array with such a byte is copied. from_dlpack looks at all bytes of bools,
//   and waits for a device to do so.
// - Values keep dtype, shape and strides: all dtypes of Stave, any strides. Memory of the host, pinned or not, makes tensors on the CPU,
//   CUDA's and managed memory on cuda(i).
// - Neither function is an operation that handlers see. to_dlpack reads its tensor as data() does: it throws where somebody follows the
//   derivative, vmap parts lanes there, and under compile it is a read of the value.
// - On a device both return at once, except for bools that come in, and streams wait for one another.
//   A tensor computes on dlpack_stream(device): that is what the other library's export is asked to
//   make ready (obj.__dlpack__(stream=...)). Where the last tensor over another library's memory goes,
//   the host waits until the device no longer reads it.
//
// Source: https://dmlc.github.io/dlpack/latest/c_api.html, https://data-apis.org/array-api/latest/design_topics/data_interchange.html
#pragma once

#include <cstdint>

#include <stave/core/tensor/options.h>
#include <stave/core/tensor/tensor.h>

struct DLManagedTensor;
struct DLManagedTensorVersioned;

namespace stave {

/// A tensor over the structure's memory. The structure is taken over in any case: its deleter is called when the last tensor goes, by the
/// thread that drops it, or here, before an error is thrown. Throws DtypeError for an element type that Stave lacks, DeviceError for
/// memory where no backend is, ShapeError for lengths and strides that describe no array, and Error for a version that is not 1.x,
/// for elements that are not aligned to their size, and for a null pointer.
Tensor from_dlpack(DLManagedTensorVersioned* managed);
Tensor from_dlpack(DLManagedTensor* managed);

struct DlpackOptions {
  [[no_unique_address]] ByName by_name{};
  bool copy = false;  ///< memory that nobody else sees, row-major: the other library may write to it
  /// Of a device: what is done on this stream from now on waits for the value. As Python's array API numbers them: 1 the default stream,
  /// 2 that of each thread, else the stream's handle; -1: none is to wait.
  std::intptr_t stream = 1;
};

/// The value as a structure for another library, which calls its deleter, on any thread, when it is done with it: on a device, when its
/// work there is done, too, for tensors made later get the memory.
DLManagedTensorVersioned* to_dlpack(const Tensor& x, DlpackOptions options = {});
/// The same for a library that knows no DLPack 1.0.
DLManagedTensor* to_dlpack_unversioned(const Tensor& x, DlpackOptions options = {});

/// Calls the deleter: for a structure that nobody takes. Null is nothing.
void release_dlpack(DLManagedTensorVersioned* managed) noexcept;
void release_dlpack(DLManagedTensor* managed) noexcept;

/// The stream on which tensors of a device are computed, numbered as in DlpackOptions; 0 where there is none, as on the CPU.
std::intptr_t dlpack_stream(Device device);

}  // namespace stave
