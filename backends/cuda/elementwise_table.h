// Where kernels of elementwise operations are found: what kernels/*.cu fill in, and drivers launch.
#pragma once

#include <stave/core/op/all_ops.h>
#include <stave/core/tensor/dtype.h>

namespace stave_cuda {

/// By operation, for one dtype; null where the operation does not admit it.
using KernelRow = const void * [stave::op_count];

struct ElementwiseKernels {
  KernelRow by_dtype[stave::dtype_count] = {};
  /// astype[from][to]
  const void* astype[stave::dtype_count][stave::dtype_count] = {};
  /// where, which moves bits: by the size of an element.
  const void* where[17] = {};
};

void fill_unary_floats(ElementwiseKernels& table);
void fill_unary_wholes(ElementwiseKernels& table);
void fill_binary_floats(ElementwiseKernels& table);
void fill_binary_wholes(ElementwiseKernels& table);
void fill_astype(ElementwiseKernels& table);
void fill_where(ElementwiseKernels& table);

/// All of them.
const ElementwiseKernels& elementwise_kernels();

}  // namespace stave_cuda
