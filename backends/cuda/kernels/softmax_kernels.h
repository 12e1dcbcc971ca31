// The softmax kernels by dtype. The host function of softmax.h launches them.
#pragma once

#include <stave/backends/cuda/softmax_plan.h>

namespace stave_cuda {

using SoftmaxLauncher = void (*)(const Launch& launch, const SoftmaxPlan& plan);

/// Returns the launcher for a dtype, or null if it is not a float.
SoftmaxLauncher softmax_of(stave::Dtype dtype);

}  // namespace stave_cuda
