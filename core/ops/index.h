// Indexing by integer tensors. Indices are of any integer dtype; negative ones count from the end; one out of range throws
// IndexError naming the index, the axis and its size.
#pragma once

#include <stave/core/tensor.h>

namespace stave {

/// Entries `indices` of x along `axis`: shape x.shape[:axis] + indices.shape + x.shape[axis+1:]. (NumPy's take)
Tensor take(const Tensor& x, const Tensor& indices, Index axis = 0);
/// out[..., i, ...] = x[..., indices[..., i, ...], ...] along `axis`; the other axes broadcast. (NumPy's name)
Tensor take_along_axis(const Tensor& x, const Tensor& indices, Index axis);
/// indices [at..., k] address the first k axes of x:
/// out[at..., rest...] = x[indices[at..., 0], ..., indices[at..., k-1], rest...].
Tensor gather(const Tensor& x, const Tensor& indices);
/// x with updates [at..., rest...] added where gather(x, indices) would read; duplicates accumulate, in a fixed order.
Tensor scatter_add(const Tensor& x, const Tensor& indices, const Tensor& updates);
/// 1 at index x along a new last axis of length n, else 0; an index outside [0, n) throws, negative ones too.
Tensor one_hot(const Tensor& x, Index n, Dtype dtype = float32);

}  // namespace stave
