// Drivers of linear algebra on stacks of matrices. Small matrices use Stave's own kernels, with a
// team of lanes for each matrix. Larger ones use cuSOLVER and cuBLAS.
#pragma once

#include <stave/backends/cuda/launch.h>
#include <stave/core/op/attributes.h>
#include <stave/core/op/op_id.h>
#include <stave/core/tensor/backend.h>

namespace stave_cuda {

/// Computes one of the operations that all_ops.h lists under linalg.
void run_linalg(const Launch& launch, stave::OpId op, const stave::Attributes* attributes,
                std::span<const stave::View> in, std::span<const stave::View> out);

/// Returns the error text for a matrix without a result, or null if every matrix has a result.
const char* linalg_failure(stave::OpId op);

}  // namespace stave_cuda
