// Distributions with a location and a scale, and distributions on an interval.
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
constexpr double pi = std::numbers::pi, ln2 = std::numbers::ln2;

Tensor location_of(T m, T) { return m; }
Tensor nowhere(T m, T) { return full_like(m, std::nan("")); }

}  // namespace

// ---- Cauchy ------------------------------------------------------------------------------

namespace {

Tensor cauchy_density(T x, T m, T s) { return -log1p(square((x - m) / s)) - log(s) - log_pi; }
// The angle of the point (m - x, s) is accurate in both tails.
Tensor cauchy_cdf(T x, T m, T s) { return atan2(s, m - x) / pi; }
Tensor cauchy_sf(T x, T m, T s) { return atan2(s, x - m) / pi; }
// tan(pi (q - 1 / 2)) is -1 / tan(pi q), which keeps the digits of a small q.
Tensor cauchy_quantile(T q, T m, T s) {
  const Tensor tail = minimum(q, 1 - q), is_tail = tail < 0.25, safe = where(is_tail && tail > 0, tail, 0.25);
  const Tensor z = where(is_tail, where(q < 0.5, -1, 1) / tan(pi * safe), tan(pi * (where(is_tail, 0.5, q) - 0.5)));
  return where(q > 0 && q < 1, m + s * z, where(q == 0, -infinity, where(q == 1, infinity, std::nan(""))));
}

}  // namespace

Tensor Cauchy::log_prob(T x) const { return function_of(x, cauchy_density, location, scale); }
Tensor Cauchy::sample(const Key& key, const Shape& shape) const {
  const auto f = [&](const Shape& all, Dtype dtype, T m, T s) {
    return m + s * tan(uniform(key, all, -pi / 2, pi / 2, dtype));
  };
  return draw(key, shape, f, location, scale);
}
Support Cauchy::support() const { return Support::real(); }
STAVE_DEFINE_PROBABILITIES(Cauchy, cauchy_cdf, cauchy_sf, location, scale)
Tensor Cauchy::quantile(T p) const { return function_of(p, cauchy_quantile, location, scale); }
Tensor Cauchy::mean() const { return moment_of(nowhere, location, scale); }
Tensor Cauchy::variance() const { return moment_of(nowhere, location, scale); }
Tensor Cauchy::entropy() const {
  return moment_of([](T, T s) { return log(s) + (log_pi + 2 * ln2); }, location, scale);
}

// ---- HalfCauchy --------------------------------------------------------------------------

namespace {
Tensor half_cauchy_cdf(T x, T s) {
  return from_low(x, 0, 1, 0, [&](T y) { return 2 / pi * atan2(y, s); });
}
Tensor half_cauchy_sf(T x, T s) {
  return from_low(x, 0, 1, 1, [&](T y) { return 2 / pi * atan2(s, y); });
}
}  // namespace

Tensor HalfCauchy::log_prob(T x) const {
  const auto f = [](T y, T s) { return where_inside(y >= 0, cauchy_density(y, number_like(0, y), s) + ln2); };
  return function_of(x, f, scale);
}
Tensor HalfCauchy::sample(const Key& key, const Shape& shape) const { return abs(Cauchy{0, scale}.sample(key, shape)); }
Support HalfCauchy::support() const { return Support::positive(); }
STAVE_DEFINE_PROBABILITIES(HalfCauchy, half_cauchy_cdf, half_cauchy_sf, scale)
Tensor HalfCauchy::quantile(T p) const {
  const auto f = [](T q, T s) {
    const Tensor is_tail = q > 0.5 && q < 1, upper = 1 / tan(pi / 2 * where(is_tail, 1 - q, 0.5));
    const Tensor x = s * where(is_tail, upper, tan(pi / 2 * where(is_tail, 0.5, q)));
    return where(q >= 0 && q < 1, x, where(q == 1, infinity, std::nan("")));
  };
  return function_of(p, f, scale);
}
Tensor HalfCauchy::mean() const {
  return moment_of([](T s) { return full_like(s, infinity); }, scale);
}
Tensor HalfCauchy::variance() const {
  return moment_of([](T s) { return full_like(s, infinity); }, scale);
}
Tensor HalfCauchy::entropy() const {
  return moment_of([](T s) { return log(s) + (log_pi + ln2); }, scale);
}

