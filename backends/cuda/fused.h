// Execution of a fused region. NVRTC compiles its elementwise steps into one kernel for the
// device in use; the reductions that end the region run the ordinary reduction kernels. Without
// NVRTC, or if the kernel would need too many bytes of arguments, the steps run one after
// another, with the same results.
#pragma once

#include <span>

#include <stave/backends/cuda/launch.h>
#include <stave/core/program/region.h>
#include <stave/core/tensor/backend.h>

namespace stave_cuda {

/// Runs a region. All inputs have one shape. Outputs are contiguous and have that
/// shape too, except for reductions.
void run_fused(const Launch& launch, const stave::Region& region, std::span<const stave::View> inputs,
               std::span<const stave::View> outputs);

}  // namespace stave_cuda
