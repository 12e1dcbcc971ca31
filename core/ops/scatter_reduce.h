// Selecting and combining entries at computed positions along one axis, with PyTorch's and NumPy's
// names. All are composed of the functions of index.h.
#pragma once

#include <stave/core/tensor/options.h>
#include <stave/core/tensor/tensor.h>

namespace stave {

/// The meaning of an index out of range: the nearest end, or the position modulo the length.
enum class TakeMode { clip, wrap };
/// take(x, indices, axis) for indices of any size, as NumPy's take with `mode`. With clip, negative
/// indices mean 0. Throws IndexError for an axis of length 0.
Tensor take(const Tensor& x, const Tensor& indices, Index axis, TakeMode mode);

/// How values that go to one position are combined.
enum class ScatterReduction { sum, prod, mean, max, min };
struct ScatterReduceOptions {
  [[no_unique_address]] ByName by_name{};
  /// Whether the element of x is combined too. If not, an element that gets no value is still kept.
  bool include_self = true;
};
/// A copy of x in which `source` is combined with the elements at `indices` along an axis: element
/// source[..., i, ...] goes to position indices[..., i, ...]. Indices and source have one shape,
/// which is that of x except along the axis. The mean of integers is rounded down. Equal extremes
/// share the derivative. This is PyTorch's scatter_reduce. Throws ShapeError if shapes do not fit
/// and IndexError for an index out of range.
Tensor scatter_reduce(const Tensor& x, Index axis, const Tensor& indices, const Tensor& source,
                      ScatterReduction reduction, ScatterReduceOptions options = {});
/// The same for whole entries: entry i of `source` along the axis goes to entry indices[i] of x,
/// where indices is a vector. This is PyTorch's index_reduce, and index_add for sums.
Tensor index_reduce(const Tensor& x, Index axis, const Tensor& indices, const Tensor& source,
                    ScatterReduction reduction, ScatterReduceOptions options = {});
/// The means of segments (segment_sum): entry s of the result is the mean of all data[i] with
/// ids[i] = s. An empty segment has the mean 0. Integers become default_dtype().
Tensor segment_mean(const Tensor& data, const Tensor& ids, Index count);

}  // namespace stave
