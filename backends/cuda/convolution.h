// Host functions that compute convolution and the positions of the maxima in pooling windows.
#pragma once

#include <stave/backends/cuda/launch.h>
#include <stave/core/op/attributes.h>
#include <stave/core/tensor/backend.h>

namespace stave_cuda {

/// Computes a convolution by im2col. For some images at a time it writes the im2col matrices into
/// scratch memory and multiplies the weights by them with run_matmul. `out` is contiguous.
void run_convolution(const Launch& launch, const stave::ConvolutionAttributes& attributes, const stave::View& x,
                     const stave::View& w, const stave::View& out);

void run_argmax_pool(const Launch& launch, const stave::PoolAttributes& attributes, const stave::View& x,
                     const stave::View& out);

}  // namespace stave_cuda
