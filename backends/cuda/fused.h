// A region as one kernel, which NVRTC compiles for the device at hand; of what the region ends in by reducing it, the kernels that reductions
// have. Without NVRTC, or where the kernel would take more arguments than
// fit, its steps one after another: with the same results.
#pragma once

#include <span>

#include <stave/backends/cuda/launch.h>
#include <stave/core/program/region.h>
#include <stave/core/tensor/backend.h>

namespace stave_cuda {

/// The inputs have one shape, which is that of the outputs but for those that are reductions; outputs are contiguous.
void run_fused(const Launch& launch, const stave::Region& region, std::span<const stave::View> inputs,
               std::span<const stave::View> outputs);

}  // namespace stave_cuda
