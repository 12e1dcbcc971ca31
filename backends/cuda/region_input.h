// An input of a region's kernel, as the host plans it (region_plan.h) and the kernel reads it (kernels/region.cuh).
#pragma once

#include <cstdint>

#include <stave/backends/cuda/index_walk.h>

namespace stave_cuda {

inline constexpr unsigned region_threads = 256;  // of a block

/// How the elements of a thread, which are neighbours in the output, lie in an input.
enum class Neighbours : std::uint8_t {
  flat,    // as in the output
  packed,  // as neighbours, too, from where the map says
  still,   // they are one
  apart    // each by itself
};

struct RegionInput {
  const void* data = nullptr;
  Neighbours neighbours = Neighbours::apart;
  IndexMap<1> map;  // from an element of the output to the input's
};

}  // namespace stave_cuda
