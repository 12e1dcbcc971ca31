#include <stave/handlers/inference/multivariate.h>

#include <cmath>
#include <numbers>

#include <stave/core/ops/contract.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/linalg.h>
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

Shape joined(const Shape& a, const Shape& b) {
  Shape all = a;
  all.append(b.begin(), b.end());
  return all;
}
double count_of(Index n) { return static_cast<double>(n); }

// Returns the shape of a draw of location + scale_tril z.
Shape shape_of_vectors(const Shape& shape, T location, T scale_tril, const char* what) {
  return joined(shape, broadcast_shapes(location.shape(), without_last(scale_tril.shape(), 1), what));
}
Tensor times_vector(T matrix, T vector) { return squeeze(matmul(matrix, expand_dims(vector, -1)), -1); }
// Returns l^-1 (y - m).
Tensor standardized(T y, T m, T l) { return squeeze(triangular_solve(l, expand_dims(y - m, -1), {.lower = true}), -1); }
Tensor log_diagonal(T l) { return sum(log(diagonal(l)), -1); }
Tensor product_with_transpose(T l) { return matmul(l, matrix_transpose(l)); }
// Returns f(degrees, scale_tril).
template <class F>
Tensor entropy_of(F f, const NumberOrTensor& degrees, T scale_tril) {
  const Dtype dtype = common_float(degrees.tensor(), scale_tril);
  return in_floats(f, degrees.in(dtype, scale_tril.device()), scale_tril);
}

}  // namespace

// ---- MultivariateNormal ------------------------------------------------------------------

Tensor MultivariateNormal::log_prob(T x) const {
  const auto f = [](T y, T m, T l) {
    const Tensor z = standardized(y, m, l);
    return -sum(square(z), -1) / 2 - log_diagonal(l) - count_of(z.shape(-1)) * log_root_2_pi;
  };
  return function_of(x, f, NumberOrTensor(location), NumberOrTensor(scale_tril));
}
Tensor MultivariateNormal::sample(const Key& key, const Shape& shape) const {
  const Dtype dtype = common_float(location, scale_tril), computed = computed_in(dtype);
  const Tensor z = normal(key, shape_of_vectors(shape, location, scale_tril, "MultivariateNormal"), computed);
  return astype(astype(location, computed) + times_vector(astype(scale_tril, computed), z), dtype);
}
Support MultivariateNormal::support() const { return Support::real(); }
Tensor MultivariateNormal::mean() const {
  const Shape shape = shape_of_vectors({}, location, scale_tril, "MultivariateNormal");
  return broadcast_to(astype(location, common_float(location, scale_tril)), shape);
}
Tensor MultivariateNormal::covariance() const { return in_floats(product_with_transpose, scale_tril); }
Tensor MultivariateNormal::variance() const {
  const Shape shape = shape_of_vectors({}, location, scale_tril, "MultivariateNormal");
  return broadcast_to(in_floats([](T l) { return sum(square(tril(l)), -1); }, scale_tril), shape);
}
Tensor MultivariateNormal::entropy() const {
  const auto f = [](T l) { return log_diagonal(l) + count_of(l.shape(-1)) * (0.5 + log_root_2_pi); };
  return in_floats(f, scale_tril);
}

// ---- MultivariateStudentT ----------------------------------------------------------------

Tensor MultivariateStudentT::log_prob(T x) const {
  const auto f = [](T y, T n, T m, T l) {
    const Tensor z = standardized(y, m, l);
    const double length = count_of(z.shape(-1));
    const Tensor constant = lgamma((n + length) / 2) - lgamma(n / 2) - length / 2 * (log(n) + log_pi) - log_diagonal(l);
    return constant - (n + length) / 2 * log1p(sum(square(z), -1) / n);
  };
  return function_of(x, f, degrees, NumberOrTensor(location), NumberOrTensor(scale_tril));
}
Tensor MultivariateStudentT::sample(const Key& key, const Shape& shape) const {
  const Dtype dtype = common_float(degrees.tensor(), location, scale_tril), computed = computed_in(dtype);
  const Shape vectors = shape_of_vectors({}, location, scale_tril, "MultivariateStudentT");
  const Shape batch = broadcast_shapes(without_last(vectors, 1), degrees.shape(), "MultivariateStudentT");
  const Shape all = joined(joined(shape, batch), last_axes(vectors, 1));
  const auto [first, second] = split(key);
  const Tensor n = degrees.in(computed, key.data().device());
  const Tensor root = sqrt(2 * gamma(second, n / 2, without_last(all, 1)) / n);
  const Tensor z = normal(first, all, computed) / expand_dims(root, -1);
  return astype(astype(location, computed) + times_vector(astype(scale_tril, computed), z), dtype);
}
Support MultivariateStudentT::support() const { return Support::real(); }
Tensor MultivariateStudentT::entropy() const {
  const auto f = [&](T n, T l) {
    const double length = count_of(l.shape(-1));
    const Tensor half = n / 2, both = (n + length) / 2,
                 constant = lgamma(half) - lgamma(both) + length / 2 * (log(n) + log_pi);
    return log_diagonal(l) + constant + both * (digamma(both) - digamma(half));
  };
  return entropy_of(f, degrees, scale_tril);
}

