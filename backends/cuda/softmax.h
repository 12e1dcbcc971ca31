// The host function that launches softmax, log_softmax and logsumexp.
#pragma once

#include <stave/backends/cuda/launch.h>
#include <stave/core/op/op_id.h>
#include <stave/core/tensor/backend.h>

namespace stave_cuda {

/// Computes softmax, log_softmax or logsumexp along `axis`, which has at least one element. `out`
/// has the shape of `in`, but for logsumexp its axis has length 1.
void run_softmax(const Launch& launch, stave::OpId op, int axis, const stave::View& in, const stave::View& out);

}  // namespace stave_cuda
