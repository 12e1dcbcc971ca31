// The driver of convolutions.
#pragma once

#include <stave/core/tensor/backend.h>

namespace stave_cpu {

/// Computes the convolution of x and w, which have one dtype other than sixteen-bit floats.
/// `out` is contiguous (core/op/attributes.h).
void run_convolution(const stave::ConvolutionAttributes& attributes, const stave::View& x, const stave::View& w,
                     const stave::View& out);

}  // namespace stave_cpu
