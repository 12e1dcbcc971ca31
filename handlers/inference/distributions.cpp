#include <stave/handlers/inference/distributions.h>

#include <cmath>
#include <limits>
#include <numbers>

#include <stave/core/ops/contract.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/index.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/linalg.h>
#include <stave/core/ops/reduce.h>
#include <stave/core/ops/scan.h>
#include <stave/core/ops/softmax.h>
#include <stave/core/tensor/fail.h>
#include <stave/handlers/inference/draws.h>

namespace stave {

using stave_detail::common_float, stave_detail::computed_in, stave_detail::fail;

namespace {

using T = const Tensor&;
constexpr double infinity = std::numeric_limits<double>::infinity();
const double log_root_2_pi = std::log(2 * std::numbers::pi) / 2;

// Returns f(x, parameters...), computed in the common dtype of x and the parameters;
// float16 and bfloat16 are computed in float32.
template <class F, std::same_as<NumberOrTensor>... P>
Tensor density(T x, F f, const P&... parameters) {
  const Dtype dtype = common_float(x, parameters.tensor()...), computed = computed_in(dtype);
  return astype(f(astype(x, computed), parameters.in(computed, x.device())...), dtype);
}

// Returns f(shape, dtype, parameters...), where `shape` is followed by the broadcast shape of the
// parameters. f makes the draw.
template <class F, std::same_as<NumberOrTensor>... P>
Tensor draw(const Key& key, const Shape& shape, F f, const P&... parameters) {
  const Dtype dtype = common_float(parameters.tensor()...), computed = computed_in(dtype);
  Shape beside;
  ((beside = broadcast_shapes(beside, parameters.shape(), "sample")), ...);
  Shape all = shape;
  all.append(beside.begin(), beside.end());
  return f(all, computed, parameters.in(computed, key.data().device())...);
}
template <std::same_as<NumberOrTensor>... P>
Dtype dtype_of_draw(const P&... parameters) {
  return common_float(parameters.tensor()...);
}

Tensor where_inside(T inside, T log_density) { return where(inside, log_density, -infinity); }

Tensor normal_density(T x, T mean, T scale) { return -square((x - mean) / scale) / 2 - log(scale) - log_root_2_pi; }
Tensor cauchy_density(T x, T location, T scale) {
  return -log1p(square((x - location) / scale)) - log(scale) - std::log(std::numbers::pi);
}
Tensor number(double value, T like) { return full({}, value, like.dtype(), like.device()); }

}  // namespace

Tensor NumberOrTensor::in(Dtype dtype, Device device) const {
  return is_number() ? full({}, *number_, dtype, device) : astype(tensor_, dtype);
}

// ---- distributions of numbers ------------------------------------------------------------

Tensor Normal::log_prob(T x) const { return density(x, normal_density, mean, scale); }
Tensor Normal::sample(const Key& key, const Shape& shape) const {
  const auto f = [&](const Shape& all, Dtype dtype, T m, T s) { return m + s * normal(key, all, dtype); };
  return astype(draw(key, shape, f, mean, scale), dtype_of_draw(mean, scale));
}
Support Normal::support() const { return Support::real(); }

Tensor HalfNormal::log_prob(T x) const {
  const auto f = [](T y, T s) { return where_inside(y >= 0, normal_density(y, number(0, y), s) + std::numbers::ln2); };
  return density(x, f, scale);
}
Tensor HalfNormal::sample(const Key& key, const Shape& shape) const { return abs(Normal{0, scale}.sample(key, shape)); }
Support HalfNormal::support() const { return Support::positive(); }

Tensor Cauchy::log_prob(T x) const { return density(x, cauchy_density, location, scale); }
Tensor Cauchy::sample(const Key& key, const Shape& shape) const {
  const auto f = [&](const Shape& all, Dtype dtype, T m, T s) {
    return m + s * tan(uniform(key, all, -std::numbers::pi / 2, std::numbers::pi / 2, dtype));
  };
  return astype(draw(key, shape, f, location, scale), dtype_of_draw(location, scale));
}
Support Cauchy::support() const { return Support::real(); }

Tensor HalfCauchy::log_prob(T x) const {
  const auto f = [](T y, T s) { return where_inside(y >= 0, cauchy_density(y, number(0, y), s) + std::numbers::ln2); };
  return density(x, f, scale);
}
Tensor HalfCauchy::sample(const Key& key, const Shape& shape) const { return abs(Cauchy{0, scale}.sample(key, shape)); }
Support HalfCauchy::support() const { return Support::positive(); }

Tensor StudentT::log_prob(T x) const {
  const auto f = [](T y, T n, T m, T s) {
    return lgamma((n + 1) / 2) - lgamma(n / 2) - log(n * std::numbers::pi) / 2 - log(s) -
           (n + 1) / 2 * log1p(square((y - m) / s) / n);
  };
  return density(x, f, degrees, location, scale);
}
Tensor StudentT::sample(const Key& key, const Shape& shape) const {
  const auto f = [&](const Shape& all, Dtype dtype, T n, T m, T s) {
    const auto [first, second] = split(key);
    const Tensor chi = 2 * stave_detail::standard_gamma(second, n / 2, all);
    return m + s * normal(first, all, dtype) / sqrt(chi / n);
  };
  return astype(draw(key, shape, f, degrees, location, scale), dtype_of_draw(degrees, location, scale));
}
Support StudentT::support() const { return Support::real(); }

Tensor LogNormal::log_prob(T x) const {
  const auto f = [](T y, T m, T s) {
    const Tensor inside = y > 0, logarithm = log(where(inside, y, 1));
    return where_inside(inside, normal_density(logarithm, m, s) - logarithm);
  };
  return density(x, f, mean, scale);
}
Tensor LogNormal::sample(const Key& key, const Shape& shape) const {
  return exp(Normal{mean, scale}.sample(key, shape));
}
Support LogNormal::support() const { return Support::positive(); }

Tensor Exponential::log_prob(T x) const {
  return density(
      x, [](T y, T r) { return where_inside(y >= 0, log(r) - r * y); }, rate);
}
Tensor Exponential::sample(const Key& key, const Shape& shape) const {
  const auto f = [&](const Shape& all, Dtype dtype, T r) { return -log1p(-uniform(key, all, dtype)) / r; };
  return astype(draw(key, shape, f, rate), dtype_of_draw(rate));
}
Support Exponential::support() const { return Support::positive(); }

Tensor Gamma::log_prob(T x) const {
  const auto f = [](T y, T a, T r) {
    const Tensor inside = y >= 0, z = where(inside, y, 1);
    return where_inside(inside, a * log(r) - lgamma(a) + xlogy(a - 1, z) - r * z);
  };
  return density(x, f, concentration, rate);
}
Tensor Gamma::sample(const Key& key, const Shape& shape) const {
  const auto f = [&](const Shape& all, Dtype, T a, T r) { return stave_detail::standard_gamma(key, a, all) / r; };
  return astype(draw(key, shape, f, concentration, rate), dtype_of_draw(concentration, rate));
}
Support Gamma::support() const { return Support::positive(); }

Tensor Beta::log_prob(T x) const {
  const auto f = [](T y, T p, T q) {
    const Tensor inside = y >= 0 && y <= 1, z = where(inside, y, 0.5);
    return where_inside(inside, lgamma(p + q) - lgamma(p) - lgamma(q) + xlogy(p - 1, z) + xlog1py(q - 1, -z));
  };
  return density(x, f, a, b);
}
Tensor Beta::sample(const Key& key, const Shape& shape) const {
  const auto f = [&](const Shape& all, Dtype, T p, T q) {
    const auto [first, second] = split(key);
    const Tensor x = stave_detail::log_standard_gamma(first, p, all);
    return sigmoid(x - stave_detail::log_standard_gamma(second, q, all));
  };
  return astype(draw(key, shape, f, a, b), dtype_of_draw(a, b));
}
Support Beta::support() const { return Support::interval(0, 1); }

Tensor Uniform::log_prob(T x) const {
  const auto f = [](T y, T l, T h) { return where_inside(y >= l && y <= h, -log(h - l)); };
  return density(x, f, low, high);
}
Tensor Uniform::sample(const Key& key, const Shape& shape) const {
  const auto f = [&](const Shape& all, Dtype dtype, T l, T h) { return l + (h - l) * uniform(key, all, dtype); };
  return astype(draw(key, shape, f, low, high), dtype_of_draw(low, high));
}
Support Uniform::support() const { return Support::interval(low, high); }

// ---- discrete distributions --------------------------------------------------------------

Tensor Bernoulli::log_prob(T x) const {
  const auto f = [](T y, T l) { return where_inside(y == 0 || y == 1, y * l - softplus(l)); };
  return density(x, f, logits);
}
Tensor Bernoulli::sample(const Key& key, const Shape& shape) const {
  return draw(
      key, shape, [&](const Shape& all, Dtype, T l) { return bernoulli(key, broadcast_to(sigmoid(l), all)); }, logits);
}
Support Bernoulli::support() const { return Support::discrete(); }

Tensor Categorical::log_prob(T x) const {
  if (!is_integer(x.dtype())) fail<DtypeError>("Categorical: a class is an integer, not {}", x.dtype());
  const Tensor all = log_softmax(stave_detail::floating(logits));
  const Index classes = all.shape(-1);
  Shape beside(std::span<const Index>(all.shape().begin(), all.shape().end() - 1));
  beside = broadcast_shapes(beside, x.shape(), "Categorical");
  const Tensor classes_of = broadcast_to(x, beside), inside = classes_of >= 0 && classes_of < classes;
  Shape full_shape = beside;
  full_shape.push_back(classes);
  const Tensor found =
      take_along_axis(broadcast_to(all, full_shape), expand_dims(where(inside, classes_of, 0), -1), -1);
  return where_inside(inside, squeeze(found, -1));
}
Tensor Categorical::sample(const Key& key, const Shape& shape) const {
  Shape all = shape;
  all.append(logits.shape().begin(), logits.shape().end());
  return categorical(key, broadcast_to(logits, all));
}
Support Categorical::support() const { return Support::discrete(); }

Tensor Poisson::log_prob(T x) const {
  const auto f = [](T y, T r) {
    const Tensor inside = y >= 0 && y == floor(y), z = where(inside, y, 0);
    return where_inside(inside, xlogy(z, r) - r - lgamma(z + 1));
  };
  return density(x, f, rate);
}
Tensor Poisson::sample(const Key& key, const Shape& shape) const {
  return draw(
      key, shape, [&](const Shape& all, Dtype, T r) { return stave_detail::poisson(key, r, all); }, rate);
}
Support Poisson::support() const { return Support::discrete(); }

// ---- distributions of vectors ------------------------------------------------------------

Tensor MultivariateNormal::log_prob(T x) const {
  const auto f = [](T y, T m, T l) {
    const Tensor off = y - m;
    const Index n = off.shape(-1);
    const Tensor z = squeeze(triangular_solve(l, expand_dims(off, -1), {.lower = true}), -1);
    return -sum(square(z), -1) / 2 - sum(log(diagonal(l)), -1) - static_cast<double>(n) * log_root_2_pi;
  };
  return density(x, f, NumberOrTensor(mean), NumberOrTensor(scale_tril));
}
Tensor MultivariateNormal::sample(const Key& key, const Shape& shape) const {
  const Dtype dtype = common_float(mean, scale_tril), computed = computed_in(dtype);
  const Shape& matrices = scale_tril.shape();
  const Shape rows(std::span<const Index>(matrices.begin(), matrices.end() - 1));
  Shape all = shape;
  const Shape beside = broadcast_shapes(mean.shape(), rows, "MultivariateNormal");
  all.append(beside.begin(), beside.end());
  const Tensor z = normal(key, all, computed);
  const Tensor moved = squeeze(matmul(astype(scale_tril, computed), expand_dims(z, -1)), -1);
  return astype(astype(mean, computed) + moved, dtype);
}
Support MultivariateNormal::support() const { return Support::real(); }

Tensor Dirichlet::log_prob(T x) const {
  const auto f = [](T y, T a) {
    const Tensor inside = y >= 0, z = where(inside, y, 1);
    return where_inside(all(inside, -1), sum(xlogy(a - 1, z), -1) + lgamma(sum(a, -1)) - sum(lgamma(a), -1));
  };
  return density(x, f, NumberOrTensor(concentration));
}
Tensor Dirichlet::sample(const Key& key, const Shape& shape) const {
  const auto f = [&](const Shape& all, Dtype, T a) { return softmax(stave_detail::log_standard_gamma(key, a, all)); };
  return astype(draw(key, shape, f, NumberOrTensor(concentration)), common_float(concentration));
}
Support Dirichlet::support() const { return Support::simplex(); }

// ---- supports ----------------------------------------------------------------------------

namespace {

// Returns log(n), ..., log(1) for u of shape [..., n]. Stick breaking divides a stick into n + 1
// parts by n breaks, and n, ..., 1 parts follow them. Subtracting these logarithms from u makes u =
// 0 give equal parts.
Tensor log_parts_left(T u) {
  const Index n = u.shape(-1);
  return log(arange(n, 0, -1, u.dtype(), u.device()));
}
[[noreturn]] void fail_discrete() {
  fail<TransformError>("Support: a discrete distribution has no map from R^n: sum over its values, or condition on it");
}

}  // namespace

Support Support::real() { return Support(Kind::real); }
Support Support::positive() { return Support(Kind::positive); }
Support Support::simplex() { return Support(Kind::simplex); }
Support Support::discrete() { return Support(Kind::discrete); }
Support Support::interval(NumberOrTensor low, NumberOrTensor high) {
  Support support(Kind::interval);
  support.low_ = std::move(low);
  support.high_ = std::move(high);
  return support;
}

// The map onto the simplex is x_k = z_k (1 - x_0 - ... - x_{k-1}), where
// z_k = sigmoid(u_k - log(number of parts after break k)): Stan Reference Manual, 10.7.
Tensor Support::constrain(T u) const {
  switch (kind_) {
    case Kind::real: return u;
    case Kind::positive: return exp(u);
    case Kind::interval: {
      const Tensor low = low_.in(u.dtype(), u.device()), high = high_.in(u.dtype(), u.device());
      return low + (high - low) * sigmoid(u);
    }
    case Kind::simplex: {
      const Tensor v = u - log_parts_left(u), left = cumulative_sum(log_sigmoid(-v), -1, {.include_initial = true});
      Shape one = u.shape();
      one[one.rank() - 1] = 1;
      return exp(concat({log_sigmoid(v), zeros(one, u.dtype(), u.device())}, -1) + left);
    }
    case Kind::discrete: fail_discrete();
  }
  fail_discrete();
}

Tensor Support::unconstrain(T x) const {
  switch (kind_) {
    case Kind::real: return x;
    case Kind::positive: return log(x);
    case Kind::interval: {
      const Tensor low = low_.in(x.dtype(), x.device()), high = high_.in(x.dtype(), x.device());
      return log(x - low) - log(high - x);
    }
    case Kind::simplex: {
      const Tensor from_behind = cumulative_sum(x, -1, {.reverse = true});
      const Tensor first = x(ellipsis, slice(none, -1)), left = from_behind(ellipsis, slice(1, none));
      return log(first) - log(left) + log_parts_left(first);
    }
    case Kind::discrete: fail_discrete();
  }
  fail_discrete();
}

Tensor Support::log_det(T u) const {
  switch (kind_) {
    case Kind::real: return zeros_like(u);
    case Kind::positive: return u;
    case Kind::interval:
      return log(high_.in(u.dtype(), u.device()) - low_.in(u.dtype(), u.device())) + log_sigmoid(u) + log_sigmoid(-u);
    case Kind::simplex: {
      // d x_k / d u_k = x_k (1 - z_k), and the Jacobian is triangular.
      const Tensor v = u - log_parts_left(u), left = cumulative_sum(log_sigmoid(-v), -1, {.include_initial = true});
      return sum(log_sigmoid(v) + log_sigmoid(-v) + left(ellipsis, slice(none, -1)), -1);
    }
    case Kind::discrete: fail_discrete();
  }
  fail_discrete();
}

}  // namespace stave
