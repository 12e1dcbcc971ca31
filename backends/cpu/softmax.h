// softmax, log_softmax, logsumexp and gradients on the CPU.
#pragma once

#include <stave/backends/cpu/kernels/kernels.h>
#include <stave/core/tensor/backend.h>

namespace stave_cpu {

/// Runs softmax, log_softmax or logsumexp along `axis`. `out` has `in`'s shape, but for logsumexp
/// its axis has length 1.
void run_softmax(const Softmax& softmax, int axis, const stave::View& in, const stave::View& out);

/// Runs softmax_gradient or log_softmax_gradient along the last axis, in float32 or float64.
/// For softmax_gradient, `x` is the result of softmax. `out` is contiguous.
void run_softmax_gradient(SoftmaxGradient kernel, const stave::View& x, const stave::View& ct, const stave::View& out);

}  // namespace stave_cpu
