// How a product of stacks of matrices is put to BLAS: which operand it reads by rows, which by columns, with which leading
// dimension, which has to be copied first, and which of the leading axes are BLAS's batch. Host code, tested without a device.
#pragma once

#include <stave/backends/cuda/index_map.h>
#include <stave/core/tensor/backend.h>

namespace stave_cuda {

/// How an operand reaches BLAS.
enum class Packed : std::uint8_t {
  no,       // as it lies
  once,     // copied dense, but that leading axes along which it repeats still do
  entirely  // copied dense, repeats written out: its leading axes are one then
};

struct MatmulOperand {
  Packed packed = Packed::no;
  bool by_columns = false;  // a matrix is stored column after column
  Index leading = 0;        // elements from one row (column) to the next
  Index batch_step = 0;     // elements from one matrix of the batch to the next; 0: the same one
};

/// out[i] = a[i] b[i] for the i of a batch, and that for each place of the loops.
struct MatmulPlan {
  Index m = 0, n = 0, k = 0;
  MatmulOperand a, b;
  Index batch = 1, out_step = 0;
  LoopAxes<3> loops;  // what no batch of even steps expresses: of out, a, b (after packing)
};

/// None of the lengths is 0.
MatmulPlan plan_matmul(const stave::View& a, const stave::View& b, const stave::View& out);

/// The strides that an operand has after it was packed, and the shape of what is copied.
struct PackedLayout {
  stave::Shape shape;      // of the copy: repeated axes of length 1, if they are packed once
  stave::Strides strides;  // of the operand, over its own shape, in the copy
};
PackedLayout packed_layout(const stave::View& operand, Packed packed);

}  // namespace stave_cuda
