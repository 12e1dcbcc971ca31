// The kernels of scans and their launch. A file that includes this instantiates some of them.
#pragma once

#include <stave/backends/cuda/kernels/scan_kernels.h>
#include <stave/backends/cuda/kernels/scan.cuh>

namespace stave_cuda {

template <class Step>
__global__ void __launch_bounds__(block_threads)
    scan_rows_kernel(const __grid_constant__ ScanArgs args, ScanStage stage) {
  scan_rows_body<Step>(DeviceBlock(), args, stage);
}

template <class Step>
__global__ void __launch_bounds__(block_threads)
    scan_tiles_kernel(const __grid_constant__ ScanArgs args, ScanStage stage) {
  __shared__ ScanShared<Step> shared;
  scan_tiles_body<Step>(DeviceBlock(), args, stage, shared);
}

template <class Step>
void launch_scan(const Launch& launch, const ScanPlan& plan) {
  ScanArgs args = plan.on_device(launch);
  const auto run = [&](ScanStage stage) {
    auto* const kernel = args.tiles ? &scan_tiles_kernel<Step> : &scan_rows_kernel<Step>;
    kernel<<<grid_for(launch, kernel, plan.tasks(stage)), block_threads, 0, launch.stream>>>(args, stage);
    check_launch("a scan");
  };
  if (const auto partials = static_cast<std::size_t>(plan.partials()); partials > 0) {
    args.summaries = launch.scratch.allocate(partials * sizeof(typename Step::Map));
    args.carries = launch.scratch.allocate(partials * sizeof(typename Step::State));
    run(ScanStage::summaries);
    run(ScanStage::carries);
  }
  run(ScanStage::scan);
}

/// Returns the launcher for a dtype. All integers of one size share a step.
template <template <class> class Step>
ScanLauncher scan_of(stave::Dtype dtype) {
  if (dtype == stave::bool_) return nullptr;
  if (stave::is_complex(dtype)) {
    if constexpr (requires { typename Step<stave::ComplexElement<double>>::ComplexState; })
      return dtype == stave::complex64 ? launch_scan<Step<stave::ComplexElement<float>>>
                                       : launch_scan<Step<stave::ComplexElement<double>>>;
    else return nullptr;
  }
  return stave::visit_real_dtype(dtype,
                                 [](auto zero) -> ScanLauncher { return launch_scan<Step<Signless<decltype(zero)>>>; });
}

}  // namespace stave_cuda
