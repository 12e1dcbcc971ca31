// Statistics beyond mean and variance: quantiles, modes, covariances, reductions that leave
// elements out, distances between points, and derivatives of sampled functions. All are composed of
// other operations.
//
// Integers become default_dtype() where the result is a number between the elements. Sixteen-bit
// floats are computed in float32 and rounded once.
#pragma once

#include <utility>

#include <stave/core/ops/reduce.h>
#include <stave/core/tensor/options.h>
#include <stave/core/tensor/tensor.h>

namespace stave {

// ---- quantiles ------------------------------------------------------------------------------

/// The value of a quantile that falls between two elements, which are neighbours in sorted order.
enum class QuantileMethod {
  linear,    ///< the line between both
  lower,     ///< the smaller element
  higher,    ///< the larger element
  midpoint,  ///< the mean of both
  nearest    ///< the nearer element; of two equally near ones, the one at an even position
};
struct QuantileOptions {
  [[no_unique_address]] ByName by_name{};
  QuantileMethod method = QuantileMethod::linear;
  KeepDims keep = drop_dims;
};
/// The q-quantile over axes, for 0 <= q <= 1: the element at position q (n - 1) of the n sorted
/// elements. It is NaN if an element is NaN. Derivatives follow the elements, and q for `linear`.
/// This is NumPy's and PyTorch's quantile. The elements are sorted. Throws ShapeError if there are
/// no elements, and Error if q is out of range.
Tensor quantile(const Tensor& x, double q, const Axes& axes = all_axes, QuantileOptions options = {});
/// The same for each element of a tensor q, whose axes are the first ones of the result. An element
/// out of range gives NaN.
Tensor quantile(const Tensor& x, const Tensor& q, const Axes& axes = all_axes, QuantileOptions options = {});
/// quantile(x, q / 100).
Tensor percentile(const Tensor& x, double q, const Axes& axes = all_axes, QuantileOptions options = {});
Tensor percentile(const Tensor& x, const Tensor& q, const Axes& axes = all_axes, QuantileOptions options = {});
/// quantile(x, 0.5): the middle element, or the mean of the two in the middle, as NumPy's median.
/// PyTorch's median is {.method = QuantileMethod::lower}.
Tensor median(const Tensor& x, const Axes& axes = all_axes, QuantileOptions options = {});

/// quantile, percentile and median of the elements that are not NaN; NaN if there are none.
Tensor nanquantile(const Tensor& x, double q, const Axes& axes = all_axes, QuantileOptions options = {});
Tensor nanquantile(const Tensor& x, const Tensor& q, const Axes& axes = all_axes, QuantileOptions options = {});
Tensor nanpercentile(const Tensor& x, double q, const Axes& axes = all_axes, QuantileOptions options = {});
Tensor nanmedian(const Tensor& x, const Axes& axes = all_axes, QuantileOptions options = {});

/// The k-th smallest element along an axis, counted from 1, and its position in x; NaN is
/// the largest. This is PyTorch's kthvalue. Throws ShapeError if there are fewer than k elements.
std::pair<Tensor, Tensor> kthvalue(const Tensor& x, Index k, Index axis = -1, KeepDims keep = drop_dims);
/// The most frequent element along an axis, the smallest of those that are equally frequent, and
/// the last position of it in x. This is PyTorch's mode. Throws ShapeError if there are no
/// elements.
std::pair<Tensor, Tensor> mode(const Tensor& x, Index axis = -1, KeepDims keep = drop_dims);

// ---- reductions that leave elements out -----------------------------------------------------

/// Reductions of the elements where the mask is true, as NumPy's with `where`. x and the mask
/// broadcast. The other elements may be NaN or infinite, and have derivative 0. Without any element
/// the sum is 0, the product 1 and the mean NaN; the maximum (minimum) is the least (greatest)
/// value of the dtype, which is -infinity (infinity) for floats.
Tensor masked_sum(const Tensor& x, const Tensor& mask, const Axes& axes = all_axes, KeepDims keep = drop_dims);
Tensor masked_prod(const Tensor& x, const Tensor& mask, const Axes& axes = all_axes, KeepDims keep = drop_dims);
Tensor masked_mean(const Tensor& x, const Tensor& mask, const Axes& axes = all_axes, KeepDims keep = drop_dims);
Tensor masked_max(const Tensor& x, const Tensor& mask, const Axes& axes = all_axes, KeepDims keep = drop_dims);
Tensor masked_min(const Tensor& x, const Tensor& mask, const Axes& axes = all_axes, KeepDims keep = drop_dims);
/// The variance, divided by the number of elements minus `correction`; NaN if that is not positive.
Tensor masked_var(const Tensor& x, const Tensor& mask, const Axes& axes = all_axes, KeepDims keep = drop_dims,
                  double correction = 0);
Tensor masked_std(const Tensor& x, const Tensor& mask, const Axes& axes = all_axes, KeepDims keep = drop_dims,
                  double correction = 0);

/// Reductions of the elements that are not NaN. nanmax and nanmin give NaN where all are.
Tensor nansum(const Tensor& x, const Axes& axes = all_axes, KeepDims keep = drop_dims);
Tensor nanprod(const Tensor& x, const Axes& axes = all_axes, KeepDims keep = drop_dims);
Tensor nanmean(const Tensor& x, const Axes& axes = all_axes, KeepDims keep = drop_dims);
Tensor nanmax(const Tensor& x, const Axes& axes = all_axes, KeepDims keep = drop_dims);
Tensor nanmin(const Tensor& x, const Axes& axes = all_axes, KeepDims keep = drop_dims);
Tensor nanvar(const Tensor& x, const Axes& axes = all_axes, KeepDims keep = drop_dims, double correction = 0);
Tensor nanstd(const Tensor& x, const Axes& axes = all_axes, KeepDims keep = drop_dims, double correction = 0);

// ---- several variables ----------------------------------------------------------------------

struct CovOptions {
  [[no_unique_address]] ByName by_name{};
  double correction = 1;  ///< sums are divided by the number of observations minus this
  /// How often each observation counts, and its weight: [observations].
  Tensor frequencies{}, weights{};
};
/// The covariances [..., variables, variables] of x [..., variables, observations]. The variance of
/// a vector of observations is a scalar. For complex x the second factor is conjugated. This is
/// NumPy's and PyTorch's cov, with fweights and aweights. Throws ShapeError if the weights do not
/// fit.
Tensor cov(const Tensor& x, CovOptions options = {});
/// cov(x) divided by the standard deviations of both variables, and limited to [-1, 1]: Pearson's
/// correlation coefficients. A variable that does not vary gives NaN.
Tensor corrcoef(const Tensor& x);
/// The distances [..., m, n] between points a [..., m, d] and b [..., n, d] in the p-norm, p >= 0
/// or infinite (vector_norm). The derivative is 0 where two points are equal. This is PyTorch's
/// cdist; differences are computed one by one, which takes memory for m n d numbers.
Tensor cdist(const Tensor& a, const Tensor& b, double p = 2);

// ---- sampled functions ----------------------------------------------------------------------

struct GradientOptions {
  [[no_unique_address]] ByName by_name{};
  int edge_order = 1;  ///< the order of the differences at both ends, 1 or 2
};
/// The derivative along an axis of the function with the samples y, at distances `dx` or at
/// the positions x [n], which need not be evenly spaced: central differences of second order, at
/// the ends one-sided ones. This is NumPy's gradient along one axis (Fornberg 1988). Throws
/// ShapeError if there are fewer than edge_order + 1 samples.
Tensor gradient(const Tensor& y, double dx = 1, Index axis = -1, GradientOptions options = {});
Tensor gradient(const Tensor& y, const Tensor& x, Index axis = -1, GradientOptions options = {});
/// The derivatives along several axes, or along all if `axes` is empty: NumPy's gradient, and
/// torch.gradient. An entry of `spacing` is a distance or the positions of the samples. There is
/// one for each axis, or one for all axes.
///
///   gradients(y, {0.5, xs})             // y [m,n], distances 0.5 along axis 0, positions xs [n]
std::vector<Tensor> gradients(const Tensor& y, const std::vector<Operand>& spacing = {1},
                              const std::vector<Index>& axes = {}, GradientOptions options = {});

}  // namespace stave
