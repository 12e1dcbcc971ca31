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
Tensor in_float64(T parameter, const Shape& shape) {
  return broadcast_to(astype(stop_gradient(parameter), float64), shape);
}
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

// Returns the logarithm of the binomial coefficient "n choose k".
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
    const Tensor is_possible = u_s > 0 && drawn >= 0 && drawn <= n, k = where(is_possible, drawn, mode);
    const Tensor log_ratio = log(v * alpha / (a / square(u_s) + b));
    const Tensor passes_exact_test = log_ratio <= log_choose(n, k) - at_mode + (k - mode) * log_odds;
    accepted.offer(k, is_possible && ((u_s >= 0.07 && v <= v_r) || passes_exact_test));
  }
  return accepted.value;
}

// Draws by inversion for p <= 1/2 and n p < 10: a draw is the number of partial sums of the
// probabilities that are at most a uniform number. 64 terms suffice, because the later ones sum to
// less than those of the Poisson distribution of the same mean, which is 10^-28.
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

Tensor draw_binomial(const Key& key, const Tensor& count, const Tensor& logits, const Shape& shape) {
  const Tensor n = in_float64(count, shape), l = in_float64(logits, shape), p = sigmoid(-abs(l)), is_small = n * p < 10;
  const auto [first, second] = split(key);
  const Tensor by_inversion = binomial_by_inversion(first, where(is_small, n, 1), where(is_small, p, 0.5));
  const Tensor by_rejection = binomial_by_rejection(second, where(is_small, 20, n), where(is_small, 0.5, p));
  const Tensor drawn = where(is_small, by_inversion, by_rejection);
  return astype(where(l > 0, n - drawn, drawn), int32);
}

// Draws by Devroye, Non-Uniform Random Variate Generation, 1986, chapter X.6. A round accepts with
// a probability of at least 1/2. All 50 rounds fail for one element in 10^15, which then gets 1.
Tensor draw_zipf(const Key& key, const Tensor& exponent, const Shape& shape) {
  constexpr int rounds = 50;
  const Tensor less = in_float64(exponent, shape) - 1, b = exp2(less);
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
