#include <stave/backends/cuda/kernels/elementwise.cuh>

namespace stave_cuda {

void fill_unary_floats(ElementwiseKernels& table) {
  fill_unary<float>(table.by_dtype[static_cast<int>(stave::float32)]);
  fill_unary<double>(table.by_dtype[static_cast<int>(stave::float64)]);
}

}  // namespace stave_cuda
