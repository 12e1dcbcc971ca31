// The headers that a region's kernel source includes, embedded as text because they need not be
// installed where the program runs.
#pragma once

#include <span>

namespace stave_cuda {

struct RegionHeader {
  const char* name;  // the path by which the kernel source includes the header
  const char* text;
};
std::span<const RegionHeader> region_headers();

}  // namespace stave_cuda
