// Kernels of linear_recurrence.
#include <stave/backends/cuda/kernels/scan_launch.cuh>

namespace stave_cuda {

ScanLauncher linear_recurrence(stave::Dtype dtype) { return scan_of<Recurrence>(dtype); }

}  // namespace stave_cuda
