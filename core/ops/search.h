// Searching, counting, sets, and functions given by samples. All but searchsorted are composed of other operations: handlers see those,
// and derivatives of any order follow. Positions are int32, or int64 where that does not hold all of them.
//
// nonzero and the unique_ functions have results whose shapes depend on values: these are read on the host, so under vmap, where
// each lane would have another shape, they throw TransformError.
#pragma once

#include <utility>
#include <vector>

#include <stave/core/ops/reduce.h>
#include <stave/core/tensor/options.h>
#include <stave/core/tensor/tensor.h>

namespace stave {

/// How many elements are not 0.
Tensor count_nonzero(const Tensor& x);
Tensor count_nonzero(const Tensor& x, KeepDims keep);
Tensor count_nonzero(const Tensor& x, const Axes& axes, KeepDims keep = drop_dims);
/// The positions of the elements that are not 0, in row-major order: a vector of indices for each axis of x. Throws ShapeError for
/// rank 0.
std::vector<Tensor> nonzero(const Tensor& x);

/// The k largest entries along an axis, in descending order, and where they stand: NaN first, and of equal ones the first in x first.
/// Throws ShapeError if there are not so many.
std::pair<Tensor, Tensor> topk(const Tensor& x, Index k, Index axis = -1);

struct SearchOptions {
  [[no_unique_address]] ByName by_name{};
  bool right = false;
};
/// Where `values` would be inserted into a vector that is sorted, as sort does it: before those that are equal, or (`right`) after
/// them. The shape is that of values. Zero derivative. By bisection: log2 of the vector's length steps.
Tensor searchsorted(const Tensor& sorted, const Tensor& values, SearchOptions options = {});
/// Whether each element of x is one of `values`. NaN is none.
Tensor isin(const Tensor& x, const Tensor& values);

/// How often each of 0, 1, ..., length - 1 stands in x, whatever its shape; or the sum of the weights that stand in the same places.
/// Throws IndexError for an element outside [0, length), negative ones too.
Tensor bincount(const Tensor& x, Index length);
Tensor bincount(const Tensor& x, Index length, const Tensor& weights);
/// How many elements of x lie between neighbours of `edges`, a vector that ascends: in [edges[i], edges[i + 1]), and of the last two
/// in the closed interval. Others are not counted. (NumPy's, without the edges)
Tensor histogram(const Tensor& x, const Tensor& edges);

/// The distinct elements in ascending order; of NaNs each is distinct.
Tensor unique_values(const Tensor& x);
/// Those, and how often each stands in x.
std::pair<Tensor, Tensor> unique_counts(const Tensor& x);
/// Those, and for each element of x its position among them.
std::pair<Tensor, Tensor> unique_inverse(const Tensor& x);

/// The function that is fp[i] at xp[i], a vector that ascends, and linear between: at x, of any shape. Beyond the ends it is constant.
Tensor interp(const Tensor& x, const Tensor& xp, const Tensor& fp);
/// The integral along an axis of the function that has the values y, so far apart, or at the places x, and is linear between.
Tensor trapezoid(const Tensor& y, double dx = 1, Index axis = -1);
Tensor trapezoid(const Tensor& y, const Tensor& x, Index axis = -1);

}  // namespace stave
