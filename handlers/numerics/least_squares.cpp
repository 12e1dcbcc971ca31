#include <stave/handlers/numerics/least_squares.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include <stave/core/ops/contract.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/index.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/linalg.h>
#include <stave/core/ops/reduce.h>
#include <stave/core/ops/search.h>
#include <stave/core/tensor/fail.h>
#include <stave/handlers/numerics/implicit.h>
#include <stave/handlers/numerics/least_squares_model.h>
#include <stave/handlers/numerics/solvers.h>
#include <stave/handlers/numerics/trust_region.h>

namespace stave_detail {

namespace {

// ---- input -------------------------------------------------------------------------------

void check_options(const LeastSquaresOptions& options) {
  for (const auto& [name, value] : {std::pair("ftol", options.ftol), {"xtol", options.xtol}, {"gtol", options.gtol}})
    if (!(value >= 0 && std::isfinite(value)))
      fail<Error>("least_squares: {} is {}; it must be a number that is not negative", name, value);
  if (!(options.f_scale > 0 && std::isfinite(options.f_scale)))
    fail<Error>("least_squares: f_scale is {}; it must be positive", options.f_scale);
  if (options.steps < 0)
    fail<Error>("least_squares: at most {} steps: give a positive number, or 0 for the default", options.steps);
}

void check_finite(const Tensor& x, const char* what) {
  if (const char* const number = not_finite(x))
    fail<Error>("least_squares: at the start an element of the {} is {}", what, number);
}

void check_bounds(const LeastSquaresProblem& problem, const Tensor& start) {
  const auto& [lower, upper] = std::tie(problem.lower, problem.upper);
  if (lower.shape() != start.shape() || upper.shape() != start.shape())
    fail<ShapeError>("least_squares: there are {} unknowns, {} lower bounds and {} upper bounds", start.size(),
                     lower.size(), upper.size());
  const Tensor is_outside = !(lower <= start && start <= upper);
  if (start.size() == 0 || !bool(any(is_outside))) return;
  const Tensor first_outside = argmax(astype(is_outside, int32));
  fail<Error>("least_squares: element {} of the start is {}, which is not within its bounds, {} and {}",
              first_outside.item<Index>(), take(start, first_outside).item<double>(),
              take(lower, first_outside).item<double>(), take(upper, first_outside).item<double>());
}

// ---- steps -------------------------------------------------------------------------------

Tensor within_bounds(const Tensor& x, const LeastSquaresProblem& problem) {
  return problem.lower.defined() ? clip(x, problem.lower, problem.upper) : x;
}

/// Returns which unknowns may move: those that are not at a bound beyond which the cost falls.
Tensor free_unknowns(const Tensor& x, const Tensor& gradient, const LeastSquaresProblem& problem) {
  if (!problem.lower.defined()) return full(x.shape(), true);
  return !((x <= problem.lower && gradient > 0) || (x >= problem.upper && gradient < 0));
}

/// The trust region of a method: the lengths of steps are in units given by `scale`, the squared
/// lengths of the columns of the Jacobian.
class TrustRegion {
 public:
  TrustRegion(const LeastSquaresOptions& options, const Tensor& x, const Tensor& diagonal)
      : dogleg_(options.method == LeastSquaresMethod::dogleg), largest_(diagonal) {
    const Tensor size = length(x);
    radius_ = dogleg_ ? where(size > 0, size, 1) : full_like(size, 1e4);
    shrink_ = full_like(size, 2);
  }
  /// Takes the columns of the Jacobian at a new point into account.
  void learn(const Tensor& diagonal) { largest_ = maximum(largest_, diagonal); }
  Tensor length(const Tensor& step) const { return sqrt(sum(scale() * square(step))); }
  Tensor step(const LinearModel& model, const Tensor& free) const {
    return dogleg_ ? dogleg_step(model, free) : model.solve(scale() / radius_, free);
  }
  /// Changes the radius after a step of this length that lowered the cost by `ratio` times what the
  /// model predicts.
  void update(const Tensor& ratio, const Tensor& accepted, const Tensor& length) {
    if (dogleg_) {
      const Tensor smaller = 0.25 * minimum(length, radius_), larger = maximum(radius_, 3 * length);
      radius_ =
          where(ratio >= 0.25, where(ratio > 0.75, larger, radius_), where(isfinite(length), smaller, radius_ / 4));
    } else {  // Nielsen, "Damping parameter in Marquardt's method", 1999
      const Tensor cube = 2 * ratio - 1, longer = radius_ / maximum(1 / 3., 1 - cube * cube * cube);
      radius_ = where(accepted, minimum(longer, 1e16), radius_ / shrink_);
      shrink_ = where(accepted, 2, 2 * shrink_);
    }
  }

 private:
  Tensor scale() const { return where(largest_ > 0, largest_, 1); }
  Tensor dogleg_step(const LinearModel& model, const Tensor& free) const {
    const Tensor newton = model.solve(epsilon_of(radius_.dtype()) * scale(), free);
    const Tensor downhill = where(free, -model.gradient / scale(), 0);
    const Tensor steepest = downhill * (sum(scale() * square(downhill)) / sum(square(model.times(downhill))));
    return dogleg(newton, steepest, radius_, scale());
  }

