// Sorting pairs by radix: CUB's device-wide sort, instantiated once for all that sorts.
#pragma once

#include <stave/backends/cuda/launch.h>

namespace stave_cuda {

/// Keys with values, and as much memory again.
struct SortedPairs {
  std::uint64_t *keys, *spare_keys;
  std::uint32_t *values, *spare_values;
};

/// In scratch memory.
SortedPairs allocate_pairs(const Launch& launch, Index count);

/// Orders `count` pairs by bits [0, bits) of their keys; stable. What was in order before is afterwards in `keys` and `values`,
/// which may have changed places with the spare ones.
void sort_pairs(const Launch& launch, SortedPairs& pairs, Index count, int bits);

}  // namespace stave_cuda
