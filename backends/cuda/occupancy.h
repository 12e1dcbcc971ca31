// The number of blocks of a kernel that a device runs concurrently.
#pragma once

#include <stave/backends/cuda/launch.h>

namespace stave_cuda {

/// Returns how many blocks of block_threads threads one multiprocessor of the current device runs
/// concurrently. Registers and shared memory limit the number. The function queries CUDA once per
/// kernel and device.
int blocks_at_once(const void* kernel);

/// Returns how many blocks to launch for this many tasks: at most `at_once`, the number of blocks
/// that run concurrently. A block processes several tasks in turn, so further blocks would only
/// wait for the first ones to end.
inline std::int64_t grid_size(std::int64_t tasks, std::int64_t at_once) { return tasks < at_once ? tasks : at_once; }

template <class Kernel>
unsigned grid_for(const Launch& launch, Kernel* kernel, std::int64_t tasks) {
  const std::int64_t at_once =
      std::int64_t{launch.multiprocessors} * blocks_at_once(reinterpret_cast<const void*>(kernel));
  return static_cast<unsigned>(grid_size(tasks, at_once));
}

}  // namespace stave_cuda
