// Reports of indices out of range by kernels.
#pragma once

#include <stave/backends/cuda/index_map.h>

namespace stave_cuda {

/// Records a fault, unless a fault is recorded already.
STAVE_BOTH inline void report(IndexFault* fault, unsigned ticket, int axis, Index index, Index size) {
#ifdef __CUDA_ARCH__
  // The atomic operation has system scope, because the host accesses `taken` too.
  if (atomicCAS_system(&fault->taken, 0u, ticket) != 0) return;
#else
  if (fault->taken != 0) return;
  fault->taken = ticket;
#endif
  fault->axis = axis;
  fault->index = index;
  fault->size = size;
}

}  // namespace stave_cuda
