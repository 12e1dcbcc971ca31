#include <stave/backends/cuda/index.h>
#include <stave/backends/cuda/kernels/nothing_to_move.h>
#include <stave/backends/cuda/kernels/index.cuh>
#include <stave/backends/cuda/kernels/layout.cuh>

namespace stave_cuda {

namespace {

template <class Unit, bool to_part>
__global__ void __launch_bounds__(block_threads) move_slices_kernel(const __grid_constant__ SliceLoop loop) {
  move_slices<Unit, to_part>(loop, {blockIdx.x, threadIdx.x, blockDim.x});
}
__global__ void __launch_bounds__(block_threads) check_place_kernel(const __grid_constant__ SliceLoop loop) {
  check_place(loop, {blockIdx.x, threadIdx.x, blockDim.x});
}
template <bool to_part>
void launch_slices(const Launch& launch, const SlicePlan& plan, const char* what) {
  if (nothing_to_move(launch, plan, what)) return;
  const unsigned blocks = plan.blocks();
  const SliceLoop loop = plan.on_device(launch);
  stave::visit_size(static_cast<std::size_t>(plan.unit()), [&](auto unit) {
    move_slices_kernel<decltype(unit), to_part><<<blocks, block_threads, 0, launch.stream>>>(loop);
  });
  check_launch(what);
}

}  // namespace

bool nothing_to_move(const Launch& launch, const SlicePlan& plan, const char* what) {
  if (plan.lanes() != 0 && plan.units() != 0) return false;
  if (plan.lanes() == 0) return true;
  const SliceLoop loop = plan.on_device(launch);
  check_place_kernel<<<blocks_for(loop.lane_count), block_threads, 0, launch.stream>>>(loop);
  check_launch(what);
  return true;
}

void run_gather(const Launch& launch, const stave::GatherAttributes& attributes, const View& x, const View& indices,
                const View& out) {
  launch_slices<true>(launch, SlicePlan::gather(attributes, x, out, indices), "gather");
}

void run_dynamic_slice(const Launch& launch, const stave::DynamicSliceAttributes& attributes, const View& x,
                       const View& starts, const View& out) {
  launch_slices<true>(launch, SlicePlan::dynamic(attributes, x, out, starts), "dynamic_slice");
}

void run_dynamic_update_slice(const Launch& launch, const stave::DynamicSliceAttributes& attributes, const View& x,
                              const View& update, const View& starts, const View& out) {
  const auto size = static_cast<Index>(stave::size_of(x.dtype));
  if (out.data != x.data) copy_strided(launch, {out.data, out.strides}, {x.data, x.strides}, x.shape, size);
  launch_slices<false>(launch, SlicePlan::dynamic(attributes, out, update, starts), "dynamic_update_slice");
}

}  // namespace stave_cuda
