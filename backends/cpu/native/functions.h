// The functions that native code calls. Their results are, bit for bit, those of the library's
// kernels.
#pragma once

#include <stave/backends/cpu/kernels/kernels.h>
#include <stave/core/program/lowered.h>

namespace stave_cpu {

/// The address of a function of floats of the dtype, such as double (*)(double, double), or null if
/// there is none for the kernels in use.
const void* function_by_value(stave_detail::ScalarOp op, Dtype dtype);
/// The kernel that computes an operation on operands of the dtype, or null if there is none.
BlockKernel kernel_of_operation(stave_detail::ScalarOp op, Dtype dtype, Dtype result);

}  // namespace stave_cpu
