// The kernels that region_texts.cpp wrote, as functions of the host.
#pragma once

#include <cstdint>
#include <vector>

namespace stave_test {

/// A thread of the grid, with the addresses of a kernel's arguments, as a launch has them.
using RegionKernel = void (*)(std::uint64_t thread, void* const* arguments);
extern const std::vector<RegionKernel> region_kernels;  // in the order of regions_of_tests()

}  // namespace stave_test
