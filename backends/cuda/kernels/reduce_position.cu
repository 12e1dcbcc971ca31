// Kernels of argmax and argmin.
#include <stave/backends/cuda/kernels/reduce_launch.cuh>

namespace stave_cuda {

ReduceLauncher arg_reduction(stave::Dtype dtype) { return reduction_of<ArgExtreme>(dtype); }

}  // namespace stave_cuda
