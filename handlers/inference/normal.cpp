// Normal distributions, and distributions that are functions of them.
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
constexpr double root_2 = std::numbers::sqrt2, root_half = root_2 / 2;
const double root_2_over_pi = std::sqrt(2 / std::numbers::pi);

Tensor normal_density(T x, T m, T s) { return -square((x - m) / s) / 2 - log(s) - log_root_2_pi; }
Tensor normal_cdf(T x, T m, T s) { return erfc((m - x) / s * root_half) / 2; }
Tensor normal_sf(T x, T m, T s) { return erfc((x - m) / s * root_half) / 2; }

}  // namespace

// ---- Normal ------------------------------------------------------------------------------

Tensor Normal::log_prob(T x) const { return function_of(x, normal_density, location, scale); }
Tensor Normal::sample(const Key& key, const Shape& shape) const {
  const auto f = [&](const Shape& all, Dtype dtype, T m, T s) { return m + s * normal(key, all, dtype); };
  return draw(key, shape, f, location, scale);
}
Support Normal::support() const { return Support::real(); }
Tensor Normal::cdf(T x) const { return function_of(x, normal_cdf, location, scale); }
Tensor Normal::sf(T x) const { return function_of(x, normal_sf, location, scale); }
Tensor Normal::log_cdf(T x) const {
  return function_of(
      x, [](T y, T m, T s) { return log_ndtr((y - m) / s); }, location, scale);
}
Tensor Normal::quantile(T p) const {
  return function_of(
      p, [](T q, T m, T s) { return m + s * ndtri(q); }, location, scale);
}
Tensor Normal::mean() const {
  return moment_of([](T m, T) { return m; }, location, scale);
}
Tensor Normal::variance() const {
  return moment_of([](T, T s) { return square(s); }, location, scale);
}
Tensor Normal::entropy() const {
  return moment_of([](T, T s) { return log(s) + (0.5 + log_root_2_pi); }, location, scale);
}

// ---- HalfNormal --------------------------------------------------------------------------

namespace {
Tensor half_normal_cdf(T x, T s) {
  return from_low(x, 0, 1, 0, [&](T y) { return erf(y / s * root_half); });
}
Tensor half_normal_sf(T x, T s) {
  return from_low(x, 0, 1, 1, [&](T y) { return erfc(y / s * root_half); });
}
}  // namespace

Tensor HalfNormal::log_prob(T x) const {
  const auto f = [](T y, T s) {
    return where_inside(y >= 0, normal_density(y, number_like(0, y), s) + std::numbers::ln2);
  };
  return function_of(x, f, scale);
}
Tensor HalfNormal::sample(const Key& key, const Shape& shape) const { return abs(Normal{0, scale}.sample(key, shape)); }
Support HalfNormal::support() const { return Support::positive(); }
STAVE_DEFINE_PROBABILITIES(HalfNormal, half_normal_cdf, half_normal_sf, scale)
Tensor HalfNormal::quantile(T p) const {
  return function_of(
      p, [](T q, T s) { return s * root_2 * erfinv(where(q >= 0, q, std::nan(""))); }, scale);
}
Tensor HalfNormal::mean() const {
  return moment_of([](T s) { return s * root_2_over_pi; }, scale);
}
Tensor HalfNormal::variance() const {
  return moment_of([](T s) { return square(s) * (1 - 2 / std::numbers::pi); }, scale);
}
Tensor HalfNormal::entropy() const {
  return moment_of([](T s) { return log(s) + (0.5 + log_root_2_pi - std::numbers::ln2); }, scale);
}

// ---- LogNormal ---------------------------------------------------------------------------

namespace {
Tensor log_normal_cdf(T x, T m, T s) {
  return from_low(x, 0, 1, 0, [&](T y) { return normal_cdf(log(y), m, s); });
}
Tensor log_normal_sf(T x, T m, T s) {
  return from_low(x, 0, 1, 1, [&](T y) { return normal_sf(log(y), m, s); });
}
}  // namespace

