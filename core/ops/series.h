// Helpers for series rules (Op::series). For the .cpp files that define operations.
#pragma once

#include <utility>

#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/frontend.h>

namespace stave_detail {

/// Returns sum - product, where an undefined tensor counts as zero.
inline Tensor subtract_coefficient(Tensor sum, Tensor product) {
  if (!product.defined()) return sum;
  return sum.defined() ? subtract(std::move(sum), std::move(product)) : negative(std::move(product));
}

/// Returns f(x), or an undefined tensor if x is undefined.
template <class F>
Tensor nonzero(Tensor x, F f) {
  return x.defined() ? f(std::move(x)) : x;
}

/// For a quotient y, which solves product(d, y) = b, where the divisor d is an input. Returns the
/// right side of product(d_0, y_k) = b_k - sum_{j=1..k} product(d_j, y_(k-j)), with k = c.order.
template <class Product>
Tensor rest_of_quotient(const SeriesContext& c, Tensor b, std::size_t divisor, Product product) {
  for (int j = 1; j <= c.order; ++j) {
    const Tensor d = c.in(divisor, j), y = d.defined() ? c.out(c.order - j) : Tensor();
    if (y.defined()) b = subtract_coefficient(std::move(b), product(d, y));
  }
  return b;
}

}  // namespace stave_detail
