// Host functions that launch the reductions.
#pragma once

#include <stave/backends/cuda/launch.h>
#include <stave/core/op/op_id.h>
#include <stave/core/tensor/backend.h>

namespace stave_cuda {

/// Computes sum, prod, max, min, all or any. In `out` the reduced axes are absent or have length 1.
void run_reduce(const Launch& launch, stave::OpId op, const stave::Shape& axes, const stave::View& in,
                const stave::View& out);

/// Computes argmax or argmin over one axis, or over all axes as one row-major
/// vector. `out` is int32 or int64.
void run_arg_reduce(const Launch& launch, stave::OpId op, const stave::Shape& axes, const stave::View& in,
                    const stave::View& out);

}  // namespace stave_cuda
