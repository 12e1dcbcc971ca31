// Products of matrices of bfloat16 by the instructions that some processors have for them.
#pragma once

#include <stave/core/tensor/backend.h>

namespace stave_cpu {

/// Whether a and b, stacks of matrices of one dtype, are of bfloat16 and large enough, and this processor has them; STAVE_CPU_ISA may ask
/// for another set.
bool is_bfloat_product(const stave::View& a, const stave::View& b);
/// out = a b for such, `out` contiguous. Sums are float32's, rounded once; numbers below the normal ones are 0.
void run_bfloat_matmul(const stave::View& a, const stave::View& b, const stave::View& out);

}  // namespace stave_cpu
