// Inverses of the cdfs that have none in closed form.
#include <cmath>

#include <stave/core/ops/special.h>
#include <stave/handlers/inference/parameters.h>
#include <stave/handlers/transforms/custom.h>
#include <stave/handlers/transforms/jvp.h>

namespace stave_detail {

namespace {

using T = const Tensor&;
// exp(log_least) is the least positive number of float64.
constexpr double log_least = -745;

// Returns the u in [-745, 745] at which the ascending function `cdf` is p and the descending
// function `sf` is q = 1 - p, by bisection: 62 steps reach the precision of float64. The smaller
// one of p and q is compared, because differences near 1 lose digits. The result is -infinity for p
// = 0, infinity for q = 0 and NaN for a p outside of [0, 1].
template <class Cdf, class Sf>
Tensor bisect(Cdf cdf, Sf sf, T p, T q) {
  Tensor low = full_like(p, log_least), high = full_like(p, -log_least);
  const Tensor lower = p < q;
  for (int step = 0; step < 62; ++step) {
    const Tensor middle = (low + high) / 2, less = where(lower, cdf(middle) < p, sf(middle) > q);
    low = where(less, middle, low);
    high = where(less, high, middle);
  }
  const Tensor valid = p >= 0 && q >= 0, ends = where(p == 0, -infinity, infinity);
  return where(valid, where(p == 0 || q == 0, ends, (low + high) / 2), std::nan(""));
}

Tensor beta_cdf_of_logit(T a, T b, T u) {
  const Tensor left = u < 0;
  return where(left, betainc(a, b, sigmoid(where(left, u, 0))), 1 - betainc(b, a, sigmoid(-where(left, 0, u))));
}

// The inverse x(a, p) of a cdf F(a, x) has the derivative dx = (dp - dF/da da) / (dF/dx). dp is
// that of the smaller one of p and q = 1 - p, on which the value depends.
Tensor tangent_of_p(T p, T q, T dp, T dq) { return where(p < q, dp, -dq); }

Tensor gamma_in_float64(T a, T p, T q) {
  const auto solve = [](T c, T lower, T upper) {
    const auto cdf = [&](T u) { return gammainc(c, exp(u)); };
    return bisect(
        cdf, [&](T u) { return gammaincc(c, exp(u)); }, lower, upper);
  };
  return custom_jvp(solve, [](T c, T lower, T upper, T dc, T dlower, T dupper) {
    const Tensor u = gamma_in_float64(c, lower, upper), x = exp(u);
    const Tensor by_c = jvp([&](T v) { return gammainc(v, x); }, c, dc).second;
    return std::pair(u, (tangent_of_p(lower, upper, dlower, dupper) - by_c) / exp(c * u - x - lgamma(c)));
  })(a, p, q);
}

Tensor beta_in_float64(T a, T b, T p, T q) {
  const auto solve = [](T c, T d, T lower, T upper) {
    const auto cdf = [&](T u) { return beta_cdf_of_logit(c, d, u); };
    return bisect(
        cdf, [&](T u) { return beta_cdf_of_logit(d, c, -u); }, lower, upper);
  };
  return custom_jvp(solve, [](T c, T d, T lower, T upper, T dc, T dd, T dlower, T dupper) {
    const Tensor u = beta_in_float64(c, d, lower, upper);
    const Tensor by_c = jvp([&](T v) { return beta_cdf_of_logit(v, d, u); }, c, dc).second;
    const Tensor by_d = jvp([&](T v) { return beta_cdf_of_logit(c, v, u); }, d, dd).second;
    const Tensor slope = exp(c * log_sigmoid(u) + d * log_sigmoid(-u) - betaln(c, d));
    return std::pair(u, (tangent_of_p(lower, upper, dlower, dupper) - by_c - by_d) / slope);
  })(a, b, p, q);
}

// The tail of t is half of betainc(n / 2, 1 / 2, x) with logit(x) = log(n / t^2).
Tensor student_in_float64(T degrees, T p) {
  const auto solve = [](T n, T q) {
    const Tensor half = full_like(n, 0.5), left = q < 0.5, both = 2 * where(left, q, 1 - q);
    const Tensor u = beta_in_float64(n / 2, half, both, 1 - both);
    return where(left, -1, 1) * sqrt(n) * exp(-u / 2);
  };
  return custom_jvp(solve, [](T n, T q, T dn, T dq) {
    const Tensor t = student_in_float64(n, q);
    const Tensor by_n = jvp([&](T v) { return student_cdf(t, v); }, n, dn).second;
    return std::pair(t, (dq - by_n) / exp(student_log_density(t, n)));
  })(degrees, p);
}

// Applies f in float64 to operands that are broadcast to one shape.
template <class F, std::same_as<Tensor>... X>
Tensor in_float64(F f, const X&... xs) {
  const Dtype dtype = common_float(xs...);
  Shape shape;
  ((shape = broadcast_shapes(shape, xs.shape(), "quantile")), ...);
  return astype(f(broadcast_to(astype(xs, float64), shape)...), dtype);
}

}  // namespace

Tensor log_gamma_quantile(T a, T p, T q) { return in_float64(gamma_in_float64, a, p, q); }
Tensor logit_beta_quantile(T a, T b, T p, T q) { return in_float64(beta_in_float64, a, b, p, q); }
Tensor student_quantile(T degrees, T p) { return in_float64(student_in_float64, degrees, p); }

Tensor log1m_exp(T x) {
  const Tensor is_near_zero = x > -std::numbers::ln2;
  return where(is_near_zero, log(-expm1(where(is_near_zero, x, -1))), log1p(-exp(where(is_near_zero, -1, x))));
}

Tensor student_log_density(T t, T n) {
  return lgamma((n + 1) / 2) - lgamma(n / 2) - log(n * std::numbers::pi) / 2 - (n + 1) / 2 * log1p(square(t) / n);
}

// Near 0 the cdf is 1/2 plus the integral of the series of the density, c (1 - (n + 1) / (2 n) t^2
// + (n + 1) (n + 3) / (8 n^2) t^4 - ...), because the functions of t^2 below have no derivatives
// with respect to t there. Up to t^2 = 4, the cdf is computed by the integral from 0 to t, beyond
// it by the tail.
Tensor student_cdf(T t, T n) {
  const Tensor square_t = square(t), is_near_zero = square_t < 1e-5 * minimum(n, 1);
  const Tensor density = exp(student_log_density(number_like(0, t), n)), s = square_t / n;
  const Tensor series = 0.5 + density * t * (1 - (n + 1) / 6 * s * (1 - (n + 3) * 3 / 20 * s));
  const Tensor far = where(is_near_zero, 1, square_t), left = t < 0, half = number_like(0.5, t);
  const Tensor middle = betainc(half, n / 2, far / (n + far)) / 2, tail = betainc(n / 2, half, n / (n + far)) / 2;
  const Tensor by_beta =
      where(far < 4, 0.5 + where(left, -1, 1) * middle, where(left, tail, where(isnan(t), t, 1 - tail)));
  return where(is_near_zero, series, by_beta);
}

}  // namespace stave_detail
