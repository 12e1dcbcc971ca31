// An input of a region's kernel, as the host plans it (region_plan.h) and the kernel
// reads it (kernels/region.cuh).
#pragma once

#include <cstdint>

#include <stave/backends/cuda/index_walk.h>

namespace stave_cuda {

inline constexpr unsigned region_threads = 256;  // the number of threads of a block

/// The places in an input of the elements that one thread loads. In the output these elements are
/// neighbours.
enum class Neighbours : std::uint8_t {
  flat,       // The elements are at the same offsets as in the output.
  packed,     // The elements are contiguous, and the map gives the offset of the first one.
  broadcast,  // All are one element of the input, which is broadcast.
  scattered   // The map gives the offset of each element.
};

struct RegionInput {
  const void* data = nullptr;
  Neighbours neighbours = Neighbours::scattered;
  // Maps an element of the output to an element of the input.
  IndexMap<1> map;
};

}  // namespace stave_cuda
