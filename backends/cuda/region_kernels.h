// Compiled kernels of regions. Each is compiled once per source text and device, and cached in
// memory and, for other processes, on disk (code_cache.h).
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <span>

#include <stave/core/program/region.h>

namespace stave_cuda {

/// Functions of the driver that load and launch compiled code.
struct Modules {
#define STAVE_MODULES(X) X(ModuleLoadData) X(ModuleGetFunction) X(LaunchKernel) X(CtxGetCurrent)
#define X(name) decltype(&cu##name) name = nullptr;
  STAVE_MODULES(X)
#undef X
};
/// Returns the functions, or null if the driver lacks one of them.
const Modules* modules();

struct RegionKernel {
  CUfunction function = nullptr;
  std::size_t most_argument_bytes = 0;
};
/// Returns the region's kernel for the current device. Its `function` is null if there is no
/// compiler, or if the device accepts no code from it. The reference stays valid.
const RegionKernel& region_kernel(const stave::Region& region);
/// Launches a kernel with blocks of region_threads threads on the current device.
/// `arguments` come from RegionPlan.
void launch(const RegionKernel& kernel, unsigned blocks, cudaStream_t stream, std::span<void*> arguments);

}  // namespace stave_cuda