Tensor LogNormal::log_prob(T x) const {
  const auto f = [](T y, T m, T s) {
    const Tensor inside = y > 0, logarithm = log(where(inside, y, 1));
    return where_inside(inside, normal_density(logarithm, m, s) - logarithm);
  };
  return function_of(x, f, location, scale);
}
Tensor LogNormal::sample(const Key& key, const Shape& shape) const {
  return exp(Normal{location, scale}.sample(key, shape));
}
Support LogNormal::support() const { return Support::positive(); }
Tensor LogNormal::cdf(T x) const { return function_of(x, log_normal_cdf, location, scale); }
Tensor LogNormal::sf(T x) const { return function_of(x, log_normal_sf, location, scale); }
Tensor LogNormal::log_cdf(T x) const {
  const auto f = [](T y, T m, T s) {
    return from_low(y, 0, 1, -infinity, [&](T z) { return log_ndtr((log(z) - m) / s); });
  };
  return function_of(x, f, location, scale);
}
Tensor LogNormal::quantile(T p) const {
  return function_of(
      p, [](T q, T m, T s) { return exp(m + s * ndtri(q)); }, location, scale);
}
Tensor LogNormal::mean() const {
  return moment_of([](T m, T s) { return exp(m + square(s) / 2); }, location, scale);
}
Tensor LogNormal::variance() const {
  return moment_of([](T m, T s) { return expm1(square(s)) * exp(2 * m + square(s)); }, location, scale);
}
Tensor LogNormal::entropy() const {
  return moment_of([](T m, T s) { return m + log(s) + (0.5 + log_root_2_pi); }, location, scale);
}

// ---- TruncatedNormal ---------------------------------------------------------------------

namespace {

// Returns log(cdf(b) - cdf(a)) of the standard normal distribution, for a <= b. An interval above 0
// is mirrored, because differences near 1 lose digits.
Tensor log_normal_interval(T a, T b) {
  const Tensor mirrored = a > 0, low = where(mirrored, -b, a), high = where(mirrored, -a, b);
  const Tensor log_high = log_ndtr(high), ratio = log_ndtr(low) - log_high;
  return log_high + log1m_exp(where(low == high, -infinity, ratio)) + where(low == high, -infinity, 0);
}
// Returns x phi(x), which is 0 at infinity.
Tensor times_density(T x) {
  const Tensor finite = isfinite(x), y = where(finite, x, 0);
  return where(finite, y * exp(-square(y) / 2 - log_root_2_pi), 0);
}

// The standardised bounds of a truncated distribution, and the logarithm of the mass within.
struct StandardBounds {
  Tensor low, high, log_mass;
  StandardBounds(T m, T s, T l, T h) : low((l - m) / s), high((h - m) / s), log_mass(log_normal_interval(low, high)) {}
  // Returns the density at an end in relation to the mass.
  Tensor density(T end) const { return exp(-square(end) / 2 - log_root_2_pi - log_mass); }
};

// The logarithms of cdf and sf. The larger probability follows from the smaller one.
struct TruncatedLogs {
  Tensor cdf, sf;
  TruncatedLogs(T x, T m, T s, T l, T h) {
    const StandardBounds bounds(m, s, l, h);
    const Tensor z = clip((x - m) / s, bounds.low, bounds.high);
    const Tensor lower = log_normal_interval(bounds.low, z) - bounds.log_mass;
    const Tensor upper = log_normal_interval(z, bounds.high) - bounds.log_mass;
    cdf = where(lower < upper, lower, log1m_exp(minimum(upper, 0)));
    sf = where(lower < upper, log1m_exp(minimum(lower, 0)), upper);
  }
};
Tensor truncated_log_cdf(T x, T m, T s, T l, T h) { return TruncatedLogs(x, m, s, l, h).cdf; }
Tensor truncated_cdf(T x, T m, T s, T l, T h) { return exp(TruncatedLogs(x, m, s, l, h).cdf); }
Tensor truncated_sf(T x, T m, T s, T l, T h) { return exp(TruncatedLogs(x, m, s, l, h).sf); }
// The smaller one of cdf and sf gives the quantile, because differences near 1 lose digits.
Tensor truncated_quantile(T q, T m, T s, T l, T h) {
  const Tensor low = (l - m) / s * root_half, high = (h - m) / s * root_half;
  const Tensor cdf = erfc(-low) / 2 + q * ((erfc(-high) - erfc(-low)) / 2);
  const Tensor sf = erfc(high) / 2 + (1 - q) * ((erfc(low) - erfc(high)) / 2), left = cdf < sf;
  const Tensor z = ndtri(where(left, cdf, sf)), x = m + s * where(left, z, -z);
  return where(q >= 0 && q <= 1, minimum(maximum(x, l), h), std::nan(""));
}

}  // namespace

