// Linear algebra of stacks of matrices: small ones by kernels of our own, a team of lanes for each; others by cuSOLVER and cuBLAS.
#pragma once

#include <stave/backends/cuda/launch.h>
#include <stave/core/op/attributes.h>
#include <stave/core/op/op_id.h>
#include <stave/core/tensor/backend.h>

namespace stave_cuda {

/// Of the operations that all_ops.h lists under linalg.
void run_linalg(const Launch& launch, stave::OpId op, const stave::Attributes* attributes,
                std::span<const stave::View> in, std::span<const stave::View> out);

/// What an error says of a matrix that has no result. Null: every matrix has one.
const char* linalg_failure(stave::OpId op);

}  // namespace stave_cuda
