// Random draws of integers, by rejection and by inversion.
#include <cmath>
#include <limits>

#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/layout.h>
#include <stave/handlers/inference/draws.h>

namespace stave_detail {
namespace {

using T = const Tensor&;

// Returns the parameter in float64, broadcast. Draws are integers, and have no derivative with
// respect to their parameters.
Tensor wide(T parameter, const Shape& shape) { return broadcast_to(astype(stop_gradient(parameter), float64), shape); }
// Returns uniform numbers in (0, 1].
Tensor above_zero(const Key& key, const Shape& shape) { return 1 - uniform(key, shape, float64); }

// The first accepted value of each element.
struct Accepted {
  Tensor value, found;
  explicit Accepted(T otherwise) : value(otherwise), found(otherwise != otherwise) {}
  void offer(T drawn, T accepted) {
    value = where(accepted && !found, drawn, value);
    found = found || accepted;
  }
};

// Draws by Hormann, "The transformed rejection method for generating Poisson random variables",
// 1993 (PTRS), for rates of at least 10. A round accepts with a probability of at least 0.7.
// All 30 rounds fail for one element in 10^15, which then gets the rate, rounded down.
Tensor poisson_by_rejection(const Key& key, T rate) {
  constexpr int rounds = 30;
  const Tensor b = 0.931 + 2.53 * sqrt(rate), a = -0.059 + 0.02483 * b, v_r = 0.9277 - 3.6224 / (b - 2);
  const Tensor log_inverse_alpha = log(1.1239 + 1.1328 / (b - 3.4)), log_rate = log(rate);
  Tensor k = floor(rate), found = rate != rate;
  for (std::uint32_t round = 0; round < rounds; ++round) {
    const auto [first, second] = split(fold_in(key, round));
    const Tensor u = uniform(first, rate.shape(), -0.5, 0.5, float64), v = 1 - uniform(second, rate.shape(), float64);
    const Tensor u_s = 0.5 - abs(u), drawn = floor((2 * a / u_s + b) * u + rate + 0.43);
    const Tensor possible = u_s > 0 && drawn >= 0, n = where(possible, drawn, 0);
    const Tensor quickly = u_s >= 0.07 && v <= v_r, hopeless = u_s < 0.013 && v > u_s;
    const Tensor log_ratio = log(v) + log_inverse_alpha - log(a / square(u_s) + b);
    const Tensor accepted = possible && (quickly || (!hopeless && log_ratio <= n * log_rate - rate - lgamma(n + 1)));
    k = where(accepted && !found, n, k);
    found = found || accepted;
  }
  return k;
}

// Draws by inversion: a draw is the number of partial sums of the probabilities that are at most a
// uniform number. 64 terms suffice, because for rates below 10 the later terms sum to 10^-28.
Tensor poisson_by_inversion(const Key& key, T rate) {
  const Tensor u = uniform(key, rate.shape(), float64);
  Tensor probability = exp(-rate), total = probability, k = zeros_like(rate);
  for (int n = 1; n <= 64; ++n) {
    k = k + astype(u >= total, float64);
    probability = probability * rate / n;
    total = total + probability;
  }
  return k;
}

// Returns the logarithm of the binomial coefficient (n over k).
Tensor log_choose(T n, T k) { return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1); }

// Draws by Hormann, "The generation of binomial random variates", 1993 (BTRS), for p <= 1/2 and n p
// >= 10. A round accepts with a probability of at least 0.68. All 32 rounds fail for one element in
// 10^15, which then gets the mode.
Tensor binomial_by_rejection(const Key& key, T n, T p) {
  constexpr int rounds = 32;
  const Tensor deviation = sqrt(n * p * (1 - p)), b = 1.15 + 2.53 * deviation, a = -0.0873 + 0.0248 * b + 0.01 * p;
  const Tensor v_r = 0.92 - 4.2 / b, alpha = (2.83 + 5.1 / b) * deviation, mode = floor((n + 1) * p);
  const Tensor log_odds = log(p) - log1p(-p), at_mode = log_choose(n, mode);
  Accepted accepted(mode);
  for (std::uint32_t round = 0; round < rounds; ++round) {
    const auto [first, second] = split(fold_in(key, round));
    const Tensor u = uniform(first, n.shape(), -0.5, 0.5, float64), v = above_zero(second, n.shape());
    const Tensor u_s = 0.5 - abs(u), drawn = floor((2 * a / u_s + b) * u + n * p + 0.5);
    const Tensor possible = u_s > 0 && drawn >= 0 && drawn <= n, k = where(possible, drawn, mode);
    const Tensor log_ratio = log(v * alpha / (a / square(u_s) + b));
    const Tensor slowly = log_ratio <= log_choose(n, k) - at_mode + (k - mode) * log_odds;
    accepted.offer(k, possible && ((u_s >= 0.07 && v <= v_r) || slowly));
  }
  return accepted.value;
}

// Draws by inversion for p <= 1/2 and n p < 10, as poisson_by_inversion does: the terms beyond the
// 64th sum to less than those of the Poisson distribution of the same mean.
Tensor binomial_by_inversion(const Key& key, T n, T p) {
  const Tensor u = uniform(key, n.shape(), float64), odds = p / (1 - p);
  Tensor probability = exp(n * log1p(-p)), total = probability, k = zeros_like(n);
  for (int i = 0; i < 64; ++i) {
    k = k + astype(u >= total, float64);
    probability = probability * odds * maximum(n - i, 0) / (i + 1);
    total = total + probability;
  }
  return minimum(k, n);
}

}  // namespace

