// Kernels of sum and prod. Sums of complex numbers are sums of floats (backends/parts_apart.h).
#include <stave/core/op/all_ops.h>
#include <stave/backends/cuda/kernels/reduce_launch.cuh>

namespace stave_cuda {

ReduceLauncher arithmetic_reduction(stave::OpId op, stave::Dtype dtype) {
  if (dtype == stave::bool_) return nullptr;
  if (dtype == stave::complex64) return launch_reduction<Product<stave::ComplexElement<float>>>;
  if (dtype == stave::complex128) return launch_reduction<Product<stave::ComplexElement<double>>>;
  return op == stave::OpId::sum ? reduction_of<Sum>(dtype) : reduction_of<Product>(dtype);
}

}  // namespace stave_cuda
