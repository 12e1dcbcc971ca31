// How many blocks of a kernel a device runs at once.
#pragma once

#include <stave/backends/cuda/launch.h>

namespace stave_cuda {

/// Of block_threads threads, on one multiprocessor of the device that is current: what its registers and shared memory leave room
/// for. Asked of CUDA once for each kernel and device.
int blocks_at_once(const void* kernel);

/// Blocks to launch for so many tasks: as many as run at once, or fewer. Bodies go on from task to task, so that more would only
/// wait for these to end.
inline std::int64_t grid_size(std::int64_t tasks, std::int64_t at_once) { return tasks < at_once ? tasks : at_once; }

template <class Kernel>
unsigned grid_for(const Launch& launch, Kernel* kernel, std::int64_t tasks) {
  const std::int64_t at_once =
      std::int64_t{launch.multiprocessors} * blocks_at_once(reinterpret_cast<const void*>(kernel));
  return static_cast<unsigned>(grid_size(tasks, at_once));
}

}  // namespace stave_cuda