Tensor draw_poisson(const Key& key, const Tensor& rate, const Shape& shape) {
  const Tensor r = wide(rate, shape), small = r < 10;
  const auto [first, second] = split(key);
  const Tensor few = poisson_by_inversion(first, where(small, r, 1));
  return astype(where(small, few, poisson_by_rejection(second, where(small, 10, r))), int32);
}

Tensor draw_binomial(const Key& key, const Tensor& count, const Tensor& logits, const Shape& shape) {
  const Tensor n = wide(count, shape), l = wide(logits, shape), p = sigmoid(-abs(l)), small = n * p < 10;
  const auto [first, second] = split(key);
  const Tensor few = binomial_by_inversion(first, where(small, n, 1), where(small, p, 0.5));
  const Tensor many = binomial_by_rejection(second, where(small, 20, n), where(small, 0.5, p));
  const Tensor drawn = where(small, few, many);
  return astype(where(l > 0, n - drawn, drawn), int32);
}

// Draws by Stadlober, "The ratio of uniforms approach for generating discrete random variates",
// 1990 (HRUA), as NumPy does. A round accepts with a probability of at least 0.55. All 48 rounds
// fail for one element in 10^16, which then gets the mode.
Tensor draw_hypergeometric(const Key& key, const Tensor& good, const Tensor& bad, const Tensor& draws,
                           const Shape& shape) {
  constexpr int rounds = 48;
  // d1 = 2 sqrt(2 / e), d2 = 3 - 2 sqrt(3 / e)
  constexpr double d1 = 1.7155277699214135, d2 = 0.8989161620588988;
  const Tensor g = wide(good, shape), all = g + wide(bad, shape), drawn = wide(draws, shape);
  const Tensor less = minimum(g, all - g), more = all - less, m = minimum(drawn, all - drawn);
  const Tensor share = less / maximum(all, 1), middle = m * share + 0.5;
  const Tensor deviation = sqrt((all - m) * drawn * share * (1 - share) / maximum(all - 1, 1) + 0.5);
  const Tensor width = d1 * deviation + d2, mode = floor((m + 1) * (less + 1) / (all + 2));
  const auto terms = [&](T k) {
    return lgamma(k + 1) + lgamma(less - k + 1) + lgamma(m - k + 1) + lgamma(more - m + k + 1);
  };
  const Tensor at_mode = terms(mode), most = minimum(m, less);
  Accepted accepted(mode);
  for (std::uint32_t round = 0; round < rounds; ++round) {
    const auto [first, second] = split(fold_in(key, round));
    const Tensor u = above_zero(first, shape), v = uniform(second, shape, float64);
    const Tensor at = floor(middle + width * (v - 0.5) / u), possible = at >= 0 && at <= most;
    const Tensor k = where(possible, at, mode);
    accepted.offer(k, possible && 2 * log(u) <= at_mode - terms(k));
  }
  // k counts the rarer kind among the smaller one of the two parts.
  const Tensor of_good = where(g > all - g, m - accepted.value, accepted.value);
  return astype(where(m < drawn, g - of_good, of_good), int32);
}

// Draws by Devroye, Non-Uniform Random Variate Generation, 1986, chapter X.6. A round accepts with
// a probability of at least 1/2. All 50 rounds fail for one element in 10^15, which then gets 1.
Tensor draw_zipf(const Key& key, const Tensor& exponent, const Shape& shape) {
  constexpr int rounds = 50;
  const Tensor less = wide(exponent, shape) - 1, b = exp2(less);
  Accepted accepted(ones(shape, float64, less.device()));
  for (std::uint32_t round = 0; round < rounds; ++round) {
    const auto [first, second] = split(fold_in(key, round));
    const Tensor x = floor(pow(above_zero(first, shape), -1 / less)), v = uniform(second, shape, float64);
    const Tensor t = pow(1 + 1 / x, less);
    accepted.offer(x, isfinite(x) && v * x * (t - 1) / (b - 1) <= t / b);
  }
  return astype(accepted.value, int32);
}

}  // namespace stave_detail
