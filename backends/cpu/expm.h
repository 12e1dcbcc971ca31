// The matrix exponential on the CPU.
#pragma once

#include <stave/core/tensor/backend.h>

namespace stave_cpu {

/// Computes the exponentials of a stack of square matrices of floats or complex numbers.
void run_expm(const stave::View& in, const stave::View& out);

}  // namespace stave_cpu
