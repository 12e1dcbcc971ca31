// The driver of matrix products.
#pragma once

#include <stave/core/tensor/backend.h>

namespace stave_cpu {

/// Computes out = a b for a [..., m, k], b [..., k, n] and contiguous out [..., m, n]. The leading
/// axes are equal; broadcast ones have stride 0.
void run_matmul(const stave::View& a, const stave::View& b, const stave::View& out);

}  // namespace stave_cpu
