// Products of bfloat16 matrices by special instructions that some processors have.
#pragma once

#include <stave/core/tensor/backend.h>

namespace stave_cpu {

/// Returns true if a and b, stacks of matrices of one dtype, are bfloat16 and large enough, and
/// this processor has the instructions. It returns false if STAVE_CPU_ISA selects an instruction
/// set without them.
bool is_bfloat_product(const stave::View& a, const stave::View& b);
/// Computes out = a b for operands for which is_bfloat_product returns true; `out` is contiguous.
/// Sums are computed in float32 and rounded once. Subnormal numbers count as 0.
void run_bfloat_matmul(const stave::View& a, const stave::View& b, const stave::View& out);

}  // namespace stave_cpu
