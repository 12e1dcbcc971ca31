// The compiled kernels of regions: made once for each text and device, kept in memory, and on disk for other processes (code_cache.h).
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <span>

#include <stave/core/program/region.h>

namespace stave_cuda {

/// Functions of the driver.
struct Modules {
#define STAVE_MODULES(X) X(ModuleLoadData) X(ModuleGetFunction) X(LaunchKernel) X(CtxGetCurrent)
#define X(name) decltype(&cu##name) name = nullptr;
  STAVE_MODULES(X)
#undef X
};
/// Null if the driver does not have all of them.
const Modules* modules();

struct RegionKernel {
  CUfunction function = nullptr;
  std::size_t most_argument_bytes = 0;
};
/// For the device that is current. Without a function where there is no compiler, or it gives nothing that the device takes.
/// References stay valid.
const RegionKernel& region_kernel(const stave::Region& region);
/// With blocks of region_threads, on the device that is current; `arguments` is what RegionPlan gives.
void launch(const RegionKernel& kernel, unsigned blocks, cudaStream_t stream, std::span<void*> arguments);

}  // namespace stave_cuda