// ---- TruncatedCauchy ---------------------------------------------------------------------

namespace {

// Returns pi times the probability of the interval from a to b under the standard Cauchy
// distribution: atan(b) - atan(a), without cancellation in the tails.
Tensor cauchy_angle(T a, T b) {
  const Tensor same_side = a * b > 0 && isfinite(a * b);
  const Tensor x = where(same_side, a, 1), y = where(same_side, b, 1);
  return where(same_side, atan2(y - x, 1 + x * y), atan(b) - atan(a));
}
Tensor truncated_cauchy_cdf(T x, T m, T s, T l, T h) {
  const Tensor low = (l - m) / s, high = (h - m) / s;
  return cauchy_angle(low, clip((x - m) / s, low, high)) / cauchy_angle(low, high);
}
Tensor truncated_cauchy_sf(T x, T m, T s, T l, T h) {
  const Tensor low = (l - m) / s, high = (h - m) / s;
  return cauchy_angle(clip((x - m) / s, low, high), high) / cauchy_angle(low, high);
}
Tensor truncated_cauchy_quantile(T q, T m, T s, T l, T h) {
  const Tensor low = (l - m) / s, high = (h - m) / s;
  const Tensor x = m + s * tan(atan(low) + q * (atan(high) - atan(low)));
  return where(q >= 0 && q <= 1, minimum(maximum(x, l), h), std::nan(""));
}

}  // namespace

Tensor TruncatedCauchy::log_prob(T x) const {
  const auto f = [](T y, T m, T s, T l, T h) {
    const Tensor angle = cauchy_angle((l - m) / s, (h - m) / s);
    return where_inside(y >= l && y <= h, -log1p(square((y - m) / s)) - log(s) - log(angle));
  };
  return function_of(x, f, location, scale, low, high);
}
Tensor TruncatedCauchy::sample(const Key& key, const Shape& shape) const {
  const auto f = [&](const Shape& all, Dtype dtype, T m, T s, T l, T h) {
    return truncated_cauchy_quantile(uniform(key, all, dtype), m, s, l, h);
  };
  return draw(key, shape, f, location, scale, low, high);
}
Support TruncatedCauchy::support() const { return Support::interval(low, high); }
STAVE_DEFINE_PROBABILITIES(TruncatedCauchy, truncated_cauchy_cdf, truncated_cauchy_sf, location, scale, low, high)
Tensor TruncatedCauchy::quantile(T p) const {
  return function_of(p, truncated_cauchy_quantile, location, scale, low, high);
}

// ---- StudentT ----------------------------------------------------------------------------

namespace {
Tensor student_cdf_of(T x, T n, T m, T s) { return student_cdf((x - m) / s, n); }
Tensor student_sf_of(T x, T n, T m, T s) { return student_cdf((m - x) / s, n); }
}  // namespace

Tensor StudentT::log_prob(T x) const {
  const auto f = [](T y, T n, T m, T s) { return student_log_density((y - m) / s, n) - log(s); };
  return function_of(x, f, degrees, location, scale);
}
Tensor StudentT::sample(const Key& key, const Shape& shape) const {
  const auto f = [&](const Shape& all, Dtype dtype, T n, T m, T s) {
    const auto [first, second] = split(key);
    const Tensor chi = 2 * gamma(second, n / 2, all);
    return m + s * normal(first, all, dtype) / sqrt(chi / n);
  };
  return draw(key, shape, f, degrees, location, scale);
}
Support StudentT::support() const { return Support::real(); }
STAVE_DEFINE_PROBABILITIES(StudentT, student_cdf_of, student_sf_of, degrees, location, scale)
Tensor StudentT::quantile(T p) const {
  const auto f = [](T q, T n, T m, T s) { return m + s * student_quantile(n, q); };
  return function_of(p, f, degrees, location, scale);
}
Tensor StudentT::mean() const {
  const auto f = [](T n, T m, T) { return where(n > 1, m, std::nan("")); };
  return moment_of(f, degrees, location, scale);
}
Tensor StudentT::variance() const {
  const auto f = [](T n, T, T s) {
    const Tensor is_finite = n > 2;
    return where(is_finite, square(s) * (1 + 2 / (where(is_finite, n, 3) - 2)), where(n > 1, infinity, std::nan("")));
  };
  return moment_of(f, degrees, location, scale);
}
Tensor StudentT::entropy() const {
  const auto f = [](T n, T, T s) {
    return (n + 1) / 2 * (digamma((n + 1) / 2) - digamma(n / 2)) + log(n) / 2 + betaln(n / 2, number_like(0.5, n)) +
           log(s);
  };
  return moment_of(f, degrees, location, scale);
}

