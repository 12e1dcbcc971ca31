// Indexing by integer tensors. Indices may have any integer dtype, and negative ones count from the
// end. An index out of range throws IndexError, which names the index, the axis and its size.
#pragma once

#include <initializer_list>
#include <optional>
#include <vector>

#include <stave/core/tensor/default_dtype.h>
#include <stave/core/tensor/tensor.h>

namespace stave {

/// The entries `indices` of x along `axis`, as NumPy's take. The result has the shape
/// x.shape[:axis] + indices.shape + x.shape[axis+1:].
Tensor take(const Tensor& x, const Tensor& indices, Index axis = 0);
/// out[..., i, ...] = x[..., indices[..., i, ...], ...] along `axis`, as NumPy's take_along_axis.
/// The other axes broadcast.
Tensor take_along_axis(const Tensor& x, const Tensor& indices, Index axis = -1);
/// A copy of x with `values` put at the positions that take_along_axis(x, indices, axis) would
/// read. `values` broadcasts to the shape of that function's result. If several values go
/// to one position, the last one stays. NumPy's put_along_axis changes x in place;
/// this function does not.
Tensor put_along_axis(const Tensor& x, const Tensor& indices, const Operand& values, Index axis);

/// The slices of x at `indices` [at..., k], which address the first k axes of x:
///   out[at..., rest...] = x[indices[at..., 0], ..., indices[at..., k-1], rest...].
/// x and indices may begin with batch axes that they share; each batch position is then gathered
/// by itself.
Tensor gather(const Tensor& x, const Tensor& indices, Index batch_axes = 0);
/// A copy of x with `updates` [at..., rest...] put at the positions that gather(x, indices,
/// batch_axes) would read. Dtypes are promoted. If several updates go to one position, the last
/// in row-major order stays and receives the derivative.
Tensor scatter(const Tensor& x, const Tensor& indices, const Tensor& updates, Index batch_axes = 0);
/// A copy of x with `updates` added at the positions that gather would read.
/// Updates to one position are added in a fixed order. Bools count as 0 and 1 of int32, in this and
/// the following scatter and segment functions.
Tensor scatter_add(const Tensor& x, const Tensor& indices, const Tensor& updates, Index batch_axes = 0);
/// A copy of x multiplied by `updates` at the positions that gather would read. Derivatives of any
/// order are exact even where factors are 0.
Tensor scatter_multiply(const Tensor& x, const Tensor& indices, const Tensor& updates, Index batch_axes = 0);
/// A copy of x with the minimum (maximum) of the old element and all updates at each position
/// that gather would read; NaN if one of them is NaN. Equal extremes share the derivative.
Tensor scatter_min(const Tensor& x, const Tensor& indices, const Tensor& updates, Index batch_axes = 0);
Tensor scatter_max(const Tensor& x, const Tensor& indices, const Tensor& updates, Index batch_axes = 0);

/// Sums of segments: entry s of the result is the sum of all data[i] with ids[i] = s.
/// The result has the shape [count, data.shape[1:]]; integers are summed in the dtype of sum.
/// `ids` has rank 1; an id outside [0, count), negative ones included, throws IndexError.
Tensor segment_sum(const Tensor& data, const Tensor& ids, Index count);
/// Products, minima and maxima of segments. An empty segment has the product 1; its minimum
/// (maximum) is the greatest (least) value of the dtype, which is infinity (-infinity) for floats.
Tensor segment_prod(const Tensor& data, const Tensor& ids, Index count);
Tensor segment_min(const Tensor& data, const Tensor& ids, Index count);
Tensor segment_max(const Tensor& data, const Tensor& ids, Index count);
/// 1 at index x along a new last axis of length n, else 0. An index outside [0, n) throws
/// IndexError, negative ones included.
Tensor one_hot(const Tensor& x, Index n, Dtype dtype = default_dtype());

/// The start of a slice: either one integer tensor of rank 1 with an index for each axis, or a list
/// of single indices, which are tensors of rank 0 or C++ integers: {i, 0}.
class SliceStarts {
 public:
  SliceStarts(Tensor indices) : indices_(std::move(indices)) {}
  SliceStarts(std::initializer_list<Operand> indices) : list_(indices) {}
  SliceStarts(std::vector<Operand> indices) : list_(std::move(indices)) {}

  /// All indices in one tensor of rank 1, int32 or int64. Throws ShapeError if a single index is
  /// not of rank 0.
  Tensor tensor(const char* operation, Device device) const;

 private:
  std::optional<Tensor> indices_;  // empty: the list is used
  std::vector<Operand> list_;
};
/// The part of x of shape `sizes` that begins at `starts`, which may be computed:
/// dynamic_slice(x, {i, 0}, {1, 3}). A slice that does not lie within x throws IndexError,
/// where jax.lax.dynamic_slice would move it.
Tensor dynamic_slice(const Tensor& x, const SliceStarts& starts, const Shape& sizes);
/// A copy of x with `update` in place of the part that begins at `starts`. `update` has the rank
/// of x, and dtypes are promoted. Throws IndexError as dynamic_slice does.
Tensor dynamic_update_slice(const Tensor& x, const Tensor& update, const SliceStarts& starts);

}  // namespace stave
