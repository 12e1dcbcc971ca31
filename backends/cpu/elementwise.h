// The driver of elementwise kernels: any number of strided inputs, one contiguous output.
#pragma once

#include <stave/backends/cpu/kernels/kernels.h>
#include <stave/core/tensor/backend.h>

namespace stave_cpu {

/// out = kernel(inputs...) elementwise, in parts of at least about `grain` elements for each thread. The inputs have the
/// output's shape, and at most three dtypes among them.
void run_elementwise(BlockKernel kernel, std::span<const stave::View> inputs, const stave::View& out, Index grain);
/// The same for elements of any size up to 16 bytes, whatever dtypes the views have: `sizes` of out, then of the inputs.
void run_elementwise_sized(BlockKernel kernel, std::span<const stave::View> inputs, const stave::View& out,
                           const Index* sizes, Index grain);

}  // namespace stave_cpu
