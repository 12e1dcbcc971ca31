// Operations that create, move or place elements.
#pragma once

#include <span>

#include <stave/backends/cuda/launch.h>
#include <stave/core/op/attributes.h>
#include <stave/core/tensor/backend.h>

namespace stave_cuda {

void run_full(const Launch& launch, const stave::FullAttributes& attributes, const stave::View& out);
void run_iota(const Launch& launch, const stave::IotaAttributes& attributes, const stave::View& out);
/// The elements of `in` in row-major order, whatever the shape of `out`.
void run_copy(const Launch& launch, const stave::View& in, const stave::View& out);
void run_pad(const Launch& launch, const stave::PadAttributes& attributes, const stave::View& in,
             const stave::View& out);
void run_concat(const Launch& launch, int axis, std::span<const stave::View> inputs, const stave::View& out);

/// Elements in memory with strides of their own.
struct Placed {
  void* data;
  std::span<const Index> strides;  // in elements
};
/// to = from elementwise, both of `shape`, elements of `size` bytes; those of `to` are distinct, and none is in `from`.
void copy_strided(const Launch& launch, Placed to, Placed from, std::span<const Index> shape, Index size);
/// An input whose runs in memory cross those of the output: read element by element, each access of memory would fetch eight times
/// what it uses. Such a one is copied to scratch memory, by tiles, where it is too large to be met again in a cache; `dense` then holds
/// its strides.
void lay_out(const Launch& launch, stave::View& in, stave::Strides& dense);

}  // namespace stave_cuda
