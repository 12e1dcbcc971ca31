// Helpers for series rules (Op::series), and the rules of elementwise operations. For the .cpp
// files that define operations, and for Taylor mode. In the helpers, an undefined tensor is zero.
#pragma once

#include <utility>
#include <vector>

#include <stave/core/op/op.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/frontend.h>

namespace stave_detail {

/// Returns sum - product.
inline Tensor subtract_coefficient(Tensor sum, Tensor product) {
  if (!product.defined()) return sum;
  return sum.defined() ? subtract(std::move(sum), std::move(product)) : negative(std::move(product));
}

/// Returns f(x), or an undefined tensor if x is undefined.
template <class F>
Tensor nonzero(Tensor x, F f) {
  return x.defined() ? f(std::move(x)) : x;
}

/// Returns k x and x / k, where k is an order, at least 1.
inline Tensor times_order(Tensor x, int k) {
  return k == 1 || !x.defined() ? x : multiply(std::move(x), static_cast<double>(k));
}
inline Tensor over_order(Tensor x, int k) {
  return k == 1 || !x.defined() ? x : divide(std::move(x), static_cast<double>(k));
}

/// Returns coefficient k of the product of two series: the sum of product(a(i), b(k - i)).
template <class A, class B, class Product>
Tensor coefficient_of_product(int k, A a, B b, Product product) {
  Tensor sum;
  for (int i = 0; i <= k; ++i)
    if (const Tensor left = a(i), right = left.defined() ? b(k - i) : Tensor(); right.defined())
      sum = add_tangents(std::move(sum), product(left, right));
  return sum;
}
template <class A, class B>
Tensor coefficient_of_product(int k, A a, B b) {
  return coefficient_of_product(k, a, b, scale);
}

/// Returns coefficient k >= 1 of the square of a series: the sum of v(i) v(k - i), in which each
/// product of two different coefficients is computed once. With first = 1, the terms that have
/// v(0) are left out.
template <class V>
Tensor coefficient_of_square(int k, V v, int first = 0) {
  Tensor sum;
  for (int i = first; 2 * i < k; ++i)
    if (const Tensor left = v(i), right = left.defined() ? v(k - i) : Tensor(); right.defined())
      sum = add_tangents(std::move(sum), scale(left, right));
  if (sum.defined()) sum = 2 * sum;
  const Tensor middle = k % 2 ? Tensor() : v(k / 2);
  return add_tangents(std::move(sum), nonzero(middle, [](const Tensor& x) { return square(x); }));
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

/// Returns c.kept[place], and appends next(0), next(1), ... to c.kept as far as they are missing.
template <class Next>
Tensor keep_up_to(const SeriesContext& c, std::size_t place, Next next) {
  while (c.kept.size() <= place) c.kept.push_back(next(c.kept.size()));
  return c.kept[place];
}

Outputs series_divide(const SeriesContext& c);
Outputs series_reciprocal(const SeriesContext& c);
Outputs series_square(const SeriesContext& c);
Outputs series_sqrt(const SeriesContext& c);
Outputs series_exp2(const SeriesContext& c);
Outputs series_tanh(const SeriesContext& c);
Outputs series_sech_squared(const SeriesContext& c);
Outputs series_sigmoid(const SeriesContext& c);
Outputs series_logistic_density(const SeriesContext& c);

}  // namespace stave_detail
