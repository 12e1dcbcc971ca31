// Drivers of the reductions.
#pragma once

#include <stave/backends/cpu/kernels/kernels.h>
#include <stave/core/backend.h>

namespace stave_cpu {

/// sum prod max min all any: `out` has the reduced axes removed or of length 1.
void run_reduce(const Reduction& reduction, const stave::Shape& axes, const stave::View& in, const stave::View& out);

/// argmax argmin over one axis, or over all of them as one row-major vector. `out` is int32 or int64.
void run_arg_reduce(const ArgReduction& reduction, const stave::Shape& axes, const stave::View& in,
                    const stave::View& out);

}  // namespace stave_cpu
