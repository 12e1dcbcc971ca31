// Convolutions on the CPU.
#pragma once

#include <stave/backends/cpu/finished.h>
#include <stave/core/op/attributes.h>
#include <stave/core/tensor/backend.h>

namespace stave_cpu {

/// Computes the convolution of x and w, as ConvolutionAttributes (core/op/attributes.h) describes
/// it. x and w have one dtype other than sixteen-bit floats, and `out` is contiguous. Returns true
/// if `finished`, unless it is null, received all results.
bool run_convolution(const stave::ConvolutionAttributes& attributes, const stave::View& x, const stave::View& w,
                     const stave::View& out, const Finished* finished = nullptr);

}  // namespace stave_cpu
