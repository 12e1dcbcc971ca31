// Row blocks: finds the kernels of a plan that compute their rows independently of each other, so
// that several kernels can run on a block of rows while it is in cache. With row blocks,
// exp(x - max(x, -1)) / sum(...) reads and writes main memory as often as softmax does.
#pragma once

#include <stave/core/op/op.h>

namespace stave_detail {

/// Returns true if the operation computes row i (index i of axis 0) of its outputs from row i of
/// its inputs alone, for all i. Returns true only for elementwise operations, copies, conversions,
/// regions and reductions. `rank` is the rank of the inputs.
bool computes_rows_separately(const Op& op, const Attributes* attributes, int rank);

/// Returns true if, for each i, row i of `value` lies in row i of the row-major array `storage`.
/// Returns false for all values with negative strides. The offset of `value` counts from the
/// beginning of `storage`.
bool rows_agree(const Node& value, const Node& storage);

}  // namespace stave_detail
