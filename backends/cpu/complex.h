// Kernels for complex elements. Unlike the other kernels they are compiled once, and not for each
// instruction set: functions such as exp are those of the C library, and arithmetic is as fast as
// memory. Sums and differences of complex numbers are those of their parts, and run the kernels of
// floats (backends/parts_apart.h).
#pragma once

#include <stave/backends/cpu/dispatch.h>
#include <stave/core/tensor/backend.h>

namespace stave_cpu {

/// Returns the kernel of an elementwise operation whose operands have this complex dtype, or null
/// if there is none.
BlockKernel complex_kernel(OpId op, Dtype dtype);
/// Returns the kernel of an elementwise operation whose operands have this dtype, or null if there
/// is none.
inline BlockKernel elementwise_kernel(OpId op, Dtype dtype) {
  if (stave::is_complex(dtype)) [[unlikely]]
    return complex_kernel(op, dtype);
  return kernels().elementwise[op][static_cast<int>(dtype)];
}
/// Returns the kernel that makes complex numbers of two real arrays, or takes a part of them.
/// `parts` is the dtype of the parts.
BlockKernel parts_kernel(OpId op, Dtype parts);
/// Returns the kernel that converts elements to or from a complex dtype, or null if there is none.
BlockKernel complex_conversion(Dtype from, Dtype to);
/// Returns the kernel that converts elements, or null if there is none.
inline BlockKernel conversion_kernel(Dtype from, Dtype to) {
  if (stave::is_complex(from) || stave::is_complex(to)) [[unlikely]]
    return complex_conversion(from, to);
  return kernels().convert[static_cast<int>(from)][static_cast<int>(to)];
}
/// Returns the kernel of `where` for elements of this dtype.
BlockKernel where_kernel(Dtype dtype);
/// Returns the kernels of prod for a complex dtype.
Reduction complex_product(Dtype dtype);
/// Returns the kernels of cumulative_prod or linear_recurrence for a complex dtype.
Scan complex_scan(OpId op, Dtype dtype);

}  // namespace stave_cpu
