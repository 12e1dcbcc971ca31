// The kernels of the scans, by operation and dtype. The host function of scan.h launches them.
#pragma once

#include <stave/backends/cuda/scan_plan.h>

namespace stave_cuda {

using ScanLauncher = void (*)(const Launch& launch, const ScanPlan& plan);

ScanLauncher cummax(stave::Dtype dtype);
ScanLauncher cummin(stave::Dtype dtype);
// These functions return the launcher for a dtype, or null for bool.
ScanLauncher cumulative_sum(stave::Dtype dtype);
ScanLauncher cumulative_prod(stave::Dtype dtype);
ScanLauncher linear_recurrence(stave::Dtype dtype);

}  // namespace stave_cuda
