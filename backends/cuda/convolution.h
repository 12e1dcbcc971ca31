// Convolutions, and the maxima of windows.
#pragma once

#include <stave/backends/cuda/launch.h>
#include <stave/core/op/attributes.h>
#include <stave/core/tensor/backend.h>

namespace stave_cuda {

/// Images at a time the matrix of windows is laid out in scratch memory, and multiplied by run_matmul. `out` is contiguous.
void run_convolution(const Launch& launch, const stave::ConvolutionAttributes& attributes, const stave::View& x,
                     const stave::View& w, const stave::View& out);

void run_argmax_pool(const Launch& launch, const stave::PoolAttributes& attributes, const stave::View& x,
                     const stave::View& out);

}  // namespace stave_cuda
