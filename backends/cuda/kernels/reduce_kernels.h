// The kernels of the reductions, by operation and dtype. The host functions of reduce.h launch
// them.
#pragma once

#include <stave/backends/cuda/reduce_plan.h>
#include <stave/core/op/op_id.h>

namespace stave_cuda {

using ReduceLauncher = void (*)(const Launch& launch, const ReducePlan& plan);

// These functions return the launcher of a reduction, or null if the operation has no kernel for
// the dtype. Each function serves the operations of one .cu file.
ReduceLauncher arithmetic_reduction(stave::OpId op, stave::Dtype dtype);  // sum prod
ReduceLauncher extreme_reduction(stave::OpId op, stave::Dtype dtype);     // max min all any
ReduceLauncher arg_reduction(stave::Dtype dtype);                         // argmax argmin

}  // namespace stave_cuda
