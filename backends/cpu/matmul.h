// Matrix products.
#pragma once

#include <stave/core/tensor/backend.h>

namespace stave_cpu {

/// out = a b with a [..., m, k], b [..., k, n], out [..., m, n] contiguous; leading axes equal, broadcast by stride 0.
void run_matmul(const stave::View& a, const stave::View& b, const stave::View& out);

}  // namespace stave_cpu
