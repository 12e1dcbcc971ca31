// Kullback-Leibler divergences of distributions.h.
#include <stave/handlers/inference/distributions.h>

#include <stave/core/ops/contract.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/linalg.h>
#include <stave/core/ops/reduce.h>
#include <stave/core/ops/softmax.h>
#include <stave/core/ops/special.h>
#include <stave/handlers/inference/parameters.h>

namespace stave {

using namespace stave_detail;

namespace {

using T = const Tensor&;

Tensor normal_divergence(T m, T s, T n, T t) {
  const Tensor ratio = square(s / t);
  return (ratio + square((m - n) / t) - 1 - log(ratio)) / 2;
}
// p log(p / q) + (1 - p) log((1 - p) / (1 - q)) for p = sigmoid(l) and q = sigmoid(k).
Tensor coin_divergence(T l, T k) { return scale(sigmoid(l), l - k) + softplus(k) - softplus(l); }

}  // namespace

Tensor kl_divergence(const Normal& p, const Normal& q) {
  return moment_of(normal_divergence, p.location, p.scale, q.location, q.scale);
}
Tensor kl_divergence(const LogNormal& p, const LogNormal& q) {
  return moment_of(normal_divergence, p.location, p.scale, q.location, q.scale);
}
Tensor kl_divergence(const Laplace& p, const Laplace& q) {
  const auto f = [](T m, T s, T n, T t) {
    const Tensor distance = abs(m - n);
    return log(t / s) + (s * exp(-distance / s) + distance) / t - 1;
  };
  return moment_of(f, p.location, p.scale, q.location, q.scale);
}
Tensor kl_divergence(const Exponential& p, const Exponential& q) {
  return moment_of([](T r, T s) { return log(r / s) + s / r - 1; }, p.rate, q.rate);
}
Tensor kl_divergence(const Gamma& p, const Gamma& q) {
  const auto f = [](T a, T r, T b, T s) {
    return (a - b) * digamma(a) - lgamma(a) + lgamma(b) + b * log(r / s) + a * (s / r - 1);
  };
  return moment_of(f, p.concentration, p.rate, q.concentration, q.rate);
}
Tensor kl_divergence(const Beta& p, const Beta& q) {
  const auto f = [](T a, T b, T c, T d) {
    return betaln(c, d) - betaln(a, b) + (a - c) * digamma(a) + (b - d) * digamma(b) + (c - a + d - b) * digamma(a + b);
  };
  return moment_of(f, p.a, p.b, q.a, q.b);
}
Tensor kl_divergence(const Uniform& p, const Uniform& q) {
  const auto f = [](T a, T b, T c, T d) { return where(c <= a && b <= d, log((d - c) / (b - a)), infinity); };
  return moment_of(f, p.low, p.high, q.low, q.high);
}
Tensor kl_divergence(const Bernoulli& p, const Bernoulli& q) { return moment_of(coin_divergence, p.logits, q.logits); }
// A geometric draw consists of 1 / p tosses of a coin on average, so its divergence is 1 / p times
// that of the coin.
Tensor kl_divergence(const Geometric& p, const Geometric& q) {
  return moment_of([](T l, T k) { return coin_divergence(l, k) / sigmoid(l); }, p.logits, q.logits);
}
Tensor kl_divergence(const Poisson& p, const Poisson& q) {
  return moment_of([](T r, T s) { return xlogy(r, r / s) - r + s; }, p.rate, q.rate);
}
Tensor kl_divergence(const Categorical& p, const Categorical& q) {
  const auto f = [](T l, T k) {
    const Tensor log_p = log_softmax(l), weight = exp(log_p);
    return sum(where(weight > 0, weight * (log_p - log_softmax(k)), 0), -1);
  };
  const Dtype dtype = common_float(p.logits, q.logits), computed = computed_in(dtype);
  return astype(f(astype(p.logits, computed), astype(q.logits, computed)), dtype);
}
// With q's factor l and p's factor k, the divergence is (|l^-1 k|^2 + |l^-1 (n - m)|^2 - n) / 2 +
// log(det l / det k).
Tensor kl_divergence(const MultivariateNormal& p, const MultivariateNormal& q) {
  const auto f = [](T m, T k, T n, T l) {
    const Tensor whitened_distance = triangular_solve(l, expand_dims(n - m, -1), {.lower = true});
    const Tensor whitened_factor = triangular_solve(l, tril(k), {.lower = true});
    const Tensor logs = sum(log(diagonal(l)), -1) - sum(log(diagonal(k)), -1);
    return (sum(square(whitened_factor), {-2, -1}) + sum(square(whitened_distance), {-2, -1}) -
            static_cast<double>(k.shape(-1))) /
               2 +
           logs;
  };
  return in_floats(f, p.location, p.scale_tril, q.location, q.scale_tril);
}
Tensor kl_divergence(const Dirichlet& p, const Dirichlet& q) {
  const auto f = [](T a, T b) {
    const Tensor total = sum(a, -1, keepdims);
    return lgamma(squeeze(total, -1)) - lgamma(sum(b, -1)) + sum(lgamma(b) - lgamma(a), -1) +
           sum((a - b) * (digamma(a) - digamma(total)), -1);
  };
  return in_floats(f, p.concentration, q.concentration);
}

}  // namespace stave
