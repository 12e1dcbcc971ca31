#include <stave/backends/cuda/index.h>
#include <stave/backends/cuda/sort_pairs.h>
#include <stave/backends/cuda/kernels/index.cuh>
#include <stave/backends/cuda/kernels/layout.cuh>

#include <bit>

namespace stave_cuda {

namespace {

template <class Unit, bool to_part>
__global__ void __launch_bounds__(block_threads) move_slices_kernel(const __grid_constant__ SliceLoop loop) {
  move_slices<Unit, to_part>(loop, {blockIdx.x, threadIdx.x, blockDim.x});
}
__global__ void __launch_bounds__(block_threads) check_place_kernel(const __grid_constant__ SliceLoop loop) {
  check_place(loop, {blockIdx.x, threadIdx.x, blockDim.x});
}
__global__ void __launch_bounds__(block_threads) find_destinations_kernel(const __grid_constant__ ScatterLoop loop) {
  find_destinations(loop, {blockIdx.x, threadIdx.x, blockDim.x});
}
__global__ void __launch_bounds__(block_threads) take_upper_keys_kernel(const __grid_constant__ ScatterLoop loop) {
  take_upper_keys(loop, {blockIdx.x, threadIdx.x, blockDim.x});
}
__global__ void __launch_bounds__(block_threads) sort_destinations_kernel(const __grid_constant__ ScatterLoop loop) {
  sort_destinations(loop, {blockIdx.x, threadIdx.x, blockDim.x});
}
template <class T>
__global__ void __launch_bounds__(block_threads) add_slices_kernel(const __grid_constant__ SliceLoop loop) {
  add_slices<T>(loop, {blockIdx.x, threadIdx.x, blockDim.x});
}
template <class T>
__global__ void __launch_bounds__(block_threads) sum_parts_kernel(const __grid_constant__ ScatterLoop loop) {
  sum_parts<T>(loop, {blockIdx.x, threadIdx.x, blockDim.x});
}
template <class T>
__global__ void __launch_bounds__(block_threads) add_updates_kernel(const __grid_constant__ ScatterLoop loop) {
  add_updates<T>(loop, {blockIdx.x, threadIdx.x, blockDim.x});
}

template <class T>
T* scratch_array(const Launch& launch, Index n) {
  return static_cast<T*>(launch.scratch.allocate(static_cast<std::size_t>(n) * sizeof(T)));
}
unsigned blocks_for(std::uint64_t threads) {
  return static_cast<unsigned>((threads + block_threads - 1) / block_threads);
}

/// True if there is nothing to move; the indices are checked then.
bool nothing_to_move(const Launch& launch, const SlicePlan& plan, const char* what) {
  if (plan.lanes() != 0 && plan.units() != 0) return false;
  if (plan.lanes() == 0) return true;
  const SliceLoop loop = plan.on_device(launch);
  check_place_kernel<<<blocks_for(loop.lane_count), block_threads, 0, launch.stream>>>(loop);
  check_launch(what);
  return true;
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

template <class T>
void launch_sums_of(const Launch& launch, const ScatterLoop& loop) {
  const std::uint64_t units = loop.slices.slice_units.divisor;
  if (loop.parts() > 1)
    sum_parts_kernel<T><<<blocks_for(loop.parts() * units), block_threads, 0, launch.stream>>>(loop);
  add_updates_kernel<T><<<blocks_for(loop.lanes * units), block_threads, 0, launch.stream>>>(loop);
  check_launch("scatter_add");
}
/// In the dtype, for all that add_at_once does not add.
void launch_sums(const Launch& launch, stave::Dtype dtype, const ScatterLoop& loop) {
  stave::visit_dtype(dtype, [&](auto zero) {
    using T = Signless<decltype(zero)>;
    if constexpr (!std::is_integral_v<T> || sizeof(T) < 4) launch_sums_of<T>(launch, loop);
  });
}

/// Integers wrap, so signed ones go with unsigned ones. False: a device adds at once no less than four bytes.
bool add_at_once(const Launch& launch, const SlicePlan& plan) {
  const SliceLoop loop = plan.on_device(launch);
  if (plan.unit() == 4) add_slices_kernel<std::uint32_t><<<plan.blocks(), block_threads, 0, launch.stream>>>(loop);
  else if (plan.unit() == 8) add_slices_kernel<std::uint64_t><<<plan.blocks(), block_threads, 0, launch.stream>>>(loop);
  else return false;
  check_launch("scatter_add");
  return true;
}

std::size_t size_of_sum(stave::Dtype dtype) {
  return stave::visit_dtype(dtype, [](auto zero) { return sizeof(UpdateSum<decltype(zero)>); });
}

/// The lanes of `loop`, whose arrays are as long: their order by destination, then the sums.
void scatter_lanes(const Launch& launch, stave::Dtype dtype, ScatterLoop loop, std::uint32_t* sorted_keys,
                   std::uint32_t* order) {
  const auto n = static_cast<std::uint32_t>(loop.lanes);
  const unsigned blocks = blocks_for(n);
  const int bits = static_cast<int>(std::bit_width(loop.nowhere));
  find_destinations_kernel<<<blocks, block_threads, 0, launch.stream>>>(loop);
  sort_pairs(launch, loop.key, sorted_keys, loop.lane, order, n, bits < 32 ? bits : 32);
  loop.order = order;
  if (bits > 32) {
    take_upper_keys_kernel<<<blocks, block_threads, 0, launch.stream>>>(loop);
    sort_pairs(launch, loop.key, sorted_keys, loop.lane, order, n, bits - 32);
  }
  sort_destinations_kernel<<<blocks, block_threads, 0, launch.stream>>>(loop);
  launch_sums(launch, dtype, loop);
}

}  // namespace

void run_gather(const Launch& launch, const stave::GatherAttributes& attributes, const View& x, const View& indices,
                const View& out) {
  launch_slices<true>(launch, SlicePlan::gather(attributes, x, out, indices), "gather");
}

void run_scatter_add(const Launch& launch, const stave::GatherAttributes& attributes, const View& x,
                     const View& indices, const View& updates, const View& out) {
  const auto size = static_cast<Index>(stave::size_of(x.dtype));
  if (out.data != x.data) copy_strided(launch, {out.data, out.strides}, {x.data, x.strides}, x.shape, size);
  const SlicePlan plan = SlicePlan::gather(attributes, out, updates, indices, size);
  if (nothing_to_move(launch, plan, "scatter_add")) return;
  if (!is_float(x.dtype) && add_at_once(launch, plan)) return;
  const Index n = std::min(plan.lanes(), most_sorted);
  ScatterLoop loop = scatter_loop(plan, plan.on_device(launch), out);
  loop.destination = scratch_array<std::uint64_t>(launch, n);
  loop.sorted = scratch_array<std::uint64_t>(launch, n);
  loop.key = scratch_array<std::uint32_t>(launch, n);
  loop.lane = scratch_array<std::uint32_t>(launch, n);
  const Index parts = ((n - 1) >> loop.part_bits) + 1;
  loop.partials = launch.scratch.allocate(static_cast<std::size_t>(parts * plan.units()) * size_of_sum(x.dtype));
  auto* sorted_keys = scratch_array<std::uint32_t>(launch, n);
  auto* order = scratch_array<std::uint32_t>(launch, n);
  for (Index first = 0; first < plan.lanes(); first += n) {
    loop.first_lane = static_cast<std::uint64_t>(first);
    loop.lanes = static_cast<std::uint64_t>(std::min(n, plan.lanes() - first));
    scatter_lanes(launch, out.dtype, loop, sorted_keys, order);
  }
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
