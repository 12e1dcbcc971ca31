#include <stave/backends/cuda/kernels/elementwise.cuh>

namespace stave_cuda {

void fill_binary_wholes(ElementwiseKernels& table) {
  fill_binary<bool>(table.by_dtype[static_cast<int>(stave::bool_)]);
  fill_binary<std::uint8_t>(table.by_dtype[static_cast<int>(stave::uint8)]);
  fill_binary<std::uint32_t>(table.by_dtype[static_cast<int>(stave::uint32)]);
  fill_binary<std::int32_t>(table.by_dtype[static_cast<int>(stave::int32)]);
  fill_binary<std::int64_t>(table.by_dtype[static_cast<int>(stave::int64)]);
}

}  // namespace stave_cuda
