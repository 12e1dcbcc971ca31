// What kernels/softmax.cu offers to the driver.
#pragma once

#include <stave/backends/cuda/softmax_plan.h>

namespace stave_cuda {

using SoftmaxLauncher = void (*)(const Launch& launch, const SoftmaxPlan& plan);

/// Null for all but floats.
SoftmaxLauncher softmax_of(stave::Dtype dtype);

}  // namespace stave_cuda
