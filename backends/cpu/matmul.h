// Matrix products on the CPU.
#pragma once

#include <stave/core/tensor/backend.h>

namespace stave_cpu {

/// Computes out = a b for a [..., m, k], b [..., k, n] and contiguous out [..., m, n].
/// The leading axes have equal lengths; an operand that is broadcast along one has stride 0 there.
void run_matmul(const stave::View& a, const stave::View& b, const stave::View& out);

}  // namespace stave_cpu
