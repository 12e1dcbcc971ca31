// The host function that launches the scans.
#pragma once

#include <span>

#include <stave/backends/cuda/launch.h>
#include <stave/core/op/attributes.h>
#include <stave/core/op/op_id.h>
#include <stave/core/tensor/backend.h>

namespace stave_cuda {

/// Computes cumulative_sum, cumulative_prod, cummax, cummin or linear_recurrence. The inputs have
/// the shape and dtype of `out`.
void run_scan(const Launch& launch, stave::OpId op, const stave::ScanAttributes& attributes,
              std::span<const stave::View> inputs, const stave::View& out);

}  // namespace stave_cuda
