// The functions that native code calls. Their results are, bit for bit, those of the library's
// kernels.
#pragma once

#include <stave/backends/cpu/kernels/kernels.h>
#include <stave/core/program/lowered.h>

namespace stave_cpu {

/// Returns the address of a function that computes the operation on floats of the dtype, passed by
/// value, such as a double (*)(double, double). Returns null if the kernels in use have none.
const void* function_by_value(stave_detail::ScalarOp op, Dtype dtype);
/// Returns the address of a function void (*)(T* x, const T* y) that replaces the floats of a
/// vector x by the operation's results. A unary operation does not read y. Returns null if the
/// kernels in use have none.
const void* function_on_vector(stave_detail::ScalarOp op, Dtype dtype);
/// Returns the kernel that computes an operation on operands of the dtype, or null if none exists.
BlockKernel kernel_of_operation(stave_detail::ScalarOp op, Dtype dtype, Dtype result);

}  // namespace stave_cpu
