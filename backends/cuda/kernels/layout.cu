#include <stave/backends/cuda/launch.h>
#include <stave/backends/cuda/kernels/layout.cuh>

namespace stave_cuda {

namespace {

template <class Unit>
__global__ void __launch_bounds__(block_threads) copy_units_kernel(const __grid_constant__ UnitLoop loop) {
  copy_units<Unit>(loop, {blockIdx.x, threadIdx.x, blockDim.x});
}
template <class T>
__global__ void __launch_bounds__(block_threads) copy_tiles_kernel(const __grid_constant__ TileLoop loop) {
  __shared__ Tile<T> tile;
  const Position p{blockIdx.x, threadIdx.x, blockDim.x};
  read_tile<T>(loop, p, tile);
  __syncthreads();
  write_tile<T>(loop, p, tile);
}
__global__ void __launch_bounds__(block_threads) fill_kernel(const __grid_constant__ FillLoop loop) {
  fill_pattern(loop, {blockIdx.x, threadIdx.x, blockDim.x});
}
template <class T>
__global__ void __launch_bounds__(block_threads) iota_kernel(const __grid_constant__ IotaLoop loop) {
  iota<T>(loop, {blockIdx.x, threadIdx.x, blockDim.x});
}

void launch_units(const Launch& launch, const CopyPlan& plan) {
  const UnitLoop loop = plan.units(plan.unit_plan().on_device(launch));
  const unsigned blocks = plan.blocks();
  stave::visit_size(static_cast<std::size_t>(plan.unit()), [&](auto unit) {
    copy_units_kernel<decltype(unit)><<<blocks, block_threads, 0, launch.stream>>>(loop);
  });
  check_launch("copy");
}
void launch_tiles(const Launch& launch, const CopyPlan& plan, Index size) {
  const TileLoop loop = plan.tiles(plan.tile_plan().on_device(launch));
  const unsigned blocks = plan.blocks();
  stave::visit_size(static_cast<std::size_t>(size), [&](auto element) {
    copy_tiles_kernel<decltype(element)><<<blocks, block_threads, 0, launch.stream>>>(loop);
  });
  check_launch("copy of a transpose");
}

void fill(const Launch& launch, const View& out, const Pattern& pattern) {
  std::uint64_t bytes = stave::size_of(out.dtype);
  for (Index length : out.shape) bytes *= static_cast<std::uint64_t>(length);
  if (bytes == 0) return;
  const unsigned blocks = blocks_for((bytes + sizeof pattern - 1) / sizeof pattern);
  fill_kernel<<<blocks, block_threads, 0, launch.stream>>>({out.data, bytes, pattern});
  check_launch("full");
}

}  // namespace

const void* any_kernel() { return reinterpret_cast<const void*>(&fill_kernel); }

void copy_strided(const Launch& launch, Placed to, Placed from, std::span<const Index> shape, Index size) {
  const CopyPlan plan(to, from, shape, size);
  switch (plan.kind()) {
    case CopyPlan::CopyKind::nothing: return;
    case CopyPlan::CopyKind::flat:
      return check(cudaMemcpyAsync(to.data, from.data, static_cast<std::size_t>(plan.bytes()), cudaMemcpyDeviceToDevice,
                                   launch.stream),
                   "copy");
    case CopyPlan::CopyKind::units: return launch_units(launch, plan);
    case CopyPlan::CopyKind::tiles: return launch_tiles(launch, plan, size);
  }
}

void run_full(const Launch& launch, const stave::FullAttributes& attributes, const View& out) {
  fill(launch, out, pattern_of(out.dtype, attributes.value));
}

void run_iota(const Launch& launch, const stave::IotaAttributes& attributes, const View& out) {
  if (attributes.length == 0) return;
  const IotaLoop loop = iota_loop(attributes, out);
  const unsigned blocks = blocks_for(loop.elements);
  stave::visit_real_dtype(out.dtype, [&](auto zero) {
    using T = decltype(zero);
    using Written = std::conditional_t<std::is_same_v<T, bool>, bool, Signless<T>>;
    iota_kernel<Written><<<blocks, block_threads, 0, launch.stream>>>(loop);
  });
  check_launch("iota");
}

void run_copy(const Launch& launch, const View& in, const View& out) {
  if (in.is_host_constant) return fill(launch, out, pattern_of(in));
  const stave::Strides dense = contiguous_strides(stave::Shape(in.shape));
  copy_strided(launch, {out.data, dense}, {in.data, in.strides}, in.shape,
               static_cast<Index>(stave::size_of(in.dtype)));
}

void run_pad(const Launch& launch, const stave::PadAttributes& attributes, const View& in, const View& out) {
  fill(launch, out, pattern_of(out.dtype, attributes.value));
  const PadPlace place(attributes, out);
  copy_strided(launch, {place.data, place.strides}, {in.data, in.strides}, in.shape,
               static_cast<Index>(stave::size_of(out.dtype)));
}

void run_concat(const Launch& launch, int axis, std::span<const View> inputs, const View& out) {
  const auto along = static_cast<std::size_t>(axis);
  const auto size = static_cast<Index>(stave::size_of(out.dtype));
  char* to = static_cast<char*>(out.data);
  for (const View& in : inputs) {
    copy_strided(launch, {to, out.strides}, {in.data, in.strides}, in.shape, size);
    to += in.shape[along] * out.strides[along] * size;
  }
}

}  // namespace stave_cuda
