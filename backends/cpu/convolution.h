// Convolutions, and the maxima of windows.
#pragma once

#include <stave/core/tensor/backend.h>

namespace stave_cpu {

/// out = the convolution of x and w, of one dtype that is not of sixteen-bit floats; out is contiguous (core/op/attributes.h).
void run_convolution(const stave::ConvolutionAttributes& attributes, const stave::View& x, const stave::View& w,
                     const stave::View& out);

}  // namespace stave_cpu
