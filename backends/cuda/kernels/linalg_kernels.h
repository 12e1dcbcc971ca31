// Launches of linear algebra's kernels, for the drivers: each is defined for the works that its .cu file lists.
#pragma once

#include <algorithm>

#include <stave/backends/cuda/launch.h>

namespace stave_cuda {

/// How many teams of that width work at a time; each has a slot of memory, where work wants some.
inline Index team_slots(const Launch& launch, Index items, int width) {
  const Index together = 32 / width, blocks = (items + together - 1) / together;
  return together * std::clamp<Index>(blocks, 1, Index{launch.multiprocessors} * 16);
}

/// Work for teams (kernels/team.cuh).
template <class Work>
void launch_teams(const Launch& launch, const Work& work, const char* what);
/// Work for whole blocks (kernels/linalg_large.cuh).
template <class Work>
void launch_blocks(const Launch& launch, const Work& work, const char* what);

}  // namespace stave_cuda
