// Kernels of cumulative_sum.
#include <stave/backends/cuda/kernels/scan_launch.cuh>

namespace stave_cuda {

ScanLauncher cumulative_sum(stave::Dtype dtype) { return scan_of<RunningSum>(dtype); }

}  // namespace stave_cuda
