// A stable sort of 32-bit keys with 32-bit values: for the orders that scatter_add and random_permutation need.
#pragma once

#include <cstdint>

#include <stave/backends/cuda/launch.h>

namespace stave_cuda {

/// By the lower `bits` bits of the keys. No array overlaps another.
void sort_pairs(const Launch& launch, const std::uint32_t* keys, std::uint32_t* sorted_keys,
                const std::uint32_t* values, std::uint32_t* sorted_values, std::uint32_t n, int bits = 32);

}  // namespace stave_cuda
