// What gather, scatter and slices ask first.
#pragma once

#include <stave/backends/cuda/index_plan.h>
#include <stave/backends/cuda/launch.h>

namespace stave_cuda {

/// True if there is nothing to move; the indices are checked then.
bool nothing_to_move(const Launch& launch, const SlicePlan& plan, const char* what);

inline unsigned blocks_for(std::uint64_t threads) {
  return static_cast<unsigned>((threads + block_threads - 1) / block_threads);
}

}  // namespace stave_cuda
