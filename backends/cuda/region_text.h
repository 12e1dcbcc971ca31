// The source of a region's kernel: one for every layout of its inputs.
//
// An operation is the struct of core/ops/elementwise_ops.h, applied as its own kernel applies it; each value is what that kernel would
// store. So a region's values are those of its steps performed one by one, to the last bit. Numbers are parameters: regions that
// differ in nothing else have one kernel, and no compiler computes a function of one by other means than the device's.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <stave/core/program/region.h>

namespace stave_cuda {

/// The values that the kernel writes: of the outputs those that are no reductions, in their order; then what is reduced, once each. But inputs
/// are reduced where they lie.
std::vector<int> written_values(const stave::Region& region);

/// C++, to be compiled with the headers that it includes (region_headers.h). Parameters of the kernel: the number of elements, a RegionInput
/// for each input, a pointer for each
/// written value, an element for each number among the steps.
std::string region_text(const stave::Region& region, std::string_view name = "region");
/// Elements of a thread, which the text says too: a power of two.
int region_lanes(const stave::Region& region);
/// The same for regions of one text, and for no others.
std::string region_signature(const stave::Region& region);

}  // namespace stave_cuda
