// The kernels that region_texts.cpp writes, as host functions.
#pragma once

#include <cstdint>
#include <vector>

namespace stave_test {

/// Runs one thread of the grid. `arguments` has the addresses of the kernel's arguments,
/// as in a launch.
using RegionKernel = void (*)(std::uint64_t thread, void* const* arguments);
// In the order of regions_of_tests().
extern const std::vector<RegionKernel> region_kernels;

}  // namespace stave_test
