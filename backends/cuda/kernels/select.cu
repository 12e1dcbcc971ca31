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
void fill_astype_from(const void** row) {
#define X(name, To)                    \
  row[static_cast<int>(stave::name)] = \
      reinterpret_cast<const void*>(&astype_kernel<ReadAs<From, To>, WrittenAs<From, To>>);
  STAVE_REALS(X)
#undef X
}

}  // namespace

void fill_astype(ElementwiseKernels& table) {
#define X(name, type) fill_astype_from<type>(table.astype[static_cast<int>(stave::name)]);
  STAVE_REALS(X)
#undef X
}

void fill_where(ElementwiseKernels& table) {
  for (std::size_t bytes : {1, 2, 4, 8, 16})
    stave::visit_size(bytes, [&](auto element) {
      table.where[bytes] = reinterpret_cast<const void*>(&where_kernel<decltype(element)>);
    });
}

}  // namespace stave_cuda