// ---- Dirichlet ---------------------------------------------------------------------------

Tensor Dirichlet::log_prob(T x) const {
  const auto f = [](T y, T a) {
    const Tensor inside = y >= 0, z = where(inside, y, 1);
    return where_inside(all(inside, -1), sum(xlogy(a - 1, z), -1) + lgamma(sum(a, -1)) - sum(lgamma(a), -1));
  };
  return function_of(x, f, NumberOrTensor(concentration));
}
Tensor Dirichlet::sample(const Key& key, const Shape& shape) const {
  const auto f = [&](const Shape& all, Dtype, T a) { return softmax(loggamma(key, a, all)); };
  return draw(key, shape, f, NumberOrTensor(concentration));
}
Support Dirichlet::support() const { return Support::simplex(); }
Tensor Dirichlet::mean() const {
  return in_floats([](T a) { return a / sum(a, -1, keepdims); }, concentration);
}
Tensor Dirichlet::variance() const {
  const auto f = [](T a) {
    const Tensor total = sum(a, -1, keepdims), mean = a / total;
    return mean * (1 - mean) / (total + 1);
  };
  return in_floats(f, concentration);
}
Tensor Dirichlet::entropy() const {
  const auto f = [](T a) {
    const Tensor total = sum(a, -1);
    return sum(lgamma(a), -1) - lgamma(total) + (total - count_of(a.shape(-1))) * digamma(total) -
           sum((a - 1) * digamma(a), -1);
  };
  return in_floats(f, concentration);
}

// ---- Multinomial -------------------------------------------------------------------------

Tensor Multinomial::log_prob(T x) const {
  const auto f = [](T y, T n, T l) {
    const Tensor inside = y >= 0 && y == floor(y), k = where(inside, y, 0);
    const Tensor valid = all(inside, -1) && sum(k, -1) == n;
    return where_inside(valid, lgamma(n + 1) - sum(lgamma(k + 1), -1) + sum(scale(k, log_softmax(l)), -1));
  };
  return function_of(x, f, count, NumberOrTensor(logits));
}
// Given the counts of the classes before it, the count of a class is binomial.
Tensor Multinomial::sample(const Key& key, const Shape& shape) const {
  const Tensor log_p = log_softmax(astype(stop_gradient(logits), float64));
  const Index n = log_p.shape(-1);
  const Shape batch = joined(shape, broadcast_shapes(without_last(log_p.shape(), 1), count.shape(), "Multinomial"));
  // The logarithms of the probabilities of all later classes.
  const Tensor later = logcumsumexp(log_p, -1, {.reverse = true});
  Tensor left = broadcast_to(astype(count.in(float64, key.data().device()), int32), batch);
  std::vector<Tensor> counts;
  for (Index i = 0; i + 1 < n; ++i) {
    const Tensor odds = log_p(ellipsis, i) - later(ellipsis, i + 1);
    counts.push_back(draw_binomial(fold_in(key, static_cast<std::uint32_t>(i)), left, odds, batch));
    left = left - counts.back();
  }
  counts.push_back(left);
  return stack(counts, -1);
}
Support Multinomial::support() const { return Support::discrete(); }
Tensor Multinomial::mean() const {
  const auto f = [](T n, T l) { return expand_dims(n, -1) * softmax(l); };
  const Dtype dtype = common_float(count.tensor(), logits), computed = computed_in(dtype);
  return astype(f(count.in(computed, logits.device()), astype(logits, computed)), dtype);
}
Tensor Multinomial::variance() const {
  const auto f = [](T n, T l) {
    const Tensor p = softmax(l);
    return expand_dims(n, -1) * p * (1 - p);
  };
  const Dtype dtype = common_float(count.tensor(), logits), computed = computed_in(dtype);
  return astype(f(count.in(computed, logits.device()), astype(logits, computed)), dtype);
}

// ---- Wishart -----------------------------------------------------------------------------

