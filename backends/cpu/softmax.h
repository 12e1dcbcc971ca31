// Driver of softmax and log_softmax.
#pragma once

#include <stave/backends/cpu/kernels/kernels.h>
#include <stave/core/tensor/backend.h>

namespace stave_cpu {

/// softmax log_softmax: `out` of `in`'s shape.
void run_softmax(const Softmax& softmax, int axis, const stave::View& in, const stave::View& out);

/// softmax_gradient of y, log_softmax_gradient of x: along the last axis, in float32 or float64;
/// `out` is contiguous.
void run_softmax_gradient(SoftmaxGradient kernel, const stave::View& x, const stave::View& ct, const stave::View& out);

}  // namespace stave_cpu