// ---- Laplace -----------------------------------------------------------------------------

namespace {
Tensor laplace_tail(T z) {
  const Tensor half = exp(-abs(z)) / 2;
  return where(z > 0, half, 1 - half);
}
Tensor laplace_cdf(T x, T m, T s) { return laplace_tail((m - x) / s); }
Tensor laplace_sf(T x, T m, T s) { return laplace_tail((x - m) / s); }
Tensor laplace_quantile(T q, T m, T s) {
  const Tensor left = q < 0.5;
  return m + s * where(left, log(2 * where(left, q, 0.5)), -log(2 * (1 - where(left, 0.5, q))));
}
}  // namespace

Tensor Laplace::log_prob(T x) const {
  return function_of(
      x, [](T y, T m, T s) { return -abs(y - m) / s - log(s) - ln2; }, location, scale);
}
Tensor Laplace::sample(const Key& key, const Shape& shape) const {
  const auto f = [&](const Shape& all, Dtype dtype, T m, T s) {
    const Tensor u = uniform(key, all, -1, 1, dtype);
    return m - s * sign(u) * log1p(-abs(u));
  };
  return draw(key, shape, f, location, scale);
}
Support Laplace::support() const { return Support::real(); }
STAVE_DEFINE_PROBABILITIES(Laplace, laplace_cdf, laplace_sf, location, scale)
Tensor Laplace::quantile(T p) const { return function_of(p, laplace_quantile, location, scale); }
Tensor Laplace::mean() const { return moment_of(location_of, location, scale); }
Tensor Laplace::variance() const {
  return moment_of([](T, T s) { return 2 * square(s); }, location, scale);
}
Tensor Laplace::entropy() const {
  return moment_of([](T, T s) { return 1 + ln2 + log(s); }, location, scale);
}

// ---- Logistic ----------------------------------------------------------------------------

Tensor Logistic::log_prob(T x) const {
  const auto f = [](T y, T m, T s) {
    const Tensor z = (y - m) / s;
    return log_sigmoid(z) + log_sigmoid(-z) - log(s);
  };
  return function_of(x, f, location, scale);
}
Tensor Logistic::sample(const Key& key, const Shape& shape) const {
  const auto f = [&](const Shape& all, Dtype dtype, T m, T s) {
    // The least number is half of the distance of two uniform numbers, so that no draw is infinite.
    const double least = dtype == float64 ? 0x1p-54 : 0x1p-25;
    return m + s * logit(maximum(uniform(key, all, dtype), least));
  };
  return draw(key, shape, f, location, scale);
}
Support Logistic::support() const { return Support::real(); }
Tensor Logistic::cdf(T x) const {
  return function_of(
      x, [](T y, T m, T s) { return sigmoid((y - m) / s); }, location, scale);
}
Tensor Logistic::sf(T x) const {
  return function_of(
      x, [](T y, T m, T s) { return sigmoid((m - y) / s); }, location, scale);
}
Tensor Logistic::log_cdf(T x) const {
  return function_of(
      x, [](T y, T m, T s) { return log_sigmoid((y - m) / s); }, location, scale);
}
Tensor Logistic::quantile(T p) const {
  return function_of(
      p, [](T q, T m, T s) { return m + s * logit(q); }, location, scale);
}
Tensor Logistic::mean() const { return moment_of(location_of, location, scale); }
Tensor Logistic::variance() const {
  return moment_of([](T, T s) { return square(s) * (pi * pi / 3); }, location, scale);
}
Tensor Logistic::entropy() const {
  return moment_of([](T, T s) { return 2 + log(s); }, location, scale);
}

// ---- Gumbel ------------------------------------------------------------------------------

