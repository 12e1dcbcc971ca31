#include <stave/handlers/inference/draws.h>

#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/layout.h>
#include <stave/core/tensor/fail.h>
#include <stave/handlers/transforms/custom.h>

namespace stave_detail {
namespace {

using T = const Tensor&;

// Returns log(1 - u) for a uniform u; it is finite.
Tensor log_uniform(const Key& key, const Shape& shape, Dtype dtype) { return log1p(-uniform(key, shape, dtype)); }

// Draws by Marsaglia and Tsang, "A simple method for generating gamma variables", 2000. For a >= 1
// a round accepts with a probability of at least 0.95. All twelve rounds fail for one element in
// 10^15, which then gets the value d, near the mode. For a < 1, the draw is one for a + 1,
// multiplied by u^(1/a).
Tensor draw_log_gamma(const Key& key, T concentration, const Shape& shape) {
  constexpr int rounds = 12;
  const Dtype dtype = concentration.dtype();
  const Tensor a = broadcast_to(concentration, shape), small = a < 1, raised = where(small, a + 1, a);
  const Tensor d = raised - 1. / 3, c = 1 / sqrt(9 * d);
  Tensor v = ones(shape, dtype, a.device()), found = a != a;
  for (std::uint32_t round = 0; round < rounds; ++round) {
    const auto [first, second] = split(fold_in(key, round));
    const Tensor x = normal(first, shape, dtype), root = 1 + c * x, positive = root > 0;
    const Tensor cube = where(positive, root * root * root, 1);
    const Tensor accepted = positive && log_uniform(second, shape, dtype) < square(x) / 2 + d * (1 - cube + log(cube));
    v = where(accepted && !found, cube, v);
    found = found || accepted;
  }
  const Tensor boost = where(small, log_uniform(fold_in(key, rounds), shape, dtype) / a, 0);
  return log(d) + log(v) + boost;
}

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

}  // namespace

Tensor log_standard_gamma(const Key& key, const Tensor& concentration, const Shape& shape) {
  const auto drawn = [key, shape](T a) { return draw_log_gamma(key, a, shape); };
  return custom_jvp(drawn, [](T, T) -> std::pair<Tensor, Tensor> {
    fail<TransformError>(
        "sample: a draw of a gamma distribution has no derivative with respect to its concentration: pass "
        "stop_gradient(concentration), or differentiate log_prob");
  })(concentration);
}

Tensor standard_gamma(const Key& key, const Tensor& concentration, const Shape& shape) {
  return exp(log_standard_gamma(key, concentration, shape));
}

Tensor poisson(const Key& key, const Tensor& rate, const Shape& shape) {
  // The draws are integers, and have no derivative with respect to the rate.
  const Tensor wide = broadcast_to(astype(stop_gradient(rate), float64), shape), small = wide < 10;
  const auto [first, second] = split(key);
  const Tensor few = poisson_by_inversion(first, where(small, wide, 1));
  return astype(where(small, few, poisson_by_rejection(second, where(small, 10, wide))), int32);
}

}  // namespace stave_detail
