// Entropies of Poisson, Binomial, NegativeBinomial, Multinomial, BetaBinomial and Hypergeometric.
//
// They are sums over all counts, which have no closed form. Where the distribution is wide, the
// entropy is an asymptotic series in the inverse of the variance. Elsewhere it is an integral: for
// a count K of generating function G(t) = E[e^(-t K)],
//   E[log K!] = integral of (E[K] e^-t - (1 - G(t)) / (e^t - 1)) / t over t > 0
// (DLMF 5.9.13), and G has a closed form. Parameters are batched, and both forms are smooth
// functions of them. All are computed in float64, to about 1e-13 of the entropy; derivatives are
// those of the same formulas. G of BetaBinomial and Hypergeometric has no closed form, and their
// entropies are computed as sums.
#include <algorithm>
#include <cmath>
#include <numbers>

#include <stave/core/ops/contract.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/reduce.h>
#include <stave/core/ops/softmax.h>
#include <stave/core/ops/special.h>
#include <stave/core/tensor/fail.h>
#include <stave/handlers/inference/discrete.h>
#include <stave/handlers/inference/multivariate.h>
#include <stave/handlers/inference/parameters.h>

namespace stave {

using namespace stave_detail;

namespace {

using T = const Tensor&;

// From this variance on, eight terms of the series are exact to 5e-15.
constexpr double least_wide_variance = 64;

// Returns log(2 pi e v) / 2 + sum_j P_j(w) / v^j for the variance v, where w / v = inverse_count.
// For Binomial, w = p (1 - p) and inverse_count = 1 / n. Its limit for w = 0 is Poisson. With n =
// -count, the same series is that of NegativeBinomial. The polynomials P_j follow from Stirling's
// series of the log of the probability, expanded around the mean, and the moments of the count.
Tensor entropy_of_wide(T variance, T inverse_count) {
  constexpr int terms = 8;
  constexpr double p[terms][terms + 1] = {
      {-1. / 12, 1. / 3},
      {-1. / 24, 1. / 6, -1. / 12},
      {-19. / 360, 17. / 60, -1. / 3, 1. / 90},
      {-9. / 80, 23. / 30, -22. / 15, 2. / 3, 1. / 120},
      {-863. / 2520, 715. / 252, -949. / 126, 41. / 6, -4. / 3, -1. / 210},
      {-1375. / 1008, 373. / 28, -3803. / 84, 3932. / 63, -181. / 6, 8. / 3, -1. / 252},
      {-33953. / 5040, 27289. / 360, -4712. / 15, 8761. / 15, -2352. / 5, 3871. / 30, -16. / 3, 1. / 210},
      {-57281. / 1440, 45617. / 90, -223093. / 90, 261626. / 45, -598937. / 90, 150302. / 45, -16229. / 30, 32. / 3,
       1. / 240}};
  const Tensor a = 1 / variance, b = inverse_count;
  Tensor series = zeros_like(a), power_of_a = ones_like(a);
  // Terms are p[j - 1][i] b^i a^(j - i): a polynomial in a for each power of b, from the highest.
  for (int i = terms; i >= 0; --i) {
    Tensor row = zeros_like(a);
    for (int j = terms; j >= (i > 0 ? i : 1); --j) row = row * a + p[j - 1][i];
    series = series * b + (i > 0 ? row : row * a);
  }
  return 0.5 * log(2 * std::numbers::pi * std::numbers::e * variance) + series;
}

// Returns the integral of f(t) / t over t > 0, for a function f that is analytic, of the order
// of t for t below `least`, and of e^(-t / most) for large t. `f` is given t with an axis of the
// points behind those of `least` and `most`. This is the trapezoidal rule in y, where t =
// exp(y - exp(y0 - y)) and e^y0 is below `least` (Takahasi and Mori, "Double exponential formulas
// for numerical integration", 1974).
template <class F>
Tensor integral(T least, T most, F f) {
  constexpr int points = 160;
  const Tensor middle = expand_dims(stop_gradient(log(least)), -1) - 2, from = middle - 3.7;
  const Tensor to = expand_dims(stop_gradient(log(most)), -1) + 3.7;
  const Tensor step = (to - from) / (points - 1);
  const Tensor y = from + step * arange(0, points, 1, float64, least.device());
  const Tensor left = exp(middle - y);
  return sum(f(exp(y - left)) * (1 + left) * step, -1);
}

// Returns the series of entropy_of_wide where `is_wide` is true, and otherwise `narrow`.
Tensor by_width(T is_wide, T variance, T inverse_count, T narrow) {
  return where(is_wide,
               entropy_of_wide(where(is_wide, variance, least_wide_variance), where(is_wide, inverse_count, 0)),
               narrow);
}

// The integrand has the rate v = rate (1 - e^-t) of a thinned Poisson count: each of the counted
// events is kept with the probability 1 - e^-t.
Tensor poisson_entropy(T r) {
  const Tensor is_wide = r >= least_wide_variance, rate = where(is_wide, 1, r), each = expand_dims(rate, -1);
  const Tensor rest = integral(1 / maximum(rate, 1), ones_like(rate), [&](T t) {
    const Tensor u = -expm1(-t), v = each * u;
    return exp(-t) * (v + expm1(-v)) / u;
  });
  return by_width(is_wide, r, zeros_like(r), rate - xlogy(rate, rate) + rest);
}

// With u = 1 - e^-t, p <= 1/2 and q = 1 - p, the integrand is e^-t / u times
//   (1 - p u)^n - 1 + (1 - q u)^n - e^(-n t),   where (1 - q u)^n = e^(-n t) (1 + p (e^t - 1))^n.
Tensor binomial_entropy(T count, T logits) {
  const Tensor l = where(logits > 0, -logits, logits), p = sigmoid(l), variance = count * p * sigmoid(-l);
  const Tensor is_wide = variance >= least_wide_variance, n = where(is_wide, 1, count), odds = where(is_wide, 0, l);
  const Tensor rare = sigmoid(odds), n_each = expand_dims(n, -1), p_each = expand_dims(rare, -1);
  const Tensor rest = integral(1 / maximum(n, 1), ones_like(n), [&](T t) {
    const Tensor u = -expm1(-t), nt = n_each * t, growth = n_each * log1p(p_each * expm1(t)), near = growth < 1;
    const Tensor first = expm1(n_each * log1p(-p_each * u));
    const Tensor second =
        where(near, exp(-nt) * expm1(where(near, growth, 0)), exp(where(near, -nt, growth - nt)) - exp(-nt));
    return exp(-t) / u * (first + second);
  });
  return by_width(is_wide, variance, 1 / where(count > 0, count, 1), n * (softplus(odds) - scale(rare, odds)) + rest);
}

// With u = 1 - e^-t and the odds o = e^logits, the integrand is
//   (1 - (1 + o u)^-n) (e^(-n t) - e^-t) / u.
Tensor negative_binomial_entropy(T count, T logits) {
  const Tensor all_odds = exp(logits), variance = count * all_odds * (1 + all_odds);
  const Tensor is_wide = variance >= least_wide_variance && count >= least_wide_variance;
  const Tensor n = where(is_wide, 1, count), l = where(is_wide, 0, logits), odds = exp(l);
  const Tensor n_each = expand_dims(n, -1), odds_each = expand_dims(odds, -1), few = n_each < 1;
  const Tensor below = where(few, n_each, 1), above = where(few, 1, n_each);
  const Tensor least = 1 / maximum(maximum(n, 1) * maximum(odds, 1), 1), most = 1 / minimum(n, 1);
  const Tensor rest = integral(least, most, [&](T t) {
    const Tensor u = -expm1(-t), hit = -expm1(-n_each * log1p(odds_each * u));
    const Tensor difference = where(few, -exp(-below * t) * expm1((below - 1) * t), exp(-t) * expm1((1 - above) * t));
    return hit * difference / u;
  });
  return by_width(is_wide, variance, -1 / where(count > 0, count, 1), n * (odds * softplus(-l) + softplus(l)) + rest);
}

// ---- Multinomial -------------------------------------------------------------------------

// Returns E[log K!] - (m log m - m) for K of Binomial, with mean m = count p: the series
//   log(2 pi m) / 2 + (1 - p) / 2 + sum_j Q_j(p) / m^j
// The polynomials Q_j follow from Stirling's series of log K!, expanded around the mean, and the
// moments of the count. From the mean `least_wide_variance` on, eight terms are exact to 2e-14.
Tensor factorial_of_wide(T mean, T p) {
  constexpr int terms = 8;
  constexpr double q[terms][terms + 1] = {
      {-1. / 12, 1. / 4, -1. / 12},
      {-1. / 24, 1. / 12, -1. / 24},
      {-19. / 360, 1. / 8, -1. / 12, 0, 1. / 120},
      {-9. / 80, 19. / 60, -7. / 24, 1. / 12, 1. / 240},
      {-863. / 2520, 9. / 8, -95. / 72, 5. / 8, -1. / 12, 0, -1. / 252},
      {-1375. / 1008, 863. / 168, -117. / 16, 19. / 4, -31. / 24, 1. / 12, -1. / 504},
      {-33953. / 5040, 1375. / 48, -863. / 18, 315. / 8, -5719. / 360, 21. / 8, -1. / 12, 0, 1. / 240},
      {-57281. / 1440, 33953. / 180, -26125. / 72, 4315. / 12, -15309. / 80, 3059. / 60, -127. / 24, 1. / 12,
       1. / 480}};
  Tensor series = zeros_like(mean);
  for (int j = terms; j >= 1; --j) {
    Tensor row = zeros_like(p);
    for (int i = terms; i >= 0; --i) row = row * p + q[j - 1][i];
    series = (series + row) / mean;
  }
  return 0.5 * (log(2 * std::numbers::pi * mean) + 1 - p) + series;
}

// Returns the same as factorial_of_wide, for all means. With u = 1 - e^-t, the integrand is
//   m e^-t - e^-t / u (1 - (1 - p u)^n)
Tensor factorial_of(T count, T log_p) {
  const Tensor p = exp(log_p), mean = count * p, wide = mean >= least_wide_variance;
  const Tensor n_each = expand_dims(count, -1), p_each = expand_dims(p, -1), mean_each = expand_dims(mean, -1);
  const Tensor expected = integral(1 / clip(mean, 1, least_wide_variance), ones_like(mean), [&](T t) {
    // p u is kept below 1, where the logarithm is infinite.
    const Tensor u = -expm1(-t), hit = minimum(p_each * u, 1 - 0x1p-53);
    return exp(-t) * (mean_each + expm1(n_each * log1p(-hit)) / u);
  });
  const Tensor log_mean = log(where(count > 0, count, 1)) + log_p;
  const Tensor narrow = expected - scale(mean, log_mean) + mean;
  return where(wide, factorial_of_wide(where(wide, mean, least_wide_variance), p), narrow);
}

// The entropy is -n sum_i p_i log p_i - log n! + sum_i E[log K_i!], where K_i is the count of class
// i. Its means m_i sum to n, so the differences m_i log m_i - m_i cancel all terms of order n.
Tensor multinomial_entropy(T count, T logits) {
  const Tensor n = expand_dims(count, -1), all = zeros_like(count);
  return sum(factorial_of(n, log_softmax(logits)), -1) - factorial_of(count, all);
}

// ---- sums --------------------------------------------------------------------------------

// Returns the sum of -p log p over the counts first ... last, where log_prob(k) is log p for counts
// k with one more axis after those of `first` and `last`. The length of that axis is read from the
// device.
template <class F>
Tensor entropy_by_sum(const char* what, T first, T last, F log_prob) {
  if (last.size() == 0) return zeros_like(last);
  const double steps = max(last - first).item<double>();
  if (!std::isfinite(steps))
    fail<Error>("{}::entropy: it is a sum over all counts, but the greatest count is {}", what, steps);
  const Tensor from = expand_dims(first, -1);
  const Tensor k = from + arange(0, std::max(steps, 0.) + 1, 1, float64, last.device());
  const Tensor inside = k <= expand_dims(last, -1), log_p = log_prob(where(inside, k, from));
  return -sum(where(inside, exp(log_p) * log_p, 0), -1);
}

Tensor column(T x) { return expand_dims(x, -1); }

Tensor beta_binomial_entropy(T count, T a, T b) {
  const Tensor n = stop_gradient(count);
  return entropy_by_sum("BetaBinomial", zeros_like(n), n, [&](T k) {
    return BetaBinomial{column(n), column(a), column(b)}.log_prob(k);
  });
}
Tensor hypergeometric_entropy(T good, T bad, T draws) {
  const Tensor g = stop_gradient(good), b = stop_gradient(bad), n = stop_gradient(draws);
  return entropy_by_sum("Hypergeometric", maximum(n - b, 0), minimum(n, g), [&](T k) {
    return Hypergeometric{column(g), column(b), column(n)}.log_prob(k);
  });
}

// Returns f(parameters...), computed in float64.
template <class F, std::same_as<NumberOrTensor>... P>
Tensor entropy_of(F f, const P&... parameters) {
  return moment_of([&](const auto&... p) { return f(astype(p, float64)...); }, parameters...);
}

}  // namespace

Tensor Poisson::entropy() const { return entropy_of(poisson_entropy, rate); }
Tensor Binomial::entropy() const { return entropy_of(binomial_entropy, count, logits); }
Tensor NegativeBinomial::entropy() const { return entropy_of(negative_binomial_entropy, count, logits); }
Tensor BetaBinomial::entropy() const { return entropy_of(beta_binomial_entropy, count, a, b); }
Tensor Hypergeometric::entropy() const { return entropy_of(hypergeometric_entropy, good, bad, draws); }
Tensor Multinomial::entropy() const {
  const Dtype dtype = common_float(count.tensor(), logits);
  return astype(multinomial_entropy(count.in(float64, logits.device()), astype(logits, float64)), dtype);
}

}  // namespace stave
