// Sums of events: the trailing axes that belong to one value of a distribution.
#pragma once

#include <numbers>

#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/reduce.h>
#include <stave/core/tensor/tensor.h>

namespace stave_detail {

using namespace stave;

/// Returns the sum over the last `axes` axes.
inline Tensor sum_events(const Tensor& x, int axes) {
  Tensor total = x;
  for (int i = 0; i < axes; ++i) total = sum(total, -1);
  return total;
}

/// Returns log(1 / cosh(x)^2), the logarithm of the derivative of tanh, without overflow.
inline Tensor log_sech_squared(const Tensor& x) { return 2 * (std::numbers::ln2 - x - softplus(-2 * x)); }

}  // namespace stave_detail
