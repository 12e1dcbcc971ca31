// Host functions that launch the operations that create, copy or place elements.
#pragma once

#include <span>

#include <stave/backends/cuda/launch.h>
#include <stave/core/op/attributes.h>
#include <stave/core/tensor/backend.h>

namespace stave_cuda {

void run_full(const Launch& launch, const stave::FullAttributes& attributes, const stave::View& out);
void run_iota(const Launch& launch, const stave::IotaAttributes& attributes, const stave::View& out);
/// Copies the elements of `in` to `out` in row-major order. The shapes may differ.
void run_copy(const Launch& launch, const stave::View& in, const stave::View& out);
void run_pad(const Launch& launch, const stave::PadAttributes& attributes, const stave::View& in,
             const stave::View& out);
void run_concat(const Launch& launch, int axis, std::span<const stave::View> inputs, const stave::View& out);

/// The address and the strides of elements in memory.
struct Placed {
  void* data;
  std::span<const Index> strides;  // in elements
};
/// Copies `from` to `to` elementwise, over `shape`, with elements of `size` bytes. The elements of
/// `to` are distinct and do not overlap `from`.
void copy_strided(const Launch& launch, Placed to, Placed from, std::span<const Index> shape, Index size);
/// Copies a transposed input to scratch memory by tiles, if that is faster than reading it in
/// place. If the input is contiguous along another axis than the output, an elementwise read
/// fetches eight times the bytes that it uses. A cache hides this for small inputs, so only large
/// ones are copied. `in` then refers to the copy, and `dense` holds the strides of the copy.
void lay_out(const Launch& launch, stave::View& in, stave::Strides& dense);

}  // namespace stave_cuda
