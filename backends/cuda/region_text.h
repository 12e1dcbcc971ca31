// The source of a region's kernel. One source serves every layout of the inputs.
//
// The kernel applies each operation by the struct of core/ops/elementwise_ops.h that the
// operation's own kernel uses, and rounds each value as that kernel would store it. So a region
// gives the same bits as its steps run one by one. Scalar constants are parameters of the kernel.
// Therefore regions that differ only in constants share a kernel, and the compiler cannot evaluate
// a function of a constant, which could give other bits than the device.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <stave/core/program/region.h>

namespace stave_cuda {

/// Returns the values that the kernel writes: first the outputs that are not reductions, in order,
/// then each value that is reduced, once. A reduction of an input reads the input itself.
std::vector<int> written_values(const stave::Region& region);

/// Returns C++ source, to be compiled with the headers that it includes (region_headers.h). The
/// kernel's parameters are, in this order:
///   the number of elements
///   a RegionInput for each input
///   a pointer for each written value
///   an element for each scalar constant among the steps
std::string region_text(const stave::Region& region, std::string_view name = "region");
/// Returns the number of elements per thread, a power of two. The source uses the same number.
int region_lanes(const stave::Region& region);
/// Returns a key that is equal for two regions exactly if their source is equal.
std::string region_signature(const stave::Region& region);

}  // namespace stave_cuda
