// Kernels of sum and prod.
#include <stave/core/op/all_ops.h>
#include <stave/backends/cuda/kernels/reduce_launch.cuh>

namespace stave_cuda {

ReduceLauncher arithmetic_reduction(stave::OpId op, stave::Dtype dtype) {
  if (dtype == stave::bool_) return nullptr;
  return op == stave::OpId::sum ? reduction_of<Sum>(dtype) : reduction_of<Product>(dtype);
}

}  // namespace stave_cuda
