// Kernels of cumulative_prod.
#include <stave/backends/cuda/kernels/scan_launch.cuh>

namespace stave_cuda {

ScanLauncher cumulative_prod(stave::Dtype dtype) { return scan_of<RunningProduct>(dtype); }

}  // namespace stave_cuda
