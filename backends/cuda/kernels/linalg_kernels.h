// Launches of the linear algebra kernels. linalg_small.cu and linalg_large.cu instantiate the
// templates for the work types that linalg_works.h lists.
#pragma once

#include <algorithm>

#include <stave/backends/cuda/launch.h>

namespace stave_cuda {

/// Returns how many teams of `width` lanes run concurrently. If the work needs memory per team,
/// there is one slot of memory for each of them.
inline Index team_slots(const Launch& launch, Index items, int width) {
  const Index together = 32 / width, blocks = (items + together - 1) / together;
  return together * std::clamp<Index>(blocks, 1, Index{launch.multiprocessors} * 16);
}

/// Launches work for teams (kernels/team.cuh).
template <class Work>
void launch_teams(const Launch& launch, const Work& work, const char* what);
/// Launches work for whole blocks (kernels/linalg_large.cuh).
template <class Work>
void launch_blocks(const Launch& launch, const Work& work, const char* what);

}  // namespace stave_cuda
