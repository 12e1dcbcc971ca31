// The driver of linear algebra on stacks of matrices. Small matrices are computed by the library's
// own loops, the others by LAPACK.
#pragma once

#include <stave/core/tensor/backend.h>

namespace stave_cpu {

/// Runs one of the operations that all_ops.h lists under linalg.
void run_linalg(const stave::Op& op, const stave::Attributes* attributes, std::span<const stave::View> in,
                std::span<const stave::View> out);

}  // namespace stave_cpu
