// Kernels of max, min, all and any.
#include <stave/core/op/all_ops.h>
#include <stave/backends/cuda/kernels/reduce_launch.cuh>

namespace stave_cuda {

using stave::OpId;

ReduceLauncher extreme_reduction(OpId op, stave::Dtype dtype) {
  if (op == OpId::max || op == OpId::min) return reduction_of<Extreme>(dtype);
  return dtype == stave::bool_ ? launch_reduction<Logical> : nullptr;
}

}  // namespace stave_cuda
