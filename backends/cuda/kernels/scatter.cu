#include <stave/backends/cuda/index.h>
#include <stave/backends/cuda/kernels/nothing_to_move.h>
#include <stave/backends/cuda/sort_pairs.h>
#include <stave/backends/parts_apart.h>
#include <stave/core/op/op.h>
#include <stave/backends/cuda/kernels/layout.cuh>
#include <stave/backends/cuda/kernels/scatter.cuh>

#include <bit>

namespace stave_cuda {

using stave::OpId;

namespace {

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
template <class How, class T>
__global__ void __launch_bounds__(block_threads) merge_parts_kernel(const __grid_constant__ ScatterLoop loop) {
  merge_parts<How, T>(loop, {blockIdx.x, threadIdx.x, blockDim.x});
}
template <class How, class T>
__global__ void __launch_bounds__(block_threads) merge_updates_kernel(const __grid_constant__ ScatterLoop loop) {
  merge_updates<How, T>(loop, {blockIdx.x, threadIdx.x, blockDim.x});
}

template <class T>
T* scratch_array(const Launch& launch, Index n) {
  return static_cast<T*>(launch.scratch.allocate(static_cast<std::size_t>(n) * sizeof(T)));
}
template <class How, class T>
void launch_merges_as(const Launch& launch, const ScatterLoop& loop) {
  const std::uint64_t units = loop.slices.slice_units.divisor;
  if (loop.parts() > 1)
    merge_parts_kernel<How, T><<<blocks_for(loop.parts() * units), block_threads, 0, launch.stream>>>(loop);
  merge_updates_kernel<How, T><<<blocks_for(loop.lanes * units), block_threads, 0, launch.stream>>>(loop);
  check_launch("a scatter");
}
/// Merges all updates that add_at_once does not add. If the sign does not matter, all integers of
/// one size share a kernel. The scatters of complex numbers are those of their parts, except for
/// scatter_multiply.
template <class T>
void launch_merges_of(const Launch& launch, OpId op, const ScatterLoop& loop) {
  if constexpr (stave::ComplexNumber<T>) {
    launch_merges_as<Multiplying, T>(launch, loop);
  } else {
    using Wrapping = Signless<T>;
    if (op == OpId::scatter) return launch_merges_as<Latest, BitsOf<T>>(launch, loop);
    if constexpr (!std::is_same_v<T, bool>) {
      if (op == OpId::scatter_multiply) return launch_merges_as<Multiplying, Wrapping>(launch, loop);
      if (op == OpId::scatter_min) return launch_merges_as<Least, T>(launch, loop);
      if (op == OpId::scatter_max) return launch_merges_as<Greatest, T>(launch, loop);
      if constexpr (!std::is_integral_v<T> || sizeof(T) < 4) return launch_merges_as<Adding, Wrapping>(launch, loop);
    }
  }
}
void launch_merges(const Launch& launch, OpId op, stave::Dtype dtype, const ScatterLoop& loop) {
  stave::visit_dtype(dtype, [&](auto zero) { launch_merges_of<decltype(zero)>(launch, op, loop); });
}

/// Adds integers atomically. Sums wrap, so signed integers are added as unsigned ones. Returns
/// false for elements of fewer than four bytes, for which a device has no atomic addition.
bool add_at_once(const Launch& launch, const SlicePlan& plan) {
  const SliceLoop loop = plan.on_device(launch);
  if (plan.unit() == 4) add_slices_kernel<std::uint32_t><<<plan.blocks(), block_threads, 0, launch.stream>>>(loop);
  else if (plan.unit() == 8) add_slices_kernel<std::uint64_t><<<plan.blocks(), block_threads, 0, launch.stream>>>(loop);
  else return false;
  check_launch("scatter_add");
  return true;
}

std::size_t size_of_merged(stave::Dtype dtype) {
  return stave::visit_dtype(dtype, [](auto zero) { return sizeof(Merged<decltype(zero)>); });
}

/// Scatters the lanes of `loop`: sorts them by destination and merges their updates. The arrays
/// have one entry per lane.
void scatter_lanes(const Launch& launch, OpId op, stave::Dtype dtype, ScatterLoop loop, std::uint32_t* sorted_keys,
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
  launch_merges(launch, op, dtype, loop);
}

}  // namespace

void run_scatter(const Launch& launch, OpId op, const stave::GatherAttributes& attributes, const View& x,
                 const View& indices, const View& updates, const View& out) {
  if (stave::is_complex(x.dtype) && op != OpId::scatter_multiply) {
    const stave_detail::PartsApart from(x), added(updates), to(out);
    return run_scatter(launch, op, attributes, from.view, indices, added.view, to.view);
  }
  const char* const name = record_of(op).name;
  const auto size = static_cast<Index>(stave::size_of(x.dtype));
  if (out.data != x.data) copy_strided(launch, {out.data, out.strides}, {x.data, x.strides}, x.shape, size);
  const SlicePlan plan = SlicePlan::gather(attributes, out, updates, indices, size);
  if (nothing_to_move(launch, plan, name)) return;
  if (op == OpId::scatter_add && !is_float(x.dtype) && add_at_once(launch, plan)) return;
  const Index n = std::min(plan.lanes(), most_sorted);
  ScatterLoop loop = scatter_loop(plan, plan.on_device(launch), out);
  loop.destination = scratch_array<std::uint64_t>(launch, n);
  loop.sorted = scratch_array<std::uint64_t>(launch, n);
  loop.key = scratch_array<std::uint32_t>(launch, n);
  loop.lane = scratch_array<std::uint32_t>(launch, n);
  const Index parts = ((n - 1) >> loop.part_bits) + 1;
  loop.partials = launch.scratch.allocate(static_cast<std::size_t>(parts * plan.units()) * size_of_merged(x.dtype));
  auto* sorted_keys = scratch_array<std::uint32_t>(launch, n);
  auto* order = scratch_array<std::uint32_t>(launch, n);
  for (Index first = 0; first < plan.lanes(); first += n) {
    loop.first_lane = static_cast<std::uint64_t>(first);
    loop.lanes = static_cast<std::uint64_t>(std::min(n, plan.lanes() - first));
    scatter_lanes(launch, op, out.dtype, loop, sorted_keys, order);
  }
}

}  // namespace stave_cuda
