// The kernels of reductions and their launch. A file that includes this instantiates some of them.
#pragma once

#include <stave/backends/cuda/kernels/reduce_kernels.h>
#include <stave/backends/cuda/kernels/reduce.cuh>

namespace stave_cuda {

template <class Fold>
__global__ void __launch_bounds__(block_threads, 4) reduce_kernel(const __grid_constant__ ReduceArgs args) {
  __shared__ typename Fold::Accumulator shared[block_threads];
  reduce_body<Fold>(DeviceBlock(), args, shared);
}

template <class Fold>
__global__ void __launch_bounds__(block_threads)
    merge_kernel(const __grid_constant__ ReduceArgs args, unsigned lane_bits) {
  __shared__ typename Fold::Accumulator shared[block_threads];
  merge_body<Fold>(DeviceBlock(), args, lane_bits, shared);
}

template <class Fold>
void launch_reduction(const Launch& launch, const ReducePlan& plan) {
  ReduceArgs args = plan.on_device(launch);
  if (plan.partials() > 0)
    args.partials =
        launch.scratch.allocate(static_cast<std::size_t>(plan.partials()) * sizeof(typename Fold::Accumulator));
  const auto blocks = grid_for(launch, &reduce_kernel<Fold>, args.tasks());
  reduce_kernel<Fold><<<blocks, block_threads, 0, launch.stream>>>(args);
  check_launch("a reduction");
  if (plan.partials() == 0) return;
  const unsigned lane_bits = merge_lane_bits(args.parts());
  const Index width = block_threads >> lane_bits, tiles = (args.outputs + width - 1) / width;
  const auto merging = grid_for(launch, &merge_kernel<Fold>, tiles);
  merge_kernel<Fold><<<merging, block_threads, 0, launch.stream>>>(args, lane_bits);
  check_launch("the merging of a reduction's parts");
}

/// Returns the launcher for a dtype. All integers of one size share a fold.
template <template <class> class Fold>
ReduceLauncher reduction_of(stave::Dtype dtype) {
  return stave::visit_real_dtype(
      dtype, [](auto zero) -> ReduceLauncher { return launch_reduction<Fold<Signless<decltype(zero)>>>; });
}

}  // namespace stave_cuda
