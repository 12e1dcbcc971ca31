// Arrays on the host, of long doubles: what references are written with. Nothing here is computed by Stave.
//
//   Array y = make(x.dtype, {3, 2}, [&](const Shape& p) { return x({p[1], p[0]}); });   // a transpose
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

/// Wider than every dtype: holds each int64, and leaves central differences eleven more bits than double.
using Real = long double;

struct Array {
  Dtype dtype = float64;
  Shape shape;
  std::vector<Real> values = {};     // row-major
  std::vector<Real> magnitude = {};  // what rounding errors of an element are relative to; empty: its own value

  Real& operator()(const Shape& position);
  Real operator()(const Shape& position) const;
};
using Arrays = std::vector<Array>;

/// The number as `dtype` keeps it: integers wrap around, bool is != 0, floats are rounded.
Real rounded(Real value, Dtype dtype);

/// Calls f with every position of an array of this shape, in row-major order.
void for_each_position(const Shape& shape, const std::function<void(const Shape&)>& f);

/// The array with f(position) at each position. Integers wrap around; floats are not rounded, being references.
Array make(Dtype dtype, const Shape& shape, const std::function<Real(const Shape&)>& f);

// Shapes and positions.
Shape with_axis(Shape shape, Index axis,
                Index length);  // a new axis at `axis`; negative: counted from the end of the result
Shape without_axis(Shape shape, Index axis);
Shape concatenated(const Shape& a, const Shape& b);
Shape part(const Shape& shape, Index first, Index last);  // axes first, ..., last - 1
/// The position in an array of shape `from` that NumPy's broadcasting reads for `position`.
Shape broadcast_position(const Shape& from, const Shape& position);
/// The shape that both broadcast to.
Shape broadcast_shape(const Shape& a, const Shape& b);

/// Entry `index` along `axis`. Throws if there is none.
Array lane(const Array& x, Index axis, Index index);
/// The dtype that operands of dtypes a and b are promoted to, by the table of the array API standard, and JAX's where it is silent;
/// none for uint64 with a signed integer.
std::optional<Dtype> common(Dtype a, Dtype b);
/// The same, of which there is one.
Dtype promoted(Dtype a, Dtype b);

// ---- between arrays and tensors ---------------------------------------------------------------------------

/// How an operand lies in memory, and the two kinds of shapes that need cases of their own. `mixed`: each operand another way.
enum class Layout { contiguous, transposed, broadcast, stepped, mixed, zero_size, rank0 };
inline constexpr Layout layouts[] = {Layout::contiguous, Layout::transposed, Layout::broadcast, Layout::stepped,
                                     Layout::mixed,      Layout::zero_size,  Layout::rank0};
const char* name_of(Layout layout);

/// Where tensors of the table live: the CPU unless somebody sets it.
Device& place();

/// A contiguous tensor of these values.
Tensor to_tensor(const Array& x);
/// A tensor of these values that lies in memory as `layout` says (contiguous, transposed, broadcast or stepped): a view of
/// another tensor. Of rank 1, `transposed` is reversed. `broadcast` repeats along `axis`, where the values must not differ.
Tensor to_tensor(const Array& x, Layout layout, Index axis);
Array to_array(const Tensor& x);

}  // namespace table
