// Kernels of cummax and cummin.
#include <stave/backends/cuda/kernels/scan_launch.cuh>

namespace stave_cuda {

ScanLauncher cummax(stave::Dtype dtype) {
  return stave::visit_real_dtype(
      dtype, [](auto zero) -> ScanLauncher { return launch_scan<RunningMax<Element<decltype(zero)>>>; });
}
ScanLauncher cummin(stave::Dtype dtype) {
  return stave::visit_real_dtype(
      dtype, [](auto zero) -> ScanLauncher { return launch_scan<RunningMin<Element<decltype(zero)>>>; });
}

}  // namespace stave_cuda