Tensor TruncatedNormal::log_prob(T x) const {
  const auto f = [](T y, T m, T s, T l, T h) {
    return where_inside(y >= l && y <= h, normal_density(y, m, s) - StandardBounds(m, s, l, h).log_mass);
  };
  return function_of(x, f, location, scale, low, high);
}
Tensor TruncatedNormal::sample(const Key& key, const Shape& shape) const {
  const auto f = [&](const Shape& all, Dtype dtype, T m, T s, T l, T h) {
    return truncated_quantile(uniform(key, all, dtype), m, s, l, h);
  };
  return draw(key, shape, f, location, scale, low, high);
}
Support TruncatedNormal::support() const { return Support::interval(low, high); }
Tensor TruncatedNormal::log_cdf(T x) const { return function_of(x, truncated_log_cdf, location, scale, low, high); }
Tensor TruncatedNormal::cdf(T x) const { return function_of(x, truncated_cdf, location, scale, low, high); }
Tensor TruncatedNormal::sf(T x) const { return function_of(x, truncated_sf, location, scale, low, high); }
Tensor TruncatedNormal::quantile(T p) const { return function_of(p, truncated_quantile, location, scale, low, high); }
Tensor TruncatedNormal::mean() const {
  const auto f = [](T m, T s, T l, T h) {
    const StandardBounds bounds(m, s, l, h);
    return m + s * (bounds.density(bounds.low) - bounds.density(bounds.high));
  };
  return moment_of(f, location, scale, low, high);
}
Tensor TruncatedNormal::variance() const {
  const auto f = [](T m, T s, T l, T h) {
    const StandardBounds bounds(m, s, l, h);
    const Tensor first = bounds.density(bounds.low) - bounds.density(bounds.high);
    const Tensor ends = (times_density(bounds.low) - times_density(bounds.high)) / exp(bounds.log_mass);
    return square(s) * (1 + ends - square(first));
  };
  return moment_of(f, location, scale, low, high);
}
Tensor TruncatedNormal::entropy() const {
  const auto f = [](T m, T s, T l, T h) {
    const StandardBounds bounds(m, s, l, h);
    const Tensor ends = (times_density(bounds.low) - times_density(bounds.high)) / exp(bounds.log_mass);
    return log(s) + (0.5 + log_root_2_pi) + bounds.log_mass + ends / 2;
  };
  return moment_of(f, location, scale, low, high);
}

// ---- GeneralizedNormal -------------------------------------------------------------------

Tensor GeneralizedNormal::log_prob(T x) const {
  const auto f = [](T y, T b, T m, T s) {
    return log(b) - std::numbers::ln2 - log(s) - lgamma(1 / b) - pow(abs((y - m) / s), b);
  };
  return function_of(x, f, shape, location, scale);
}
// |z|^shape is of Gamma(1 / shape, 1).
Tensor GeneralizedNormal::sample(const Key& key, const Shape& shape_) const {
  const auto f = [&](const Shape& all, Dtype, T b, T m, T s) {
    const auto [first, second] = split(key);
    const Tensor size = exp(loggamma(first, 1 / b, all) / b);
    return m + s * where(bernoulli(second, 0.5, all), size, -size);
  };
  return draw(key, shape_, f, shape, location, scale);
}
Support GeneralizedNormal::support() const { return Support::real(); }
Tensor GeneralizedNormal::mean() const {
  return moment_of([](T, T m, T) { return m; }, shape, location, scale);
}
Tensor GeneralizedNormal::variance() const {
  const auto f = [](T b, T, T s) { return square(s) * exp(lgamma(3 / b) - lgamma(1 / b)); };
  return moment_of(f, shape, location, scale);
}
Tensor GeneralizedNormal::entropy() const {
  const auto f = [](T b, T, T s) { return 1 / b - log(b) + std::numbers::ln2 + log(s) + lgamma(1 / b); };
  return moment_of(f, shape, location, scale);
}

}  // namespace stave
