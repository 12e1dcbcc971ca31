// Which kernels of a plan make their rows apart, so that some rows can go through several kernels while they are in cache:
// exp(x - max(x, -1)) / sum(...) goes through memory as often as softmax does.
#pragma once

#include <stave/core/op/op.h>

namespace stave_detail {

/// Whether the operation makes row i (index i of axis 0) of its outputs of row i of its inputs. `rank`: of its inputs.
bool makes_rows_apart(const Op& op, const Attributes* attributes, int rank);

/// Of a value that lies in another one's storage, which is row-major: whether row i lies in row i.
bool rows_agree(const Node& value, const Node& storage);

}  // namespace stave_detail