// The sum of the squares of l^-1 c, for the Cholesky factor c of x, is the trace of (l l^T)^-1 x.
Tensor Wishart::log_prob(T x) const {
  const auto f = [](T y, T n, T l) {
    const int rows = static_cast<int>(y.shape(-1));
    const Tensor c = cholesky(y, {.nan_if_indefinite = true}), valid = isfinite(log_diagonal(c));
    const Tensor safe = where(expand_dims(valid, {-1, -2}), c, eye(rows, y.dtype(), y.device()));
    const Tensor trace = sum(square(triangular_solve(l, safe, {.lower = true})), {-2, -1});
    const Tensor constant = n * (rows * std::numbers::ln2 / 2 + log_diagonal(l)) + multigammaln(n / 2, rows);
    return where_inside(valid, (n - (rows + 1)) * log_diagonal(safe) - trace / 2 - constant);
  };
  return function_of(x, f, degrees, NumberOrTensor(scale_tril));
}
// Draws by Bartlett's decomposition: x = l a a^T l^T, where a is lower triangular with standard
// normal numbers below the diagonal, and a_ii^2 is of ChiSquared{degrees - i}.
Tensor Wishart::sample(const Key& key, const Shape& shape) const {
  const Dtype dtype = common_float(degrees.tensor(), scale_tril), computed = computed_in(dtype);
  const Tensor n = degrees.in(computed, key.data().device()), l = astype(scale_tril, computed);
  const Shape batch = joined(shape, broadcast_shapes(without_last(l.shape(), 2), n.shape(), "Wishart"));
  const Shape matrices = joined(batch, last_axes(l.shape(), 2));
  const Tensor steps = arange(0, l.shape(-1), 1, computed, l.device());
  const auto [first, second] = split(key);
  const Tensor half = (expand_dims(n, -1) - steps) / 2;
  const Tensor chi = sqrt(2 * gamma(first, half, without_last(matrices, 1)));
  const Tensor a =
      tril(normal(second, matrices, computed), -1) + expand_dims(chi, -1) * eye(l.shape(-1), computed, l.device());
  return astype(product_with_transpose(matmul(tril(l), a)), dtype);
}
Support Wishart::support() const { return Support::positive_definite(); }
Tensor Wishart::mean() const {
  const Dtype dtype = common_float(degrees.tensor(), scale_tril), computed = computed_in(dtype);
  const Tensor n = degrees.in(computed, scale_tril.device());
  return astype(expand_dims(n, {-1, -2}) * product_with_transpose(tril(astype(scale_tril, computed))), dtype);
}
Tensor Wishart::entropy() const {
  const auto f = [](T n, T l) {
    const int rows = static_cast<int>(l.shape(-1));
    const Tensor half = n / 2, halves = arange(0, rows, 1, n.dtype(), n.device()) / 2;
    const Tensor mean_log = sum(digamma(expand_dims(half, -1) - halves), -1);
    return (rows + 1) * (log_diagonal(l) + rows * std::numbers::ln2 / 2) + multigammaln(half, rows) -
           (n - (rows + 1)) / 2 * mean_log + rows * half;
  };
  return entropy_of(f, degrees, scale_tril);
}

// ---- LKJCholesky -------------------------------------------------------------------------

// The exponent of l_ii is dimension - i - 1 + 2 (concentration - 1), for i = 1, 2, ...: Stan
// Functions Reference, 24.1. The constant is that of Lewandowski, Kurowicka and Joe, page 1999.
Tensor LKJCholesky::log_prob(T x) const {
  const Index n = dimension;
  if (x.rank() < 2 || x.shape(-1) != n || x.shape(-2) != n)
    fail<ShapeError>("LKJCholesky: a factor of dimension {} is not of the shape {}", n, x.shape());
  const auto f = [n](T y, T c) {
    const Tensor on_diagonal = diagonal(y)(ellipsis, slice(1, none));
    if (n == 1) return zeros_like(c) + sum(on_diagonal, -1);
    const Tensor inside = on_diagonal > 0, powers = arange(n - 2, -1, -1, y.dtype(), y.device());
    const Tensor exponents = expand_dims(2 * (c - 1), -1) + powers;
    const double less = count_of(n - 1);
    const Tensor a = c + less / 2;
    const Tensor constant = less / 2 * log_pi + multigammaln(a - 0.5, static_cast<int>(n - 1)) - less * lgamma(a);
    return where_inside(all(inside, -1), sum(exponents * log(where(inside, on_diagonal, 1)), -1) - constant);
  };
  return function_of(x, f, concentration);
}
// Draws by the onion method: row i is (sqrt(y) u, sqrt(1 - y)) with y of Beta{i / 2, concentration
// + (dimension - 1 - i) / 2} and a unit vector u of i numbers.
Tensor LKJCholesky::sample(const Key& key, const Shape& shape) const {
  const Dtype dtype = common_float(concentration.tensor()), computed = computed_in(dtype);
  const Index n = dimension;
  const Tensor c = concentration.in(computed, key.data().device());
  const Shape rows = joined(joined(shape, c.shape()), Shape(n)), matrices = joined(rows, Shape(n));
  const auto [first, second, third] = split<3>(key);
  // Row 0 is (0, ..., 1): its y is 0. A beta draw with a = 1 / 2 takes its place.
  const Tensor i = arange(0, n, 1, computed, c.device()), a = maximum(i, 1) / 2;
  const Tensor b = expand_dims(c, -1) + (static_cast<double>(n - 1) - i) / 2;
  const Tensor logit_y = loggamma(first, a, rows) - loggamma(second, b, rows);
  const Tensor y = where(i > 0, sigmoid(logit_y), 0), rest = where(i > 0, sigmoid(-logit_y), 1);
  const Tensor z = tril(normal(third, matrices, computed), -1), length = norm(z, -1, keepdims);
  const Tensor unit = z / where(length > 0, length, 1);
  const Tensor l = expand_dims(sqrt(y), -1) * unit + expand_dims(sqrt(rest), -1) * eye(n, computed, c.device());
  return astype(l, dtype);
}
Support LKJCholesky::support() const { return Support::correlation_cholesky(); }

}  // namespace stave
