#include <stave/handlers/numerics/least_squares_model.h>

#include <stave/core/ops/contract.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/index.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/linalg.h>
#include <stave/core/ops/random_samplers.h>
#include <stave/core/ops/reduce.h>
#include <stave/core/ops/search.h>
#include <stave/core/tensor/fail.h>
#include <stave/handlers/numerics/normal_equations.h>
#include <stave/handlers/numerics/trust_region.h>
#include <stave/handlers/transforms/jacobian.h>
#include <stave/handlers/transforms/linearize.h>
#include <stave/handlers/transforms/vjp.h>

namespace stave_detail {

namespace {

Tensor rho(const Tensor& z, RobustLoss loss) {
  switch (loss) {
    case RobustLoss::linear: return z;
    case RobustLoss::soft_l1: return 2 * (sqrt(1 + z) - 1);
    case RobustLoss::huber: return where(z <= 1, z, 2 * sqrt(z) - 1);
    case RobustLoss::cauchy: return log1p(z);
    case RobustLoss::arctan: return atan(z);
  }
  fail<Error>("least_squares: the loss has the unknown number {}", static_cast<int>(loss));
}

}  // namespace

Tensor robust_cost(const Tensor& r, const LeastSquaresOptions& options) {
  const double scale = options.f_scale;
  return (scale * scale / 2) * sum(rho(square(r / scale), options.loss));
}

/// The residuals and the factors of the Jacobian's rows that make a robust loss quadratic: their
/// gradient is that of the loss, and their J^T J is the part of its Hessian without second
/// derivatives of the residuals, but for a lower limit. (Triggs et al., "Bundle adjustment - a
/// modern synthesis", 1999, section 4.3, for each residual.)
struct LinearModels::Weights {
  Tensor r, rows;

  Weights(const Tensor& residuals, const LeastSquaresOptions& options) : r(residuals) {
    if (options.loss == RobustLoss::linear) return;
    const Tensor z = square(r / options.f_scale);
    const auto slope = grad([&](const Tensor& of) { return sum(rho(of, options.loss)); });
    const auto [first, second] = jvp(slope, z, ones_like(z));
    rows = sqrt(maximum(first + 2 * z * second, epsilon_of(r.dtype())));
    r = r * first / rows;
  }
  Tensor times(const Tensor& y) const { return rows.defined() ? rows * y : y; }
};

LinearModels::LinearModels(const LeastSquaresProblem& problem, const LeastSquaresOptions& options)
    : problem_(problem), options_(options), normal_equations_(std::make_shared<NormalEquations>()) {}

LinearModel LinearModels::at(const Tensor& x, const Tensor& r) const {
  const Weights weights(r, options_);
  if (problem_.jacobian) return sparse(x, weights);
  return options_.solver == LeastSquaresSolver::cg ? matrix_free(x, weights) : dense(x, weights);
}

// With the QR decomposition J = q t, |r + J p|^2 is |q^T r + t p|^2 plus a constant. The damped
// problem is another QR decomposition, of t above a diagonal matrix, and never forms J^T J.
LinearModel LinearModels::dense(const Tensor& x, const Weights& weights) const {
  const Index n = x.size();
  Tensor j = weights.r.size() < n ? jacrev(problem_.residual)(x) : jacfwd(problem_.residual)(x);
  j = stop_gradient(j);
  if (weights.rows.defined()) j = reshape(weights.rows, {-1, 1}) * j;
  const auto [q, t] = qr(j);
  LinearModel model;
  model.gradient = matmul(weights.r, j);
  model.diagonal = sum(square(j), 0);
  model.times = [t = t](const Tensor& p) { return matmul(t, p); };
  model.solve = [t = t, side = matmul(weights.r, q)](const Tensor& damping, const Tensor& free) {
    const auto [rotation, triangle] = qr(concat({where(free, t, 0), diag(sqrt(damping))}));
    const Tensor turned = matmul(concat({side, zeros_like(damping)}), rotation);
    return where(free, -triangular_solve(triangle, turned), 0);
  };
  return model;
}

LinearModel LinearModels::matrix_free(const Tensor& x, const Weights& weights) const {
  const auto pullback = vjp(problem_.residual, x).second;
  const auto linear = linearize(problem_.residual, x).second;
  const auto times = [=](const Tensor& p) { return stop_gradient(weights.times(linear(p))); };
  const auto times_transposed = [=](const Tensor& y) {
    const auto [pulled] = pullback(weights.times(y));
    return stop_gradient(pulled);
  };
  LinearModel model;
  model.gradient = times_transposed(weights.r);
  model.times = times;
  // The expectation of (J^T s)^2 for random signs s (Bekas, Kokiopoulou, Saad 2007).
  constexpr int probes = 8;
  model.diagonal = zeros_like(x);
  for (int i = 0; i < probes; ++i)
    model.diagonal =
        model.diagonal + square(times_transposed(rademacher(Key(i), weights.r.shape(), weights.r.dtype()))) / probes;
  model.solve = [=, gradient = model.gradient, diagonal = model.diagonal](const Tensor& damping, const Tensor& free) {
    const auto product = [&](const Tensor& p) { return where(free, times_transposed(times(p)) + damping * p, 0); };
    const auto precondition = [&](const Tensor& p) { return p / (diagonal + damping); };
    const TruncatedCgLimits limits{.tolerance = 1e-2, .products = 2 * x.size() + 10};
    return truncated_cg(product, precondition, where(free, gradient, 0), limits);
  };
  return model;
}

LinearModel LinearModels::sparse(const Tensor& x, const Weights& weights) const {
  const CsrMatrix j = problem_.jacobian(x);
  const Index rows = weights.r.size(), columns = x.size();
  check_csr(j, rows, columns);
  const Tensor row =
      searchsorted(j.row_offsets, arange(0, j.column_indices.size(), 1, j.row_offsets.dtype()), {.right = true}) - 1;
  Tensor values = stop_gradient(astype(j.values, x.dtype()));
  if (weights.rows.defined()) values = values * take(weights.rows, row);
  LinearModel model;
  model.gradient = segment_sum(values * take(weights.r, row), j.column_indices, columns);
  model.diagonal = segment_sum(square(values), j.column_indices, columns);
  model.times = [=](const Tensor& p) { return segment_sum(values * take(p, j.column_indices), row, rows); };
  model.solve = [=, gradient = model.gradient, equations = normal_equations_](const Tensor& damping,
                                                                              const Tensor& free) {
    const CsrMatrix of_free{j.row_offsets, j.column_indices,
                            values * take(astype(free, values.dtype()), j.column_indices)};
    return -equations->solve(of_free, damping, where(free, gradient, 0));
  };
  return model;
}

}  // namespace stave_detail
