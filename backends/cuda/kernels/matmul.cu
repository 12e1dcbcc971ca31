// The kernel of run_tiled_matmul.
#include <stave/backends/cuda/matmul.h>
#include <stave/backends/cuda/kernels/matmul.cuh>

namespace stave_cuda {

namespace {

template <class T>
__global__ void __launch_bounds__(block_threads) tiled_product_kernel(const __grid_constant__ TiledProduct<T> product) {
  __shared__ ProductTiles<T> shared;
  tiled_product_body(DeviceBlock(), product, shared);
}

template <class T>
void launch_product(const Launch& launch, const stave::View& a, const stave::View& b, const stave::View& out) {
  const std::size_t batch_rank = out.shape.size() - 2;
  const IndexPlan<2> plan(out.shape.first(batch_rank), {a.strides.first(batch_rank), b.strides.first(batch_rank)});
  const TiledProduct<T> product = tiled_product<T>(a, b, out, plan.on_device(launch));
  const unsigned blocks = grid_for(launch, &tiled_product_kernel<T>, product.tasks);
  tiled_product_kernel<<<blocks, block_threads, 0, launch.stream>>>(product);
  check_launch("matmul");
}

}  // namespace

void run_tiled_matmul(const Launch& launch, const stave::View& a, const stave::View& b, const stave::View& out) {
  stave::visit_dtype(out.dtype, [&](auto zero) {
    using T = decltype(zero);  // the frontend rejects products of bool
    if constexpr (!std::is_same_v<T, bool>) launch_product<Signless<T>>(launch, a, b, out);
  });
}

}  // namespace stave_cuda
