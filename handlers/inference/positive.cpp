// Distributions of positive numbers, and of numbers between 0 and 1.
#include <cmath>
#include <numbers>

#include <stave/core/ops/random_samplers.h>
#include <stave/core/ops/special.h>
#include <stave/handlers/inference/continuous.h>
#include <stave/handlers/inference/parameters.h>

namespace stave {

using namespace stave_detail;

namespace {

using T = const Tensor&;
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

}  // namespace

// ---- Exponential -------------------------------------------------------------------------

namespace {
Tensor exponential_cdf(T x, T r) {
  return from_low(x, 0, 1, 0, [&](T y) { return -expm1(-r * y); });
}
Tensor exponential_sf(T x, T r) {
  return from_low(x, 0, 1, 1, [&](T y) { return exp(-r * y); });
}
}  // namespace

Tensor Exponential::log_prob(T x) const {
  return function_of(
      x, [](T y, T r) { return where_inside(y >= 0, log(r) - r * y); }, rate);
}
Tensor Exponential::sample(const Key& key, const Shape& shape) const {
  const auto f = [&](const Shape& all, Dtype dtype, T r) { return exponential(key, all, dtype) / r; };
  return draw(key, shape, f, rate);
}
Support Exponential::support() const { return Support::positive(); }
STAVE_DEFINE_PROBABILITIES(Exponential, exponential_cdf, exponential_sf, rate)
Tensor Exponential::quantile(T p) const {
  return function_of(
      p, [](T q, T r) { return -log1p(-where(q >= 0, q, nan)) / r; }, rate);
}
Tensor Exponential::mean() const {
  return moment_of([](T r) { return 1 / r; }, rate);
}
Tensor Exponential::variance() const {
  return moment_of([](T r) { return 1 / square(r); }, rate);
}
Tensor Exponential::entropy() const {
  return moment_of([](T r) { return 1 - log(r); }, rate);
}

// ---- Gamma -------------------------------------------------------------------------------

namespace {
Tensor gamma_log_density(T y, T a, T r) {
  const Tensor inside = y >= 0, z = where(inside, y, 1);
  return where_inside(inside, a * log(r) - lgamma(a) + xlogy(a - 1, z) - r * z);
}
Tensor gamma_cdf(T x, T a, T r) {
  return from_low(x, 0, 1, 0, [&](T y) { return gammainc(a, r * y); });
}
Tensor gamma_sf(T x, T a, T r) {
  return from_low(x, 0, 1, 1, [&](T y) { return gammaincc(a, r * y); });
}
Tensor gamma_quantile(T q, T a, T r) { return exp(log_gamma_quantile(a, q, 1 - q)) / r; }
Tensor gamma_entropy(T a, T r) { return a - log(r) + lgamma(a) + (1 - a) * digamma(a); }
}  // namespace

Tensor Gamma::log_prob(T x) const { return function_of(x, gamma_log_density, concentration, rate); }
Tensor Gamma::sample(const Key& key, const Shape& shape) const {
  const auto f = [&](const Shape& all, Dtype, T a, T r) { return gamma(key, a, all) / r; };
  return draw(key, shape, f, concentration, rate);
}
Support Gamma::support() const { return Support::positive(); }
STAVE_DEFINE_PROBABILITIES(Gamma, gamma_cdf, gamma_sf, concentration, rate)
Tensor Gamma::quantile(T p) const { return function_of(p, gamma_quantile, concentration, rate); }
Tensor Gamma::mean() const {
  return moment_of([](T a, T r) { return a / r; }, concentration, rate);
}
Tensor Gamma::variance() const {
  return moment_of([](T a, T r) { return a / square(r); }, concentration, rate);
}
Tensor Gamma::entropy() const { return moment_of(gamma_entropy, concentration, rate); }

// ---- ChiSquared: Gamma{degrees / 2, 1 / 2} -----------------------------------------------

namespace {
Tensor chi_squared_cdf(T x, T k) { return gamma_cdf(x, k / 2, number_like(0.5, x)); }
Tensor chi_squared_sf(T x, T k) { return gamma_sf(x, k / 2, number_like(0.5, x)); }
}  // namespace

Tensor ChiSquared::log_prob(T x) const {
  return function_of(
      x, [](T y, T k) { return gamma_log_density(y, k / 2, number_like(0.5, y)); }, degrees);
}
Tensor ChiSquared::sample(const Key& key, const Shape& shape) const {
  const auto f = [&](const Shape& all, Dtype, T k) { return 2 * gamma(key, k / 2, all); };
  return draw(key, shape, f, degrees);
}
Support ChiSquared::support() const { return Support::positive(); }
STAVE_DEFINE_PROBABILITIES(ChiSquared, chi_squared_cdf, chi_squared_sf, degrees)
Tensor ChiSquared::quantile(T p) const {
  return function_of(
      p, [](T q, T k) { return gamma_quantile(q, k / 2, number_like(0.5, q)); }, degrees);
}
Tensor ChiSquared::mean() const {
  return moment_of([](T k) { return k; }, degrees);
}
Tensor ChiSquared::variance() const {
  return moment_of([](T k) { return 2 * k; }, degrees);
}
Tensor ChiSquared::entropy() const {
  return moment_of([](T k) { return gamma_entropy(k / 2, number_like(0.5, k)); }, degrees);
}

// ---- InverseGamma ------------------------------------------------------------------------

namespace {
Tensor inverse_gamma_cdf(T x, T a, T r) {
  return from_low(x, 0, 1, 0, [&](T y) { return gammaincc(a, r / y); });
}
Tensor inverse_gamma_sf(T x, T a, T r) {
  return from_low(x, 0, 1, 1, [&](T y) { return gammainc(a, r / y); });
}
}  // namespace

Tensor InverseGamma::log_prob(T x) const {
  const auto f = [](T y, T a, T r) {
    const Tensor inside = y > 0, z = where(inside, y, 1);
    return where_inside(inside, a * log(r) - lgamma(a) - (a + 1) * log(z) - r / z);
  };
  return function_of(x, f, concentration, rate);
}
Tensor InverseGamma::sample(const Key& key, const Shape& shape) const {
  const auto f = [&](const Shape& all, Dtype, T a, T r) { return r * exp(-loggamma(key, a, all)); };
  return draw(key, shape, f, concentration, rate);
}
Support InverseGamma::support() const { return Support::positive(); }
STAVE_DEFINE_PROBABILITIES(InverseGamma, inverse_gamma_cdf, inverse_gamma_sf, concentration, rate)
Tensor InverseGamma::quantile(T p) const {
  const auto f = [](T q, T a, T r) { return r * exp(-log_gamma_quantile(a, 1 - q, q)); };
  return function_of(p, f, concentration, rate);
}
Tensor InverseGamma::mean() const {
  const auto f = [](T a, T r) {
    const Tensor exists = a > 1;
    return where(exists, r / (where(exists, a, 2) - 1), infinity);
  };
  return moment_of(f, concentration, rate);
}
Tensor InverseGamma::variance() const {
  const auto f = [](T a, T r) {
    const Tensor exists = a > 2, b = where(exists, a, 3);
    return where(exists, square(r / (b - 1)) / (b - 2), infinity);
  };
  return moment_of(f, concentration, rate);
}
Tensor InverseGamma::entropy() const {
  return moment_of([](T a, T r) { return a + log(r) + lgamma(a) - (1 + a) * digamma(a); }, concentration, rate);
}

// ---- Beta --------------------------------------------------------------------------------

namespace {
Tensor beta_cdf(T x, T p, T q) { return betainc(p, q, clip(x, 0, 1)); }
Tensor beta_sf(T x, T p, T q) { return betainc(q, p, 1 - clip(x, 0, 1)); }
Tensor beta_entropy(T p, T q) {
  return betaln(p, q) - (p - 1) * digamma(p) - (q - 1) * digamma(q) + (p + q - 2) * digamma(p + q);
}
}  // namespace

Tensor Beta::log_prob(T x) const {
  const auto f = [](T y, T p, T q) {
    const Tensor inside = y >= 0 && y <= 1, z = where(inside, y, 0.5);
    return where_inside(inside, xlogy(p - 1, z) + xlog1py(q - 1, -z) - betaln(p, q));
  };
  return function_of(x, f, a, b);
}
Tensor Beta::sample(const Key& key, const Shape& shape) const {
  const auto f = [&](const Shape& all, Dtype, T p, T q) {
    const auto [first, second] = split(key);
    const Tensor x = loggamma(first, p, all);
    return sigmoid(x - loggamma(second, q, all));
  };
  return draw(key, shape, f, a, b);
}
Support Beta::support() const { return Support::interval(0, 1); }
STAVE_DEFINE_PROBABILITIES(Beta, beta_cdf, beta_sf, a, b)
Tensor Beta::quantile(T p) const {
  return function_of(
      p, [](T r, T v, T w) { return sigmoid(logit_beta_quantile(v, w, r, 1 - r)); }, a, b);
}
Tensor Beta::mean() const {
  return moment_of([](T p, T q) { return p / (p + q); }, a, b);
}
Tensor Beta::variance() const {
  return moment_of([](T p, T q) { return p * q / (square(p + q) * (p + q + 1)); }, a, b);
}
Tensor Beta::entropy() const { return moment_of(beta_entropy, a, b); }

// ---- FDistribution: logit(n x / (n x + d)) is the logit of a beta draw ---------------------

namespace {
Tensor f_cdf(T x, T n, T d) {
  return from_low(x, 0, 1, 0, [&](T y) { return betainc(n / 2, d / 2, n / (n + d / y)); });
}
Tensor f_sf(T x, T n, T d) {
  return from_low(x, 0, 1, 1, [&](T y) { return betainc(d / 2, n / 2, d / (d + n * y)); });
}
}  // namespace

Tensor FDistribution::log_prob(T x) const {
  const auto f = [](T y, T n, T d) {
    const Tensor inside = y >= 0, z = where(inside, y, 1), ratio = n / d;
    return where_inside(
        inside, n / 2 * log(ratio) + xlogy(n / 2 - 1, z) - (n + d) / 2 * log1p(ratio * z) - betaln(n / 2, d / 2));
  };
  return function_of(x, f, numerator, denominator);
}
Tensor FDistribution::sample(const Key& key, const Shape& shape) const {
  const auto f = [&](const Shape& all, Dtype, T n, T d) {
    const auto [first, second] = split(key);
    return exp(loggamma(first, n / 2, all) - loggamma(second, d / 2, all)) * (d / n);
  };
  return draw(key, shape, f, numerator, denominator);
}
Support FDistribution::support() const { return Support::positive(); }
STAVE_DEFINE_PROBABILITIES(FDistribution, f_cdf, f_sf, numerator, denominator)
Tensor FDistribution::quantile(T p) const {
  const auto f = [](T q, T n, T d) { return exp(logit_beta_quantile(n / 2, d / 2, q, 1 - q)) * (d / n); };
  return function_of(p, f, numerator, denominator);
}
Tensor FDistribution::mean() const {
  const auto f = [](T, T d) {
    const Tensor exists = d > 2, e = where(exists, d, 3);
    return where(exists, e / (e - 2), infinity);
  };
  return moment_of(f, numerator, denominator);
}
Tensor FDistribution::variance() const {
  const auto f = [](T n, T d) {
    const Tensor exists = d > 4, e = where(exists, d, 5);
    return where(exists, 2 * square(e) * (n + e - 2) / (n * square(e - 2) * (e - 4)), where(d > 2, infinity, nan));
  };
  return moment_of(f, numerator, denominator);
}
Tensor FDistribution::entropy() const {
  const auto f = [](T n, T d) {
    const Tensor a = n / 2, b = d / 2;
    return log(d / n) + betaln(a, b) + (1 - a) * digamma(a) - (1 + b) * digamma(b) + (a + b) * digamma(a + b);
  };
  return moment_of(f, numerator, denominator);
}

// ---- Pareto ------------------------------------------------------------------------------

namespace {
Tensor pareto_cdf(T x, T a, T s) {
  return from_low(x, s, s, 0, [&](T y) { return -expm1(a * log(s / y)); });
}
Tensor pareto_sf(T x, T a, T s) {
  return from_low(x, s, s, 1, [&](T y) { return pow(s / y, a); });
}
}  // namespace

Tensor Pareto::log_prob(T x) const {
  const auto f = [](T y, T a, T s) {
    const Tensor inside = y >= s, z = where(inside, y, s);
    return where_inside(inside, log(a) + a * log(s) - (a + 1) * log(z));
  };
  return function_of(x, f, concentration, scale);
}
Tensor Pareto::sample(const Key& key, const Shape& shape) const {
  const auto f = [&](const Shape& all, Dtype dtype, T a, T s) {
    return s * exp(-log1p(-uniform(key, all, dtype)) / a);
  };
  return draw(key, shape, f, concentration, scale);
}
Support Pareto::support() const { return Support::above(scale); }
STAVE_DEFINE_PROBABILITIES(Pareto, pareto_cdf, pareto_sf, concentration, scale)
Tensor Pareto::quantile(T p) const {
  const auto f = [](T q, T a, T s) { return s * exp(-log1p(-where(q >= 0, q, nan)) / a); };
  return function_of(p, f, concentration, scale);
}
Tensor Pareto::mean() const {
  const auto f = [](T a, T s) {
    const Tensor exists = a > 1, b = where(exists, a, 2);
    return where(exists, s * b / (b - 1), infinity);
  };
  return moment_of(f, concentration, scale);
}
Tensor Pareto::variance() const {
  const auto f = [](T a, T s) {
    const Tensor exists = a > 2, b = where(exists, a, 3);
    return where(exists, square(s / (b - 1)) * b / (b - 2), infinity);
  };
  return moment_of(f, concentration, scale);
}
Tensor Pareto::entropy() const {
  return moment_of([](T a, T s) { return log(s / a) + 1 / a + 1; }, concentration, scale);
}

// ---- Weibull -----------------------------------------------------------------------------

namespace {
Tensor weibull_cdf(T x, T k, T s) {
  return from_low(x, 0, 1, 0, [&](T y) { return -expm1(-pow(y / s, k)); });
}
Tensor weibull_sf(T x, T k, T s) {
  return from_low(x, 0, 1, 1, [&](T y) { return exp(-pow(y / s, k)); });
}
}  // namespace

Tensor Weibull::log_prob(T x) const {
  const auto f = [](T y, T k, T s) {
    const Tensor inside = y >= 0, z = where(inside, y, 1) / s;
    return where_inside(inside, log(k / s) + xlogy(k - 1, z) - pow(z, k));
  };
  return function_of(x, f, concentration, scale);
}
Tensor Weibull::sample(const Key& key, const Shape& shape) const {
  const auto f = [&](const Shape& all, Dtype dtype, T k, T s) {
    return s * pow(-log1p(-uniform(key, all, dtype)), 1 / k);
  };
  return draw(key, shape, f, concentration, scale);
}
Support Weibull::support() const { return Support::positive(); }
STAVE_DEFINE_PROBABILITIES(Weibull, weibull_cdf, weibull_sf, concentration, scale)
Tensor Weibull::quantile(T p) const {
  const auto f = [](T q, T k, T s) { return s * pow(-log1p(-where(q >= 0, q, nan)), 1 / k); };
  return function_of(p, f, concentration, scale);
}
Tensor Weibull::mean() const {
  return moment_of([](T k, T s) { return s * exp(lgamma(1 + 1 / k)); }, concentration, scale);
}
Tensor Weibull::variance() const {
  const auto f = [](T k, T s) {
    const Tensor log_mean = lgamma(1 + 1 / k);
    return square(s) * exp(2 * log_mean) * expm1(lgamma(1 + 2 / k) - 2 * log_mean);
  };
  return moment_of(f, concentration, scale);
}
Tensor Weibull::entropy() const {
  return moment_of([](T k, T s) { return std::numbers::egamma * (1 - 1 / k) + log(s / k) + 1; }, concentration, scale);
}

}  // namespace stave
