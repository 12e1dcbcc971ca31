// A stable sort of 32-bit keys with 32-bit values. sort, scatter and random_permutation use it.
#pragma once

#include <cstdint>

#include <stave/backends/cuda/launch.h>

namespace stave_cuda {

/// Sorts by the lower `bits` bits of the keys. The arrays do not overlap.
void sort_pairs(const Launch& launch, const std::uint32_t* keys, std::uint32_t* sorted_keys,
                const std::uint32_t* values, std::uint32_t* sorted_values, std::uint32_t n, int bits = 32);

}  // namespace stave_cuda
