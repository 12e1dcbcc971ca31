// Scans: element i of the result combines all elements up to i along an axis.
//
// Float sums are accurate: float32 is summed in double, float64 with compensation (Neumaier's).
// So each result is the rounded exact sum, up to an error that hardly depends on the length.
// Products and recurrences of float32 are computed in double. Integers become the dtypes of sum
// and prod (reduce.h), and wrap.
#pragma once

#include <stave/core/tensor/options.h>
#include <stave/core/tensor/tensor.h>

namespace stave {

struct CumulativeOptions {
  [[no_unique_address]] ByName by_name{};
  /// Puts one more element first: the sum of no elements, 0, or the product of none, 1.
  bool include_initial = false;
  bool reverse = false;  ///< scans from the last element to the first one
};

/// The sums of the elements up to and including each one. Without an axis x must have rank 1.
Tensor cumulative_sum(const Tensor& x);
Tensor cumulative_sum(const Tensor& x, Index axis, CumulativeOptions options = {});
/// The products of the elements up to and including each one. Derivatives of any order are exact
/// even where factors are 0. Without an axis x must have rank 1.
Tensor cumulative_prod(const Tensor& x);
Tensor cumulative_prod(const Tensor& x, Index axis, CumulativeOptions options = {});

struct ReverseOptions {
  [[no_unique_address]] ByName by_name{};
  bool reverse = false;  ///< scans from the last element to the first one
};

/// The largest (smallest) of the elements up to each one, in their dtype;
/// NaN from the first NaN on. The derivative goes to the latest element that equals the extreme.
/// Without an axis x must have rank 1.
Tensor cummax(const Tensor& x);
Tensor cummax(const Tensor& x, Index axis, ReverseOptions options = {});
Tensor cummin(const Tensor& x);
Tensor cummin(const Tensor& x, Index axis, ReverseOptions options = {});
/// log(cumulative_sum(exp(x))), without intermediate overflow or underflow. Integers become floats.
/// Without an axis x must have rank 1.
Tensor logcumsumexp(const Tensor& x);
Tensor logcumsumexp(const Tensor& x, Index axis, ReverseOptions options = {});

/// The linear recurrence h[i] = a[i] h[i-1] + b[i] along `axis`, with h = 0 before the first
/// element. In reverse it is h[i] = a[i] h[i+1] + b[i]. a and b broadcast. Products are those
/// of `scale`: 0 where either factor is 0. Decaying averages, discounted returns and linear
/// state-space models are linear recurrences, and so are the derivatives of cumulative_prod.
Tensor linear_recurrence(const Tensor& a, const Tensor& b, Index axis, ReverseOptions options = {});

}  // namespace stave
