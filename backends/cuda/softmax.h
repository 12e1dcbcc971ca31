// The host function that launches softmax and log_softmax.
#pragma once

#include <stave/backends/cuda/launch.h>
#include <stave/core/op/op_id.h>
#include <stave/core/tensor/backend.h>

namespace stave_cuda {

/// Computes softmax or log_softmax along `axis`. `out` has the shape of `in`, and
/// `axis` has at least one element.
void run_softmax(const Launch& launch, stave::OpId op, int axis, const stave::View& in, const stave::View& out);

}  // namespace stave_cuda
