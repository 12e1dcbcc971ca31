#include <stave/handlers/inference/discrete.h>

#include <cmath>

#include <stave/core/ops/index.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/random_samplers.h>
#include <stave/core/ops/reduce.h>
#include <stave/core/ops/scan.h>
#include <stave/core/ops/softmax.h>
#include <stave/core/ops/special.h>
#include <stave/core/tensor/fail.h>
#include <stave/handlers/inference/draws.h>
#include <stave/handlers/inference/events.h>
#include <stave/handlers/inference/parameters.h>

namespace stave {

using namespace stave_detail;

namespace {

using T = const Tensor&;

// Returns f(x) for integers x >= low, else -infinity; f is computed at `low` elsewhere.
template <class F>
Tensor of_integers(T x, double low, F f) {
  const Tensor inside = x >= low && x == floor(x);
  return where_inside(inside, f(where(inside, x, low)));
}
// Returns f(x) for integers 0 <= x <= n, else -infinity.
template <class F>
Tensor of_counts(T x, T n, F f) {
  const Tensor inside = x >= 0 && x <= n && x == floor(x);
  return where_inside(inside, f(where(inside, x, 0)));
}
// Returns the logarithm of the binomial coefficient "n choose k". The beta function is accurate for
// a large n.
Tensor log_choose(T n, T k) { return -log1p(n) - betaln(n - k + 1, k + 1); }

// ---- quantiles ---------------------------------------------------------------------------

// Returns the least integer k with cdf(k) >= q, given integers low and high with cdf(low) < q <=
// cdf(high) and high - low <= 2^steps.
template <class Cdf>
Tensor bisect_counts(T q, Tensor low, Tensor high, int steps, Cdf cdf) {
  for (int step = 0; step < steps; ++step) {
    const Tensor middle = floor((low + high) / 2), less = cdf(middle) < q;
    low = where(less, middle, low);
    high = where(less, high, middle);
  }
  return high;
}
// The same for counts in 0 ... most whose cumulants k_2, k_3, ... are at most k_m = variance m! / 2
// tail^(m - 2). Then a count differs from the mean by more than sqrt(2 variance L) + tail L with a
// probability of at most e^-L (Boucheron, Lugosi and Massart, Concentration Inequalities, 2013,
// section 2.4), which gives the interval. The bounds have a distance of 2 for rounding errors.
template <class Cdf>
Tensor quantile_near(T q, T mean, T variance, T tail, const Operand& most, int steps, Cdf cdf) {
  const auto distance = [&](T l) { return sqrt(2 * variance * l) + tail * l; };
  const Tensor low = floor(mean - distance(-log(q))) - 2, high = ceil(mean + distance(-log1p(-q))) + 2;
  return bisect_counts(q, maximum(low, -1), minimum(high, most), steps, cdf);
}

// Returns f(q, parameters...) for 0 < q < 1. As in scipy.stats, the quantile of 0 is the integer
// below the support, that of 1 is most(parameters...), and others are NaN. Quantiles are integers,
// and have no derivatives.
template <class Most, class F, std::same_as<NumberOrTensor>... P>
Tensor count_quantile(T p, double least, Most most, F f, const P&... parameters) {
  const auto of_constants = [&](T q, const auto&... x) {
    const Tensor inside = q > 0 && q < 1;
    const Tensor ends = where(q == 0, least - 1, where(q == 1, most(x...), std::nan("")));
    return where(inside, f(where(inside, q, 0.5), x...), ends);
  };
  const auto g = [&](T q, const auto&... x) { return of_constants(stop_gradient(q), stop_gradient(x)...); };
  return function_of(p, g, parameters...);
}
// The greatest count of a distribution that has none.
constexpr auto unbounded = [](const auto&...) { return infinity; };

}  // namespace

// ---- Bernoulli ---------------------------------------------------------------------------

namespace {
Tensor bernoulli_cdf(T x, T l) { return where(x < 0, 0, where(x < 1, sigmoid(-l), 1)); }
Tensor bernoulli_sf(T x, T l) { return where(x < 0, 1, where(x < 1, sigmoid(l), 0)); }
}  // namespace

Tensor Bernoulli::log_prob(T x) const {
  const auto f = [](T y, T l) { return where_inside(y == 0 || y == 1, y * l - softplus(l)); };
  return function_of(x, f, logits);
}
Tensor Bernoulli::sample(const Key& key, const Shape& shape) const {
  const auto f = [&](const Shape& all, Dtype, T l) { return bernoulli(key, broadcast_to(sigmoid(l), all)); };
  return draw_as_computed(key, shape, f, logits);
}
Support Bernoulli::support() const { return Support::discrete(); }
STAVE_DEFINE_PROBABILITIES(Bernoulli, bernoulli_cdf, bernoulli_sf, logits)
Tensor Bernoulli::quantile(T p) const {
  const auto f = [](T q, T l) { return where(q <= sigmoid(-l), zeros_like(q), 1); };
  return count_quantile(
      p, 0, [](T) { return 1.; }, f, logits);
}
Tensor Bernoulli::mean() const {
  return moment_of([](T l) { return sigmoid(l); }, logits);
}
Tensor Bernoulli::variance() const {
  return moment_of([](T l) { return sigmoid(l) * sigmoid(-l); }, logits);
}
Tensor Bernoulli::entropy() const {
  return moment_of([](T l) { return softplus(l) - scale(sigmoid(l), l); }, logits);
}

// ---- Categorical -------------------------------------------------------------------------

namespace {

// Returns the elements of `all` [..., n] at the classes x, and those at class 0 for an x outside 0
// ... n-1.
Tensor at_class(T all, T x) {
  const Index classes = all.shape(-1);
  Shape full_shape = broadcast_shapes(without_last(all.shape(), 1), x.shape(), "Categorical");
  const Tensor place = astype(broadcast_to(where(x >= 0 && x < classes, x, 0), full_shape), int32);
  full_shape.push_back(classes);
  return squeeze(take_along_axis(broadcast_to(all, full_shape), expand_dims(place, -1), -1), -1);
}
// The probabilities of classes up to the last one sum to 1, without a rounding error.
Tensor categorical_cdf(T x, T l) {
  const Tensor inside = at_class(cumulative_sum(softmax(l), -1), x);
  return where(isnan(x), x, where(x < 0, 0, where(x >= l.shape(-1) - 1, 1, inside)));
}
Tensor categorical_sf(T x, T l) {
  const Tensor from_class = flip(cumulative_sum(flip(softmax(l), -1), -1), -1);
  return where(isnan(x), x, where(x < 0, 1, where(x >= l.shape(-1) - 1, 0, at_class(from_class, floor(x) + 1))));
}

}  // namespace

Tensor Categorical::log_prob(T x) const {
  if (!is_integer(x.dtype())) fail<DtypeError>("Categorical: a class is an integer, not {}", x.dtype());
  const Tensor all = log_softmax(floating(logits));
  return where_inside(x >= 0 && x < all.shape(-1), at_class(all, x));
}
Tensor Categorical::sample(const Key& key, const Shape& shape) const {
  Shape all = shape;
  all.append(logits.shape().begin(), logits.shape().end());
  return categorical(key, broadcast_to(logits, all));
}
Support Categorical::support() const { return Support::discrete(); }
STAVE_DEFINE_PROBABILITIES(Categorical, categorical_cdf, categorical_sf, NumberOrTensor(logits))
Tensor Categorical::quantile(T p) const {
  const auto f = [](T q, T l) {
    const Tensor before = cumulative_sum(softmax(l), -1)(ellipsis, slice(-1)) < expand_dims(q, -1);
    return sum(astype(before, q.dtype()), -1);
  };
  return count_quantile(
      p, 0, [](T l) { return static_cast<double>(l.shape(-1) - 1); }, f, NumberOrTensor(logits));
}
Tensor Categorical::mean() const {
  const auto f = [](T l) { return sum(softmax(l) * arange(0, l.shape(-1), 1, l.dtype(), l.device()), -1); };
  return in_floats(f, logits);
}
Tensor Categorical::variance() const {
  const auto f = [](T l) {
    const Tensor p = softmax(l), k = arange(0, l.shape(-1), 1, l.dtype(), l.device());
    return sum(p * square(k - sum(p * k, -1, keepdims)), -1);
  };
  return in_floats(f, logits);
}
Tensor Categorical::entropy() const {
  return in_floats([](T l) { return sum(entr(softmax(l)), -1); }, logits);
}

// ---- Poisson -----------------------------------------------------------------------------

namespace {
Tensor poisson_cdf(T x, T r) {
  return from_low(x, 0, 0, 0, [&](T y) { return gammaincc(floor(y) + 1, r); });
}
Tensor poisson_sf(T x, T r) {
  return from_low(x, 0, 0, 1, [&](T y) { return gammainc(floor(y) + 1, r); });
}
}  // namespace

Tensor Poisson::log_prob(T x) const {
  const auto f = [](T y, T r) { return of_integers(y, 0, [&](T k) { return xlogy(k, r) - r - lgamma(k + 1); }); };
  return function_of(x, f, rate);
}
Tensor Poisson::sample(const Key& key, const Shape& shape) const {
  const auto f = [&](const Shape& all, Dtype, T r) { return poisson(key, r, all); };
  return draw_as_computed(key, shape, f, rate);
}
Support Poisson::support() const { return Support::discrete(); }
STAVE_DEFINE_PROBABILITIES(Poisson, poisson_cdf, poisson_sf, rate)
Tensor Poisson::quantile(T p) const {
  const auto f = [](T q, T r) {
    return quantile_near(q, r, r, number_like(1. / 3, r), infinity, 34, [&](T k) { return poisson_cdf(k, r); });
  };
  return count_quantile(p, 0, unbounded, f, rate);
}
Tensor Poisson::mean() const {
  return moment_of([](T r) { return r; }, rate);
}
Tensor Poisson::variance() const { return mean(); }

// ---- Binomial ----------------------------------------------------------------------------

namespace {

// The functions below need k < n; at k = n the cdf is 1.
Tensor binomial_cdf(T x, T n, T l) {
  return from_low(x, 0, 0, 0, [&](T y) {
    const Tensor k = floor(y), inside = k < n, safe = where(inside, k, 0);
    return where(inside, betainc(where(inside, n - safe, 1), safe + 1, sigmoid(-l)), 1);
  });
}
Tensor binomial_sf(T x, T n, T l) {
  return from_low(x, 0, 0, 1, [&](T y) {
    const Tensor k = floor(y), inside = k < n, safe = where(inside, k, 0);
    return where(inside, betainc(safe + 1, where(inside, n - safe, 1), sigmoid(l)), 0);
  });
}

}  // namespace

Tensor Binomial::log_prob(T x) const {
  const auto f = [](T y, T n, T l) {
    return of_counts(y, n, [&](T k) { return log_choose(n, k) + scale(k, l) - scale(n, softplus(l)); });
  };
  return function_of(x, f, count, logits);
}
Tensor Binomial::sample(const Key& key, const Shape& shape) const {
  const auto f = [&](const Shape& all, Dtype, T n, T l) { return draw_binomial(key, n, l, all); };
  return draw_as_computed(key, shape, f, count, logits);
}
Support Binomial::support() const { return Support::discrete(); }
STAVE_DEFINE_PROBABILITIES(Binomial, binomial_cdf, binomial_sf, count, logits)
Tensor Binomial::quantile(T p) const {
  const auto f = [](T q, T n, T l) {
    const Tensor mean = n * sigmoid(l), variance = mean * sigmoid(-l);
    return quantile_near(q, mean, variance, number_like(1. / 3, l), n, 34, [&](T k) { return binomial_cdf(k, n, l); });
  };
  return count_quantile(
      p, 0, [](T n, T) { return n; }, f, count, logits);
}
Tensor Binomial::mean() const {
  return moment_of([](T n, T l) { return n * sigmoid(l); }, count, logits);
}
Tensor Binomial::variance() const {
  return moment_of([](T n, T l) { return n * sigmoid(l) * sigmoid(-l); }, count, logits);
}

// ---- NegativeBinomial --------------------------------------------------------------------

namespace {
Tensor negative_binomial_cdf(T x, T n, T l) {
  return from_low(x, 0, 0, 0, [&](T y) { return betainc(n, floor(y) + 1, sigmoid(-l)); });
}
Tensor negative_binomial_sf(T x, T n, T l) {
  return from_low(x, 0, 0, 1, [&](T y) { return betainc(floor(y) + 1, n, sigmoid(l)); });
}
}  // namespace

// (n + k - 1 choose k) = 1 / ((n + k) B(n, k + 1))
Tensor NegativeBinomial::log_prob(T x) const {
  const auto f = [](T y, T n, T l) {
    return of_integers(y, 0, [&](T k) {
      return scale(k, log_sigmoid(l)) + scale(n, log_sigmoid(-l)) - log(n + k) - betaln(n, k + 1);
    });
  };
  return function_of(x, f, count, logits);
}
// Draws from a Poisson distribution whose rate is drawn from Gamma{count, exp(-logits)}.
Tensor NegativeBinomial::sample(const Key& key, const Shape& shape) const {
  const auto f = [&](const Shape& all, Dtype, T n, T l) {
    const auto [first, second] = split(key);
    const Tensor rate = exp(loggamma(first, stop_gradient(n), all) + stop_gradient(l));
    return poisson(second, rate, all);
  };
  return draw_as_computed(key, shape, f, count, logits);
}
Support NegativeBinomial::support() const { return Support::discrete(); }
STAVE_DEFINE_PROBABILITIES(NegativeBinomial, negative_binomial_cdf, negative_binomial_sf, count, logits)
// Since d k_m / dl = k_(m+1), the cumulant k_m is at most variance (m - 1)! (1 + e^l)^(m - 2).
Tensor NegativeBinomial::quantile(T p) const {
  const auto f = [](T q, T n, T l) {
    const Tensor odds = exp(l), mean = n * odds;
    return quantile_near(q, mean, mean * (1 + odds), 1 + odds, infinity, 60,
                         [&](T k) { return negative_binomial_cdf(k, n, l); });
  };
  return count_quantile(p, 0, unbounded, f, count, logits);
}
Tensor NegativeBinomial::mean() const {
  return moment_of([](T n, T l) { return n * exp(l); }, count, logits);
}
Tensor NegativeBinomial::variance() const {
  return moment_of([](T n, T l) { return n * exp(l) * (1 + exp(l)); }, count, logits);
}

// ---- Geometric ---------------------------------------------------------------------------

namespace {
// log(1 - p) = -softplus(logits)
Tensor geometric_cdf(T x, T l) {
  return from_low(x, 0, 0, 0, [&](T y) { return -expm1(-(floor(y) + 1) * softplus(l)); });
}
Tensor geometric_sf(T x, T l) {
  return from_low(x, 0, 0, 1, [&](T y) { return exp(-(floor(y) + 1) * softplus(l)); });
}
// The closed form may miss the integer by a rounding error.
Tensor geometric_quantile(T q, T l) {
  const Tensor k = maximum(ceil(log1p(-q) / -softplus(l)) - 1, 0);
  return bisect_counts(q, k - 2, k + 2, 2, [&](T j) { return geometric_cdf(j, l); });
}
}  // namespace

Tensor Geometric::log_prob(T x) const {
  const auto f = [](T y, T l) {
    return of_integers(y, 0, [&](T k) { return log_sigmoid(l) - scale(k, softplus(l)); });
  };
  return function_of(x, f, logits);
}
Tensor Geometric::sample(const Key& key, const Shape& shape) const {
  const auto f = [&](const Shape& all, Dtype, T l) {
    const Tensor u = uniform(key, all, float64);
    return astype(floor(log1p(-u) / -softplus(astype(stop_gradient(l), float64))), int32);
  };
  return draw_as_computed(key, shape, f, logits);
}
Support Geometric::support() const { return Support::discrete(); }
STAVE_DEFINE_PROBABILITIES(Geometric, geometric_cdf, geometric_sf, logits)
Tensor Geometric::quantile(T p) const { return count_quantile(p, 0, unbounded, geometric_quantile, logits); }
Tensor Geometric::mean() const {
  return moment_of([](T l) { return exp(-l); }, logits);
}
Tensor Geometric::variance() const {
  return moment_of([](T l) { return exp(-l) * (1 + exp(-l)); }, logits);
}
Tensor Geometric::entropy() const {
  return moment_of([](T l) { return softplus(-l) + scale(exp(-l), softplus(l)); }, logits);
}

// ---- BetaBinomial ------------------------------------------------------------------------

Tensor BetaBinomial::log_prob(T x) const {
  const auto f = [](T y, T n, T p, T q) {
    return of_counts(y, n, [&](T k) { return log_choose(n, k) + betaln(k + p, n - k + q) - betaln(p, q); });
  };
  return function_of(x, f, count, a, b);
}
Tensor BetaBinomial::sample(const Key& key, const Shape& shape) const {
  const auto f = [&](const Shape& all, Dtype, T n, T p, T q) {
    const auto [first, second, third] = split<3>(key);
    const Tensor x = loggamma(first, stop_gradient(p), all);
    return draw_binomial(third, n, x - loggamma(second, stop_gradient(q), all), all);
  };
  return draw_as_computed(key, shape, f, count, a, b);
}
Support BetaBinomial::support() const { return Support::discrete(); }
Tensor BetaBinomial::mean() const {
  return moment_of([](T n, T p, T q) { return n * p / (p + q); }, count, a, b);
}
Tensor BetaBinomial::variance() const {
  const auto f = [](T n, T p, T q) { return n * p * q * (p + q + n) / (square(p + q) * (p + q + 1)); };
  return moment_of(f, count, a, b);
}

// ---- Hypergeometric ----------------------------------------------------------------------

Tensor Hypergeometric::log_prob(T x) const {
  const auto f = [](T y, T g, T b, T n) {
    const Tensor inside = y >= maximum(n - b, 0) && y <= minimum(n, g) && y == floor(y);
    const Tensor k = where(inside, y, maximum(n - b, 0));
    return where_inside(inside, log_choose(g, k) + log_choose(b, n - k) - log_choose(g + b, n));
  };
  return function_of(x, f, good, bad, draws);
}
Tensor Hypergeometric::sample(const Key& key, const Shape& shape) const {
  const auto f = [&](const Shape& all, Dtype, T g, T b, T n) { return hypergeometric(key, g, b, n, all); };
  return draw_as_computed(key, shape, f, good, bad, draws);
}
Support Hypergeometric::support() const { return Support::discrete(); }
Tensor Hypergeometric::mean() const {
  return moment_of([](T g, T b, T n) { return n * g / (g + b); }, good, bad, draws);
}
Tensor Hypergeometric::variance() const {
  const auto f = [](T g, T b, T n) {
    const Tensor all = g + b;
    return n * (g / all) * (b / all) * (all - n) / maximum(all - 1, 1);
  };
  return moment_of(f, good, bad, draws);
}

// ---- Zipf --------------------------------------------------------------------------------

namespace {
Tensor zipf_sf(T x, T a) {
  return from_low(x, 1, 1, 1, [&](T y) { return zeta(a, floor(y) + 1) / zeta(a, 1); });
}
Tensor zipf_cdf(T x, T a) { return 1 - zipf_sf(x, a); }
// The sum of j^-a over j > k is between (k + 1)^(1 - a) / (a - 1) and k^(1 - a) / (a - 1). So the
// quantile is between x - 1 and x + 1 for the x at which x^(1 - a) / (a - 1) is zeta(a) (1 - q).
Tensor zipf_quantile(T q, T a) {
  const Tensor log_x = -(log1p(-q) + log((a - 1) * zeta(a, 1))) / (a - 1), x = exp(log_x);
  const Tensor error = 8 * epsilon_of(q.dtype()) * (1 + abs(log_x) + 1 / (a - 1));
  const Tensor low = maximum(floor(x * (1 - error)) - 2, 0), high = ceil(x * (1 + error)) + 1;
  return bisect_counts(q, low, high, 12, [&](T k) { return zipf_cdf(k, a); });
}
}  // namespace

Tensor Zipf::log_prob(T x) const {
  const auto f = [](T y, T a) { return of_integers(y, 1, [&](T k) { return -a * log(k) - log(zeta(a, 1)); }); };
  return function_of(x, f, exponent);
}
Tensor Zipf::sample(const Key& key, const Shape& shape) const {
  const auto f = [&](const Shape& all, Dtype, T a) { return draw_zipf(key, a, all); };
  return draw_as_computed(key, shape, f, exponent);
}
Support Zipf::support() const { return Support::discrete(); }
STAVE_DEFINE_PROBABILITIES(Zipf, zipf_cdf, zipf_sf, exponent)
Tensor Zipf::quantile(T p) const { return count_quantile(p, 1, unbounded, zipf_quantile, exponent); }
Tensor Zipf::mean() const {
  const auto f = [](T a) {
    const Tensor exists = a > 2, b = where(exists, a, 3);
    return where(exists, zeta(b - 1, 1) / zeta(b, 1), infinity);
  };
  return moment_of(f, exponent);
}
Tensor Zipf::variance() const {
  const auto f = [](T a) {
    const Tensor exists = a > 3, b = where(exists, a, 4), all = zeta(b, 1);
    return where(exists, zeta(b - 2, 1) / all - square(zeta(b - 1, 1) / all), infinity);
  };
  return moment_of(f, exponent);
}

// -log k^-a / zeta(a) is a log k + log zeta(a), and the mean of log k is -zeta'(a) / zeta(a).
Tensor Zipf::entropy() const {
  return moment_of([](T a) { return log1p(zeta(a, 2)) - a * zeta_derivative(1, a, 1) / zeta(a, 1); }, exponent);
}

}  // namespace stave
