#include <stave/backends/cuda/kernels/elementwise.cuh>

namespace stave_cuda {

void fill_binary_floats(ElementwiseKernels& table) {
#define X(name, type) fill_binary<type>(table.by_dtype[static_cast<int>(stave::name)]);
  STAVE_FLOATS(X)
#undef X
}

}  // namespace stave_cuda
