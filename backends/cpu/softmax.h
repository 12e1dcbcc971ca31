// Driver of softmax and log_softmax.
#pragma once

#include <stave/backends/cpu/kernels/kernels.h>
#include <stave/core/backend.h>

namespace stave_cpu {

/// softmax log_softmax: `out` of `in`'s shape.
void run_softmax(const Softmax& softmax, int axis, const stave::View& in, const stave::View& out);

}  // namespace stave_cpu
