// Compiled kernels of regions. A kernel is compiled once per source text and device. It is cached
// in memory and, for later processes, on disk (code_cache.h).
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <span>

#include <stave/core/program/region.h>

namespace stave_cuda {

/// Functions of the CUDA driver API that load and launch compiled code.
struct Modules {
#define STAVE_MODULES(X) X(ModuleLoadData) X(ModuleGetFunction) X(LaunchKernel) X(CtxGetCurrent)
#define X(name) decltype(&cu##name) name = nullptr;
  STAVE_MODULES(X)
#undef X
};
/// Returns the functions of `Modules`, or null if the installed CUDA driver lacks one of them.
const Modules* modules();

struct RegionKernel {
  CUfunction function = nullptr;
  std::size_t most_argument_bytes = 0;
};
/// Returns the region's kernel for the current device. Its `function` is null if NVRTC is not
/// available, or if the device cannot load the code that NVRTC makes. The reference stays valid.
const RegionKernel& region_kernel(const stave::Region& region);
/// Launches a kernel with blocks of region_threads threads on the current device. `arguments` are
/// those that RegionPlan::on_device returns.
void launch(const RegionKernel& kernel, unsigned blocks, cudaStream_t stream, std::span<void*> arguments);

}  // namespace stave_cuda
