// Searching, counting and sets; interpolation and integration of functions given by samples.
// searchsorted and, on the CPU, topk are operations. All other functions are composed of
// operations, which handlers see, and have derivatives of any order. Positions are int32, or int64
// where int32 does not hold all of them.
//
// The shapes of the results of nonzero and of the unique_ functions depend on values, which are
// read on the host. Under vmap each lane would have a different shape, so these functions throw
// TransformError there.
#pragma once

#include <utility>
#include <vector>

#include <stave/core/ops/reduce.h>
#include <stave/core/tensor/options.h>
#include <stave/core/tensor/tensor.h>

namespace stave {

/// The number of elements that are not 0.
Tensor count_nonzero(const Tensor& x);
Tensor count_nonzero(const Tensor& x, KeepDims keep);
Tensor count_nonzero(const Tensor& x, const Axes& axes, KeepDims keep = drop_dims);
/// The positions of the elements that are not 0, in row-major order: a vector of indices
/// for each axis of x. Throws ShapeError for rank 0.
std::vector<Tensor> nonzero(const Tensor& x);

struct TopkOptions {
  [[no_unique_address]] ByName by_name{};
  bool largest = true;  ///< false: the smallest entries, in ascending order
};
/// The k largest entries along an axis in descending order, and their positions. NaN comes first,
/// and equal entries are in the order of x. Of the smallest entries NaN comes last. Throws
/// ShapeError if there are fewer than k entries.
std::pair<Tensor, Tensor> topk(const Tensor& x, Index k, Index axis = -1, TopkOptions options = {});

struct SearchOptions {
  [[no_unique_address]] ByName by_name{};
  bool right = false;
  /// The positions that sort the tensor along its last axis, as argsort gives them, if it is not
  /// sorted.
  Tensor sorter{};
};
/// The positions at which `values` would be inserted into a vector sorted as by `sort`:
/// before equal elements, or with `right` after them. The result has the shape of `values`
/// and derivative 0. Bisection takes about log2(sorted.size()) steps.
/// A tensor of higher rank is a stack of sorted vectors, [..., n], and values are [..., m], as
/// in PyTorch.
Tensor searchsorted(const Tensor& sorted, const Tensor& values, SearchOptions options = {});
/// Whether each element of x equals one of `values`; NaN equals nothing.
Tensor isin(const Tensor& x, const Tensor& values);

/// The number of occurrences of each of 0, 1, ..., length - 1 in x, which may have any shape;
/// or the sum of the weights at the same positions. Throws IndexError for an element outside
/// [0, length), negative ones included.
Tensor bincount(const Tensor& x, Index length);
Tensor bincount(const Tensor& x, Index length, const Tensor& weights);
/// The number of elements of x in each bin [edges[i], edges[i + 1]), where `edges` is an ascending
/// vector. The last bin includes its upper edge. Elements outside all bins are not counted. This is
/// NumPy's histogram, which returns the edges as well.
Tensor histogram(const Tensor& x, const Tensor& edges);

/// The distinct elements in ascending order; each NaN is distinct. Complex numbers are ordered by
/// the real part, then by the imaginary part.
Tensor unique_values(const Tensor& x);
/// The distinct elements in ascending order, and the number of occurrences of each in x.
std::pair<Tensor, Tensor> unique_counts(const Tensor& x);
/// The distinct elements in ascending order, and for each element of x its position among them.
std::pair<Tensor, Tensor> unique_inverse(const Tensor& x);

/// Distinct elements (or entries), the position of the first occurrence of each in x, for each
/// element of x the position of its equal among the distinct ones, and how often each occurs.
struct UniqueAll {
  Tensor values, indices, inverse_indices, counts;
};
/// The distinct elements in ascending order; each NaN is distinct. This is the array API standard's
/// unique_all.
UniqueAll unique_all(const Tensor& x);
/// The distinct entries along an axis, in lexicographic order, as NumPy's unique with `axis`. The
/// inverse indices form a vector. Sorting takes one pass for each element of an entry.
UniqueAll unique_all(const Tensor& x, Index axis);
/// The first of each run of equal neighbours of the flattened tensor, or of equal entries along
/// an axis: PyTorch's unique_consecutive.
UniqueAll unique_consecutive(const Tensor& x);
UniqueAll unique_consecutive(const Tensor& x, Index axis);

/// The function that has the value fp[i] at xp[i], an ascending vector, and is linear in between,
/// evaluated at x, of any shape. It is constant beyond the ends.
Tensor interp(const Tensor& x, const Tensor& xp, const Tensor& fp);
/// The integral along an axis of the function with the values y that is linear in between.
/// The samples are at distances `dx` or at the positions x.
Tensor trapezoid(const Tensor& y, double dx = 1, Index axis = -1);
Tensor trapezoid(const Tensor& y, const Tensor& x, Index axis = -1);

}  // namespace stave
