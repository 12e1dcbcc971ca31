// Products of bfloat16 matrices by the matrix instructions that some processors have.
#pragma once

#include <stave/core/tensor/backend.h>

namespace stave_cpu {

/// Returns true if a and b, stacks of matrices of one dtype, are bfloat16 and large enough,
/// and this processor has the instructions. STAVE_CPU_ISA may select a set without them.
bool is_bfloat_product(const stave::View& a, const stave::View& b);
/// Computes out = a b for operands for which is_bfloat_product returns true; `out` is contiguous.
/// Sums are computed in float32 and rounded once. Subnormal numbers count as 0.
void run_bfloat_matmul(const stave::View& a, const stave::View& b, const stave::View& out);

}  // namespace stave_cpu
