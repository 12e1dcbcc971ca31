// The kernels that linalg_kernels.h launches.
#pragma once

#include <stave/backends/cuda/kernels/linalg_kernels.h>
#include <stave/backends/cuda/kernels/linalg_large.cuh>

namespace stave_cuda {

template <class Work>
__global__ void __launch_bounds__(most_lanes) team_kernel(const __grid_constant__ Work work) {
  __shared__ TeamShared<typename Work::Value, Work::matrices> room;
  const DeviceTeam team(work.width);
  const int teams = most_lanes / work.width;
  const Index slot = static_cast<Index>(blockIdx.x) * teams + team.number(),
              slots = static_cast<Index>(gridDim.x) * teams;
  for (Index i = slot; i < work.items; i += slots) work.body(team, i, slot, {room, work.width, team.number()});
}

template <class Work>
__global__ void __launch_bounds__(block_threads) large_kernel(const __grid_constant__ Work work) {
  __shared__ LargeShared<typename Work::Value> shared;
  for (Index i = blockIdx.x; i < work.items; i += gridDim.x) {
    work.body(DeviceBlock(), i, shared);
    __syncthreads();
  }
}

template <class Work>
void launch_teams(const Launch& launch, const Work& work, const char* what) {
  const auto blocks = static_cast<unsigned>(team_slots(launch, work.items, work.width) * work.width / most_lanes);
  team_kernel<<<blocks, most_lanes, 0, launch.stream>>>(work);
  check_launch(what);
}
template <class Work>
void launch_blocks(const Launch& launch, const Work& work, const char* what) {
  const unsigned blocks = static_cast<unsigned>(std::min<Index>(work.items, Index{launch.multiprocessors} * 8));
  large_kernel<<<blocks, block_threads, 0, launch.stream>>>(work);
  check_launch(what);
}

}  // namespace stave_cuda
