// Arrays of long doubles on the host, in which references are written.
// Stave computes none of their values.
//
//   // a transpose
//   Array y = make(x.dtype, {3, 2}, [&](const Shape& p) { return x({p[1], p[0]}); });
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include <stave/core/tensor/dtype.h>
#include <stave/core/tensor/shape.h>
#include <stave/core/tensor/tensor.h>

#include "float_shape.h"

namespace table {

using namespace stave;
using stave_test::float_shape, stave_test::FloatShape;

/// Wider than every dtype: holds each int64, and its significand has eleven bits more
/// than double's, which central differences need.
using Real = long double;

struct Array {
  Dtype dtype = float64;
  Shape shape;
  // The elements in row-major order.
  std::vector<Real> values = {};
  // For each element, the size to which its rounding errors are relative.
  // If empty, it is the element itself.
  std::vector<Real> magnitude = {};

  Real& operator()(const Shape& position);
  Real operator()(const Shape& position) const;
};
using Arrays = std::vector<Array>;

/// The number as `dtype` stores it: integers wrap around, bool is `value != 0`, floats are rounded.
Real rounded(Real value, Dtype dtype);

/// Calls f with every position of an array of this shape, in row-major order.
void for_each_position(const Shape& shape, const std::function<void(const Shape&)>& f);

/// The array with f(position) at each position. Integers wrap around. Floats are not rounded,
/// because they serve as references.
Array make(Dtype dtype, const Shape& shape, const std::function<Real(const Shape&)>& f);

// Shapes and positions. `with_axis` inserts an axis at `axis`; a negative `axis` counts
// from the end of the result.
Shape with_axis(Shape shape, Index axis, Index length);
Shape without_axis(Shape shape, Index axis);
Shape concatenated(const Shape& a, const Shape& b);
// Axes first, ..., last - 1.
Shape part(const Shape& shape, Index first, Index last);
/// The position in an array of shape `from` that is read for `position` under NumPy's broadcasting.
Shape broadcast_position(const Shape& from, const Shape& position);
/// The shape to which a and b broadcast.
Shape broadcast_shape(const Shape& a, const Shape& b);

/// Entry `index` along `axis`. Throws if there is none.
Array lane(const Array& x, Index axis, Index index);
/// The dtype to which operands of dtypes a and b are promoted:
/// by the table of the array API standard, and by JAX's where the standard is silent.
/// Returns nullopt for uint64 with a signed integer.
std::optional<Dtype> common(Dtype a, Dtype b);
/// Like `common`, for dtypes that have a common one.
Dtype promoted(Dtype a, Dtype b);

// ---- between arrays and tensors ----------------------------------------------------------------

/// The memory layout of an operand, and two kinds of shapes that need cases of their own.
/// `mixed`: each operand has a different layout.
enum class Layout { contiguous, transposed, broadcast, stepped, mixed, zero_size, rank0 };
inline constexpr Layout layouts[] = {Layout::contiguous, Layout::transposed, Layout::broadcast, Layout::stepped,
                                     Layout::mixed,      Layout::zero_size,  Layout::rank0};
const char* name_of(Layout layout);

/// The device of the table's tensors: the CPU unless a caller assigns another.
Device& place();

/// A contiguous tensor of these values.
Tensor to_tensor(const Array& x);
/// A tensor of these values whose memory layout is `layout` (contiguous, transposed, broadcast
/// or stepped); except for `contiguous` it is a view of another tensor. For rank 1, `transposed`
/// reverses the axis. `broadcast` repeats along `axis`, where the values must not differ.
Tensor to_tensor(const Array& x, Layout layout, Index axis);
Array to_array(const Tensor& x);

}  // namespace table
