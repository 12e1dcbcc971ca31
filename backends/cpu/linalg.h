// Linear algebra on stacks (batches) of matrices. The library's own loops compute small matrices,
// and LAPACK all others.
#pragma once

#include <stave/core/tensor/backend.h>

namespace stave_cpu {

/// Runs one of the operations that all_ops.h lists under linalg.
void run_linalg(const stave::Op& op, const stave::Attributes* attributes, std::span<const stave::View> in,
                std::span<const stave::View> out);

}  // namespace stave_cpu
