// The plan of a batched matrix product for BLAS. It decides which operands BLAS reads by rows and
// which by columns, their leading dimensions, which operands must be copied first, and which
// leading axis is BLAS's batch. Host code, tested without a device.
#pragma once

#include <stave/backends/cuda/index_map.h>
#include <stave/core/tensor/backend.h>

namespace stave_cuda {

/// How an operand is passed to BLAS.
enum class Packed : std::uint8_t {
  no,  // BLAS reads the operand in place.
  // Copied to dense memory. Leading axes along which it is broadcast stay broadcast.
  once,
  // Copied to dense memory with broadcasts written out. Its leading axes then form one axis.
  entirely
};

struct MatmulOperand {
  Packed packed = Packed::no;
  bool by_columns = false;  // a matrix is stored column after column
  Index leading = 0;        // the number of elements from one row (or column) to the next
  // The number of elements from one matrix of the batch to the next; 0 for one repeated matrix.
  Index batch_step = 0;
};

/// A plan of products out[i] = a[i] b[i]. One call of BLAS computes those for i in a batch. There
/// is one call for each position of the axes `loops`.
struct MatmulPlan {
  Index m = 0, n = 0, k = 0;
  MatmulOperand a, b;
  Index batch = 1, out_step = 0;
  // The leading axes that are not part of BLAS's batch, whose matrices have a constant step. Their
  // steps are those of out, a and b, after packing.
  LoopAxes<3> loops;
};

/// Plans a product. None of the lengths is 0.
MatmulPlan plan_matmul(const stave::View& a, const stave::View& b, const stave::View& out);

/// The layout of an operand after packing.
struct PackedLayout {
  // The shape of the copy. With Packed::once, broadcast axes have length 1.
  stave::Shape shape;
  // The strides in the copy, over the operand's own shape.
  stave::Strides strides;
};
PackedLayout packed_layout(const stave::View& operand, Packed packed);

}  // namespace stave_cuda
