// Functions of one number, whose Taylor coefficients several tests compare; tests/data/taylor.py
// has the same ones.
#pragma once

#include <cmath>
#include <functional>
#include <map>
#include <string>

#include <stave/stave.h>

namespace stave_test {

using namespace stave;
using Curve = std::function<Tensor(const Tensor&)>;

inline Tensor matrix(int n, double seed) {  // well conditioned
  std::vector<double> elements;
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j)
      elements.push_back(std::cos(seed + 1.3 * i + 2.1 * j + 0.7 * i * j) + (i == j ? 3. : 0.));
  return from(std::span<const double>(elements), Shape({n, n}));
}
inline Tensor moving(const Tensor& t, int n) {
  return matrix(n, 0.3) + t * matrix(n, 1.1) + square(t) * matrix(n, 2.3);
}
inline Tensor definite(const Tensor& t, int n) {
  const auto of = [n](double seed) {
    const Tensor m = matrix(n, seed);
    return matmul(m, matrix_transpose(m)) + eye(n, float64);
  };
  return of(0.3) + t * of(1.1) * 0.3;
}
inline Tensor curve(const Tensor& t) { return stack({t, sin(t), square(t), exp(t)}); }
inline Tensor weighted(const Tensor& x) {
  return sum(x * cos(1. + 0.37 * reshape(arange(0., static_cast<double>(x.size()), 1., float64), x.shape())));
}

/// Functions of tests/data/taylor.csv.
inline const std::map<std::string, Curve>& curves() {
  static const std::map<std::string, Curve> all = {
#define X(name) {#name, [](const Tensor& x) { return name(x); }},
      X(exp) X(exp2) X(expm1) X(log) X(log2) X(log10) X(log1p) X(sin) X(cos) X(tan) X(asin) X(acos) X(atan) X(sinh)
          X(cosh) X(tanh) X(asinh) X(acosh) X(atanh) X(sigmoid) X(logit) X(erf) X(erfc) X(erfinv) X(softplus) X(silu)
              X(gelu) X(gelu_tanh) X(lgamma) X(digamma) X(sqrt) X(rsqrt) X(square) X(reciprocal)
#undef X
                  {"pow_2.5", [](const Tensor& x) { return pow(x, 2.5); }},
      {"pow_3", [](const Tensor& x) { return pow(x, 3.); }},
      {"pow_base", [](const Tensor& x) { return pow(2.5, x); }},
      {"pow_x", [](const Tensor& x) { return pow(x, x); }},
      {"atan2", [](const Tensor& x) { return atan2(x, 1. + square(x)); }},
      {"hypot", [](const Tensor& x) { return hypot(x, exp(x)); }},
      {"logaddexp", [](const Tensor& x) { return logaddexp(x, sin(x)); }},
      {"xlogy", [](const Tensor& x) { return xlogy(x, 1. + x); }},
      {"xlog1py", [](const Tensor& x) { return xlog1py(x, x); }},
      {"zeta", [](const Tensor& x) { return zeta(2.5, x); }},
      {"divide", [](const Tensor& x) { return sin(x) / (2. + cos(x)); }},
      {"composed",
       [](const Tensor& x) {
         return tanh(sin(exp(x)) * sqrt(1. + square(x))) / (1. + sigmoid(x * log1p(square(x))));
       }},
      {"jax logsumexp", [](const Tensor& t) { return logsumexp(curve(t)); }},
      {"jax softmax", [](const Tensor& t) { return weighted(softmax(curve(t))); }},
      {"jax products",
       [](const Tensor& t) {
         const Tensor a = moving(t, 4) * 0.2;
         return weighted(matmul(matmul(matmul(a, a + 0.1), a - 0.2), a));
       }},
      {"jax network",
       [](const Tensor& t) {
         return weighted(sigmoid(matmul(matrix(4, 1.1), tanh(matmul(matrix(4, 0.3), curve(t))))));
       }},
      {"jax cumsum", [](const Tensor& t) { return weighted(cumulative_sum(curve(t)) * curve(t)); }},
      {"jax max", [](const Tensor& t) { return max(curve(t)); }},
  };
  return all;
}

/// Functions of linear algebra.
inline const std::map<std::string, Curve>& matrix_curves() {
  static const std::map<std::string, Curve> all = {
      {"matmul chain",
       [](const Tensor& t) {
         const Tensor a = moving(t, 4) * 0.2;
         return weighted(matmul(matmul(matmul(a, a + 0.1), a - 0.2), a));
       }},
      {"solve", [](const Tensor& t) { return weighted(solve(moving(t, 4), moving(square(t), 4))); }},
      {"inv", [](const Tensor& t) { return weighted(inv(moving(t, 4))); }},
      {"cholesky", [](const Tensor& t) { return weighted(cholesky(definite(t, 4))); }},
      {"triangular_solve",
       [](const Tensor& t) { return weighted(triangular_solve(moving(t, 4), moving(square(t), 4))); }},
      {"det", [](const Tensor& t) { return det(moving(t, 4) * 0.3); }},
      {"slogdet", [](const Tensor& t) { return slogdet(moving(t, 4)).second; }},
      {"qr",
       [](const Tensor& t) {
         const auto [q, r] = qr(moving(t, 4));
         return weighted(q) + weighted(r);
       }},
      {"lu",
       [](const Tensor& t) {
         const auto [p, l, u] = lu(moving(t, 4));
         return weighted(l) + weighted(u);
       }},
      {"eigh",
       [](const Tensor& t) {
         const auto [values, vectors] = eigh(definite(t, 4));
         return weighted(values) + weighted(square(vectors));
       }},
      {"svd",
       [](const Tensor& t) {
         const auto [u, s, vh] = svd(moving(t, 4));
         return weighted(s) + weighted(square(u));
       }},
      {"lstsq",
       [](const Tensor& t) {
         const Tensor a = moving(t, 4);
         return weighted(lstsq(a(ellipsis, slice(0, 2)), a(ellipsis, slice(2, 4))));
       }},
      {"lstsq of few rows",
       [](const Tensor& t) {
         const Tensor a = moving(t, 4);
         return weighted(lstsq(a(slice(0, 2)), a(slice(2, 4), slice(0, 3))(slice(0, 2))));
       }},
      {"expm", [](const Tensor& t) { return weighted(expm(moving(t, 3) * 0.2)); }},
      {"logsumexp",
       [](const Tensor& t) {
         return logsumexp(stack({t, sin(t), square(t) + 0.1, exp(t)}));
       }},
      {"layer_norm",
       [](const Tensor& t) {
         return weighted(layer_norm(reshape(curve(t), {1, 4})));
       }},
      {"convolution",
       [](const Tensor& t) {
         const Tensor a = moving(t, 4);
         return weighted(conv(reshape(a, {1, 1, 4, 4}), reshape(a(slice(0, 2), slice(0, 2)), {1, 1, 2, 2})));
       }},
      {"prod", [](const Tensor& t) { return prod(curve(t)); }},
      {"norm", [](const Tensor& t) { return norm(curve(t)); }},
      {"sort", [](const Tensor& t) { return weighted(sort(curve(t))); }},
  };
  return all;
}

}  // namespace stave_test
