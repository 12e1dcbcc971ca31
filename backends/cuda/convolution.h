// Drivers of convolution and of the positions of maxima in windows.
#pragma once

#include <stave/backends/cuda/launch.h>
#include <stave/core/op/attributes.h>
#include <stave/core/tensor/backend.h>

namespace stave_cuda {

/// Computes a convolution. For some images at a time it writes the matrix of windows (im2col) into
/// scratch memory and multiplies it by run_matmul. `out` is contiguous.
void run_convolution(const Launch& launch, const stave::ConvolutionAttributes& attributes, const stave::View& x,
                     const stave::View& w, const stave::View& out);

void run_argmax_pool(const Launch& launch, const stave::PoolAttributes& attributes, const stave::View& x,
                     const stave::View& out);

}  // namespace stave_cuda
