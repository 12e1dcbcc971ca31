#include <stave/backends/cuda/kernels/elementwise.cuh>

namespace stave_cuda {

void fill_unary_wholes(ElementwiseKernels& table) {
#define X(name, type) fill_unary<type>(table.by_dtype[static_cast<int>(stave::name)]);
  X(bool_, bool) STAVE_INTEGERS(X)
#undef X
}

}  // namespace stave_cuda
