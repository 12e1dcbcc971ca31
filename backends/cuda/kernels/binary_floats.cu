#include <stave/backends/cuda/kernels/elementwise.cuh>

namespace stave_cuda {

void fill_binary_floats(ElementwiseKernels& table) {
  fill_binary<float>(table.by_dtype[static_cast<int>(stave::float32)]);
  fill_binary<double>(table.by_dtype[static_cast<int>(stave::float64)]);
}

}  // namespace stave_cuda
