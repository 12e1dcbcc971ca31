// Host functions that launch linear algebra on batches of matrices. Stave's own kernels compute
// small matrices, each with a team of lanes (threads of one warp). cuSOLVER and cuBLAS compute
// larger ones.
#pragma once

#include <stave/backends/cuda/launch.h>
#include <stave/core/op/attributes.h>
#include <stave/core/op/op_id.h>
#include <stave/core/tensor/backend.h>

namespace stave_cuda {

/// Computes one of the operations that all_ops.h lists under linalg.
void run_linalg(const Launch& launch, stave::OpId op, const stave::Attributes* attributes,
                std::span<const stave::View> in, std::span<const stave::View> out);

/// Returns the error text for a matrix for which the operation has no result, or null if the
/// operation has a result for every matrix.
const char* linalg_failure(stave::OpId op);

}  // namespace stave_cuda
