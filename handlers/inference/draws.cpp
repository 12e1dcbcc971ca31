#include <stave/handlers/inference/draws.h>

#include <numbers>

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

// Draws by Best and Fisher, "Efficient simulation of the von Mises distribution", 1979. A round
// accepts with a probability of at least 0.65. All 40 rounds fail for one element in 10^18, which
// then gets 0.
Tensor draw_angles(const Key& key, T concentration, const Shape& shape) {
  constexpr int rounds = 40;
  const Tensor k = broadcast_to(astype(concentration, float64), shape), small = k < 1e-5, safe = where(small, 1, k);
  const Tensor r = 1 + sqrt(1 + 4 * square(safe)), rho = (r - sqrt(2 * r)) / (2 * safe);
  const Tensor s = where(small, 1 / maximum(k, 1e-300), (1 + square(rho)) / (2 * rho));
  Tensor cosine = ones(shape, float64, k.device()), found = k != k;
  for (std::uint32_t round = 0; round < rounds; ++round) {
    const auto [first, second] = split(fold_in(key, round));
    const Tensor z = cos(std::numbers::pi * uniform(first, shape, float64)), w = (1 + s * z) / (s + z);
    const Tensor y = k * (s - w), v = 1 - uniform(second, shape, float64);
    const Tensor accepted = y * (2 - y) > v || log(y / v) + 1 - y >= 0;
    cosine = where(accepted && !found, w, cosine);
    found = found || accepted;
  }
  const Tensor angle = acos(clip(cosine, -1, 1));
  return astype(where(bernoulli(fold_in(key, rounds), 0.5, shape), angle, -angle), concentration.dtype());
}

// Returns `drawn`, a function of one parameter, with a derivative that throws TransformError.
template <class F>
auto without_derivative(F drawn, const char* distribution) {
  return custom_jvp(std::move(drawn), [distribution](T, T) -> std::pair<Tensor, Tensor> {
    fail<TransformError>(
        "sample: a draw of a {} distribution has no derivative with respect to its concentration: pass "
        "stop_gradient(concentration), or differentiate log_prob",
        distribution);
  });
}

}  // namespace

Tensor log_standard_gamma(const Key& key, const Tensor& concentration, const Shape& shape) {
  return without_derivative([key, shape](T a) { return draw_log_gamma(key, a, shape); }, "gamma")(concentration);
}

Tensor standard_gamma(const Key& key, const Tensor& concentration, const Shape& shape) {
  return exp(log_standard_gamma(key, concentration, shape));
}

Tensor draw_von_mises(const Key& key, const Tensor& concentration, const Shape& shape) {
  return without_derivative([key, shape](T k) { return draw_angles(key, k, shape); }, "von Mises")(concentration);
}

}  // namespace stave_detail