  bool dogleg_;
  Tensor largest_, radius_, shrink_;
};

/// The derivatives of the result that may be taken, where the residuals are r.
PossibleDerivatives derivatives_of_result(const LeastSquaresProblem& problem, const Tensor& r) {
  PossibleDerivatives all;
  for (const Tensor* x : {&r, &problem.lower, &problem.upper}) {
    if (!x->defined()) continue;
    const PossibleDerivatives of_one = possible_derivatives(*x);
    all = {std::max(all.order, of_one.order), all.is_recorded || of_one.is_recorded};
  }
  return all;
}

constexpr int code(LeastSquaresStatus status) { return static_cast<int>(status); }

}  // namespace

// The search decides by `where`, and reads only one value in each step: whether the search goes on.
// So lanes stay together until one is finished. The derivatives with respect to captured values are
// cut off, and added at the end.
LeastSquaresResult<Tensor> least_squares_flat(const LeastSquaresProblem& given, const Tensor& start,
                                              const LeastSquaresOptions& options) {
  if (!is_float(start.dtype()))
    fail<DtypeError>("least_squares: the start is {}: convert it to floats with astype", start.dtype());
  check_options(options);
  if (const char* const number = not_finite(start))
    fail<Error>("least_squares: the start has an element that is {}", number);
  const Tensor first = given.residual(stop_gradient(start));
  if (!is_float(first.dtype()))
    fail<DtypeError>("least_squares: the residuals are {}: they must be floats", first.dtype());
  const Dtype dtype = promote(start.dtype(), first.dtype());
  LeastSquaresProblem problem = given;
  problem.residual = [&](const Tensor& x) { return astype(given.residual(x), dtype); };
  Tensor x = stop_gradient(astype(start, dtype));
  if (given.lower.defined()) {
    problem.lower = astype(given.lower, dtype);
    problem.upper = astype(given.upper, dtype);
    check_bounds(problem, x);
  }
  LeastSquaresProblem constant = problem;
  constant.lower = problem.lower.defined() ? stop_gradient(problem.lower) : Tensor();
  constant.upper = problem.upper.defined() ? stop_gradient(problem.upper) : Tensor();
  const auto residual = [&](const Tensor& at) { return stop_gradient(problem.residual(at)); };

  Tensor r = stop_gradient(astype(first, dtype));
  check_finite(r, "residuals");
  const LinearModels models(constant, options);
  LinearModel model = models.at(x, r);
  check_finite(model.gradient, "gradient");
  TrustRegion region(options, x, model.diagonal);
  const Index most = options.steps > 0 ? options.steps : 100 * std::max<Index>(x.size(), 1);
  Tensor cost = robust_cost(r, options), status = zeros({}, int32), optimality, free;
  Index steps = 0;
  for (;; ++steps) {
    free = free_unknowns(x, model.gradient, constant);
    optimality = x.size() > 0 ? max(where(free, abs(model.gradient), 0)) : zeros({}, dtype);
    status = where(optimality <= options.gtol, code(LeastSquaresStatus::small_gradient), status);
    if (steps == most || bool(status > 0)) break;

    const Tensor trial = within_bounds(x + region.step(model, free), constant), step = trial - x;
    const Tensor trial_r = residual(trial), trial_cost = robust_cost(trial_r, options);
    const Tensor predicted = -sum(model.gradient * step) - sum(square(model.times(step))) / 2;
    // A step that the bounds cut off may lead uphill: then the region shrinks.
    const Tensor decrease = cost - trial_cost, ratio = where(predicted > 0, decrease / predicted, -1);
    const Tensor accepted = ratio > 1e-4 && isfinite(trial_cost);
    const Tensor length = region.length(step);
    status = where(length <= options.xtol * region.length(x), code(LeastSquaresStatus::small_step), status);
    status = where(accepted && ratio > 0.25 && decrease <= options.ftol * cost,
                   code(LeastSquaresStatus::small_decrease), status);
    region.update(ratio, accepted, length);
    x = where(accepted, trial, x);
    r = where(accepted, trial_r, r);
    cost = where(accepted, trial_cost, cost);
    if (models.is_lockstep() || bool(accepted)) model = models.at(x, r);
    region.learn(model.diagonal);
  }

  Tensor gradient = model.gradient;
  if (const PossibleDerivatives derivatives = derivatives_of_result(problem, first); derivatives.any()) {
    if (problem.lower.defined()) x = where(free, x, where(x <= constant.lower, problem.lower, problem.upper));
    const auto cost_at = [&](const Tensor& at) { return robust_cost(problem.residual(at), options); };
    x = with_derivatives_of_root([&](const Tensor& at) { return grad(cost_at)(at); }, x, free, derivatives);
    const auto both = value_and_grad(cost_at)(x);
    cost = both.value;
    gradient = both.grad;
  }
  return {x, cost, gradient, optimality, full({}, steps, int32), status};
}

Tensor parameter_covariance_flat(const std::function<Tensor(const Tensor&)>& residual, const Tensor& x) {
  const Tensor r = residual(x);
  const Index m = r.size(), n = x.size();
  if (m <= n)
    fail<Error>("parameter_covariance: {} residuals are too few to estimate the variance beside {} unknowns", m, n);
  // J = q t, so (J^T J)^-1 = t^-1 t^-T.
  const Tensor t = qr(jacfwd(residual)(x)).second, inverse = triangular_solve(t, eye(n, t.dtype(), t.device()));
  return matmul(inverse, matrix_transpose(inverse)) * (sum(square(r)) / static_cast<double>(m - n));
}

}  // namespace stave_detail
