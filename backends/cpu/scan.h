// Scans (cumulative operations) on the CPU.
#pragma once

#include <stave/backends/cpu/kernels/kernels.h>
#include <stave/core/op/attributes.h>
#include <stave/core/tensor/backend.h>

namespace stave_cpu {

/// Runs cumulative_sum, cumulative_prod, cummax, cummin or linear_recurrence. Inputs have `out`'s
/// shape and dtype.
void run_scan(const Scan& scan, const stave::ScanAttributes& attributes, std::span<const stave::View> inputs,
              const stave::View& out);

}  // namespace stave_cpu
