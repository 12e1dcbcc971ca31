// Eigenvalues, Schur forms and functions of general matrices, Sylvester's equation, band matrices
// and the factorization of indefinite matrices.
#pragma once

#include <stave/core/tensor/backend.h>

namespace stave_cpu {

/// Runs one of the operations that STAVE_CPU_LINALG_OPS lists.
void run_general(const stave::Op& op, const stave::Attributes* attributes, std::span<const stave::View> in,
                 std::span<const stave::View> out);

}  // namespace stave_cpu
