// Scans: what comes of all elements up to each one, along an axis.
//
// Float sums are accurate: float32 is added up in double, float64 with compensation (Neumaier's), so that each result is
// that of an exact sum, rounded, up to an error that its length hardly moves. Products and recurrences of float32 are
// computed in double. Integers give the dtypes that sum and prod give (reduce.h), and wrap.
#pragma once

#include <stave/core/tensor/options.h>
#include <stave/core/tensor/tensor.h>

namespace stave {

struct CumulativeOptions {
  [[no_unique_address]] ByName by_name{};
  bool include_initial = false;  ///< one element more, before the others: the sum or product of nothing
  bool reverse = false;          ///< from the last element to the first one
};

/// Sums of the elements up to each one, itself included. Without an axis x must have rank 1.
Tensor cumulative_sum(const Tensor& x);
Tensor cumulative_sum(const Tensor& x, Index axis, CumulativeOptions options = {});
/// The same with products. Derivatives of any order are exact where factors are 0.
Tensor cumulative_prod(const Tensor& x);
Tensor cumulative_prod(const Tensor& x, Index axis, CumulativeOptions options = {});

struct ScanOptions {
  [[no_unique_address]] ByName by_name{};
  bool reverse = false;  ///< from the last element to the first one
};

/// The largest and the smallest of the elements up to each one, in their dtype; NaN from the first NaN on. The derivative is that of
/// the latest element that is it. Without an axis x must have rank 1.
Tensor cummax(const Tensor& x);
Tensor cummax(const Tensor& x, Index axis, ScanOptions options = {});
Tensor cummin(const Tensor& x);
Tensor cummin(const Tensor& x, Index axis, ScanOptions options = {});
/// log(cumulative_sum(exp(x))), which neither overflows nor vanishes. Integers become floats. Without an axis x must have rank 1.
Tensor logcumsumexp(const Tensor& x);
Tensor logcumsumexp(const Tensor& x, Index axis, ScanOptions options = {});

/// h[i] = a[i] h[i-1] + b[i] along `axis`, with h = 0 before the first; a and b broadcast. Decaying averages, discounted
/// returns and linear state-space models are such, and so are the derivatives of cumulative_prod. Products are those of
/// scale: 0 where either factor is 0. In reverse h[i] = a[i] h[i+1] + b[i].
Tensor linear_recurrence(const Tensor& a, const Tensor& b, Index axis, ScanOptions options = {});

}  // namespace stave
