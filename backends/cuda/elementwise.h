// Host functions that launch the elementwise kernels. Inputs may have any strides. The output is
// contiguous and may be the buffer of a contiguous input.
#pragma once

#include <span>

#include <stave/backends/cuda/launch.h>
#include <stave/core/op/op_id.h>
#include <stave/core/tensor/backend.h>

namespace stave_cuda {

/// Computes a unary or binary operation. The inputs have the output's shape and one common dtype.
void run_elementwise(const Launch& launch, stave::OpId op, std::span<const stave::View> inputs, const stave::View& out);
/// Computes out = condition ? x : y.
void run_where(const Launch& launch, const stave::View& condition, const stave::View& x, const stave::View& y,
               const stave::View& out);
/// Converts between any two dtypes. A float becomes an integer by truncation; a value out of range
/// saturates, and NaN becomes 0.
void run_astype(const Launch& launch, const stave::View& in, const stave::View& out);

}  // namespace stave_cuda
