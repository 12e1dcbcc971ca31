// Operations on complex numbers by the bodies of the CUDA backend's kernels, executed on the host.
#pragma once

#include <span>

#include <stave/core/op/op.h>
#include <stave/core/tensor/backend.h>

namespace stave_test {

/// Computes an operation with complex operands or results by the elementwise kernels, or by those
/// of prod, cumulative_prod and linear_recurrence. Returns false if the operation is none of these.
bool run_complex_on_host(const stave::Op& op, const stave::Attributes* attributes, std::span<const stave::View> in,
                         const stave::View& out);

}  // namespace stave_test
