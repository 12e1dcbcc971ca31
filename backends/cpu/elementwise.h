// Runs elementwise kernels: any number of strided inputs and one contiguous output.
#pragma once

#include <stave/backends/cpu/kernels/kernels.h>
#include <stave/core/tensor/backend.h>

namespace stave_cpu {

/// Computes out = kernel(inputs...) elementwise. The work is divided among threads in parts of at
/// least about `grain` elements. The inputs, at most three, have the output's shape.
void run_elementwise(BlockKernel kernel, std::span<const stave::View> inputs, const stave::View& out, Index grain);
/// Computes out = kernel(inputs...) like run_elementwise, for elements of any size up to 16 bytes.
/// It ignores the dtypes of the views. `sizes` holds the element sizes in bytes: that of `out`,
/// then those of the inputs.
void run_elementwise_sized(BlockKernel kernel, std::span<const stave::View> inputs, const stave::View& out,
                           const Index* sizes, Index grain);

}  // namespace stave_cpu
