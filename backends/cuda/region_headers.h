// The texts of the headers that the text of a region's kernel includes, in the library itself: who runs it has them nowhere else.
#pragma once

#include <span>

namespace stave_cuda {

struct RegionHeader {
  const char* name;  // as it is included
  const char* text;
};
std::span<const RegionHeader> region_headers();

}  // namespace stave_cuda
