// Indexing by integer tensors. Indices are of any integer dtype; negative ones count from the end; one out of range throws
// IndexError naming the index, the axis and its size.
#pragma once

#include <initializer_list>
#include <optional>
#include <vector>

#include <stave/core/tensor/default_dtype.h>
#include <stave/core/tensor/tensor.h>

namespace stave {

/// Entries `indices` of x along `axis`: shape x.shape[:axis] + indices.shape + x.shape[axis+1:]. (NumPy's take)
Tensor take(const Tensor& x, const Tensor& indices, Index axis = 0);
/// out[..., i, ...] = x[..., indices[..., i, ...], ...] along `axis`; the other axes broadcast. (NumPy's name)
Tensor take_along_axis(const Tensor& x, const Tensor& indices, Index axis);
/// x with `values` put where take_along_axis(x, indices, axis) would read; of those to one place the last. Values broadcast to
/// the shape that this would have. (NumPy's name; x is not changed)
Tensor put_along_axis(const Tensor& x, const Tensor& indices, const Operand& values, Index axis);

/// indices [at..., k] address the first k axes of x:
/// out[at..., rest...] = x[indices[at..., 0], ..., indices[at..., k-1], rest...].
/// Of batch axes, which x and indices begin with and share, each position is for itself.
Tensor gather(const Tensor& x, const Tensor& indices, Index batch_axes = 0);
/// x with updates [at..., rest...] put where gather(x, indices, batch_axes) would read; dtypes are promoted. Of updates to one place
/// the last in row-major order is kept, and has the derivative.
Tensor scatter(const Tensor& x, const Tensor& indices, const Tensor& updates, Index batch_axes = 0);
/// The same with updates added to what stands there; all to one place, in a fixed order. Bools are
/// 0 and 1 of int32, here and below.
Tensor scatter_add(const Tensor& x, const Tensor& indices, const Tensor& updates, Index batch_axes = 0);
/// Multiplied. Derivatives of any order are exact where factors are 0.
Tensor scatter_multiply(const Tensor& x, const Tensor& indices, const Tensor& updates, Index batch_axes = 0);
/// The least, or the greatest, of what stands there and all updates; NaN if one is. Equals share the derivative.
Tensor scatter_min(const Tensor& x, const Tensor& indices, const Tensor& updates, Index batch_axes = 0);
Tensor scatter_max(const Tensor& x, const Tensor& indices, const Tensor& updates, Index batch_axes = 0);

/// Entry s of the result is the sum of those data[i] for which ids[i] is s: [count, data.shape[1:]], integers as in sum. ids has
/// rank 1; throws IndexError for one outside [0, count), negative ones too.
Tensor segment_sum(const Tensor& data, const Tensor& ids, Index count);
/// The same with products, minima and maxima; of no data 1, and the greatest or least of the dtype: infinity for floats.
Tensor segment_prod(const Tensor& data, const Tensor& ids, Index count);
Tensor segment_min(const Tensor& data, const Tensor& ids, Index count);
Tensor segment_max(const Tensor& data, const Tensor& ids, Index count);
/// 1 at index x along a new last axis of length n, else 0; an index outside [0, n) throws, negative ones too.
Tensor one_hot(const Tensor& x, Index n, Dtype dtype = default_dtype());

/// Where a slice starts: one integer tensor of rank 1 with an index for each axis, or that many single indices, which are
/// tensors of rank 0 or C++ integers: {i, 0}.
class SliceStarts {
 public:
  SliceStarts(Tensor indices) : indices_(std::move(indices)) {}
  SliceStarts(std::initializer_list<Operand> indices) : list_(indices) {}
  SliceStarts(std::vector<Operand> indices) : list_(std::move(indices)) {}

  /// All indices in one tensor of rank 1, int32 or int64.
  Tensor tensor(const char* operation, Device device) const;

 private:
  std::optional<Tensor> indices_;  // none: the list
  std::vector<Operand> list_;
};
/// The part of x of shape `sizes` that begins at `starts`, which may be computed: dynamic_slice(x, {i, 0}, {1, 3}). A slice
/// that does not lie within x throws IndexError; jax.lax.dynamic_slice moves it.
Tensor dynamic_slice(const Tensor& x, const SliceStarts& starts, const Shape& sizes);
/// x, copied, with `update`, of x's rank, in place of the part that begins at `starts`; dtypes are promoted. Throws as
/// dynamic_slice.
Tensor dynamic_update_slice(const Tensor& x, const Tensor& update, const SliceStarts& starts);

}  // namespace stave
