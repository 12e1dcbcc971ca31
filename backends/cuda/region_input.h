// An input of a region's kernel, as the host plans it (region_plan.h) and the kernel
// reads it (kernels/region.cuh).
#pragma once

#include <cstdint>

#include <stave/backends/cuda/index_walk.h>

namespace stave_cuda {

inline constexpr unsigned region_threads = 256;  // threads of a block

/// The positions in an input of the elements of one thread, which are neighbours in the output.
enum class Neighbours : std::uint8_t {
  flat,    // at the same offsets as in the output
  packed,  // also contiguous, from the offset that the map gives
  still,   // all the same element
  apart    // each at its own offset
};

struct RegionInput {
  const void* data = nullptr;
  Neighbours neighbours = Neighbours::apart;
  // Maps an element of the output to an element of the input.
  IndexMap<1> map;
};

}  // namespace stave_cuda