Tensor Gumbel::log_prob(T x) const {
  const auto f = [](T y, T m, T s) {
    const Tensor z = (y - m) / s;
    return -z - exp(-z) - log(s);
  };
  return function_of(x, f, location, scale);
}
Tensor Gumbel::sample(const Key& key, const Shape& shape) const {
  const auto f = [&](const Shape& all, Dtype dtype, T m, T s) { return m + s * gumbel(key, all, dtype); };
  return draw(key, shape, f, location, scale);
}
Support Gumbel::support() const { return Support::real(); }
Tensor Gumbel::cdf(T x) const {
  return function_of(
      x, [](T y, T m, T s) { return exp(-exp((m - y) / s)); }, location, scale);
}
Tensor Gumbel::sf(T x) const {
  return function_of(
      x, [](T y, T m, T s) { return -expm1(-exp((m - y) / s)); }, location, scale);
}
Tensor Gumbel::log_cdf(T x) const {
  return function_of(
      x, [](T y, T m, T s) { return -exp((m - y) / s); }, location, scale);
}
Tensor Gumbel::quantile(T p) const {
  return function_of(
      p, [](T q, T m, T s) { return m - s * log(-log(q)); }, location, scale);
}
Tensor Gumbel::mean() const {
  return moment_of([](T m, T s) { return m + s * std::numbers::egamma; }, location, scale);
}
Tensor Gumbel::variance() const {
  return moment_of([](T, T s) { return square(s) * (pi * pi / 6); }, location, scale);
}
Tensor Gumbel::entropy() const {
  return moment_of([](T, T s) { return log(s) + (1 + std::numbers::egamma); }, location, scale);
}

// ---- Uniform -----------------------------------------------------------------------------

namespace {
Tensor uniform_cdf(T x, T l, T h) { return clip((x - l) / (h - l), 0, 1); }
Tensor uniform_sf(T x, T l, T h) { return clip((h - x) / (h - l), 0, 1); }
}  // namespace

Tensor Uniform::log_prob(T x) const {
  const auto f = [](T y, T l, T h) { return where_inside(y >= l && y <= h, -log(h - l)); };
  return function_of(x, f, low, high);
}
Tensor Uniform::sample(const Key& key, const Shape& shape) const {
  const auto f = [&](const Shape& all, Dtype dtype, T l, T h) { return l + (h - l) * uniform(key, all, dtype); };
  return draw(key, shape, f, low, high);
}
Support Uniform::support() const { return Support::interval(low, high); }
STAVE_DEFINE_PROBABILITIES(Uniform, uniform_cdf, uniform_sf, low, high)
Tensor Uniform::quantile(T p) const {
  const auto f = [](T q, T l, T h) { return where(q >= 0 && q <= 1, l + q * (h - l), std::nan("")); };
  return function_of(p, f, low, high);
}
Tensor Uniform::mean() const {
  return moment_of([](T l, T h) { return l + (h - l) / 2; }, low, high);
}
Tensor Uniform::variance() const {
  return moment_of([](T l, T h) { return square(h - l) / 12; }, low, high);
}
Tensor Uniform::entropy() const {
  return moment_of([](T l, T h) { return log(h - l); }, low, high);
}

// ---- VonMises ----------------------------------------------------------------------------

// cos(d) - 1 = -2 sin(d / 2)^2 keeps the digits of a large concentration.
Tensor VonMises::log_prob(T x) const {
  const auto f = [](T y, T m, T k) {
    return -2 * k * square(sin((y - m) / 2)) - 2 * log_root_2_pi - log(bessel_i0e(k));
  };
  return function_of(x, f, location, concentration);
}
Tensor VonMises::sample(const Key& key, const Shape& shape) const {
  const auto f = [&](const Shape& all, Dtype, T m, T k) {
    return remainder(m + von_mises(key, 0, k, all) + pi, 2 * pi) - pi;
  };
  return draw(key, shape, f, location, concentration);
}
Support VonMises::support() const { return Support::circle(); }
Tensor VonMises::mean() const { return moment_of(location_of, location, concentration); }
Tensor VonMises::variance() const {
  return moment_of([](T, T k) { return 1 - bessel_i1e(k) / bessel_i0e(k); }, location, concentration);
}
Tensor VonMises::entropy() const {
  const auto f = [](T, T k) {
    const Tensor i0 = bessel_i0e(k);
    return k * (1 - bessel_i1e(k) / i0) + log(i0) + 2 * log_root_2_pi;
  };
  return moment_of(f, location, concentration);
}

}  // namespace stave
