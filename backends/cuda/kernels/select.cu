#include <stave/backends/cuda/kernels/select.cuh>

namespace stave_cuda {

namespace {

template <class Bits>
__global__ void __launch_bounds__(block_threads) where_kernel(const __grid_constant__ ElementwiseLoop<3> loop) {
  WhereBody<Bits>::run(loop, {blockIdx.x, threadIdx.x, blockDim.x});
}
template <class From, class To>
__global__ void __launch_bounds__(block_threads) astype_kernel(const __grid_constant__ ElementwiseLoop<1> loop) {
  AstypeBody<From, To>::run(loop, {blockIdx.x, threadIdx.x, blockDim.x});
}

template <class From>
void fill_from(const void** row) {
  row[static_cast<int>(stave::bool_)] = reinterpret_cast<const void*>(&astype_kernel<From, bool>);
  row[static_cast<int>(stave::uint8)] = reinterpret_cast<const void*>(&astype_kernel<From, std::uint8_t>);
  row[static_cast<int>(stave::uint32)] = reinterpret_cast<const void*>(&astype_kernel<From, std::uint32_t>);
  row[static_cast<int>(stave::int32)] = reinterpret_cast<const void*>(&astype_kernel<From, std::int32_t>);
  row[static_cast<int>(stave::int64)] = reinterpret_cast<const void*>(&astype_kernel<From, std::int64_t>);
  row[static_cast<int>(stave::float32)] = reinterpret_cast<const void*>(&astype_kernel<From, float>);
  row[static_cast<int>(stave::float64)] = reinterpret_cast<const void*>(&astype_kernel<From, double>);
}

}  // namespace

void fill_astype(ElementwiseKernels& table) {
  fill_from<std::uint8_t>(table.astype[static_cast<int>(stave::bool_)]);  // a byte of 0 or 1
  fill_from<std::uint8_t>(table.astype[static_cast<int>(stave::uint8)]);
  fill_from<std::uint32_t>(table.astype[static_cast<int>(stave::uint32)]);
  fill_from<std::int32_t>(table.astype[static_cast<int>(stave::int32)]);
  fill_from<std::int64_t>(table.astype[static_cast<int>(stave::int64)]);
  fill_from<float>(table.astype[static_cast<int>(stave::float32)]);
  fill_from<double>(table.astype[static_cast<int>(stave::float64)]);
}

void fill_where(ElementwiseKernels& table) {
  for (std::size_t bytes : {1, 2, 4, 8, 16})
    stave::visit_size(bytes, [&](auto element) {
      table.where[bytes] = reinterpret_cast<const void*>(&where_kernel<decltype(element)>);
    });
}

}  // namespace stave_cuda
