// The drivers of elementwise kernels: any strided inputs, one contiguous output, which may be the buffer of a contiguous input.
#pragma once

#include <span>

#include <stave/backends/cuda/launch.h>
#include <stave/core/op/op_id.h>
#include <stave/core/tensor/backend.h>

namespace stave_cuda {

/// A unary or binary operation; the inputs have the output's shape and one dtype.
void run_elementwise(const Launch& launch, stave::OpId op, std::span<const stave::View> inputs, const stave::View& out);
/// out = condition ? x : y.
void run_where(const Launch& launch, const stave::View& condition, const stave::View& x, const stave::View& y,
               const stave::View& out);
/// Any pair of dtypes. Floats become integers by truncation; what does not fit saturates, NaN becomes 0.
void run_astype(const Launch& launch, const stave::View& in, const stave::View& out);

}  // namespace stave_cuda
