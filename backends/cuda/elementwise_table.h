// The table of elementwise kernels. The functions in kernels/*.cu fill it. The host functions of
// elementwise.h launch kernels from it.
#pragma once

#include <stave/core/op/all_ops.h>
#include <stave/core/tensor/dtype.h>

namespace stave_cuda {

/// The kernels for one dtype, indexed by operation. A kernel is null if the operation does not
/// accept the dtype.
using KernelRow = const void * [stave::op_count];

struct ElementwiseKernels {
  KernelRow by_dtype[stave::dtype_count] = {};
  /// The kernels of astype, indexed as astype[from][to].
  const void* astype[stave::dtype_count][stave::dtype_count] = {};
  /// The kernels of `where`, which copies bits: they are indexed by the bytes of an element.
  const void* where[17] = {};
};

void fill_unary_floats(ElementwiseKernels& table);
void fill_unary_wholes(ElementwiseKernels& table);
void fill_binary_floats(ElementwiseKernels& table);
void fill_binary_wholes(ElementwiseKernels& table);
/// Sets the kernels of operations whose operands or results are complex.
void fill_complex(ElementwiseKernels& table);
void fill_astype(ElementwiseKernels& table);
void fill_where(ElementwiseKernels& table);

/// Returns the table with all kernels.
const ElementwiseKernels& elementwise_kernels();

}  // namespace stave_cuda
