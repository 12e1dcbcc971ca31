#include <stave/handlers/numerics/minimize.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <optional>
#include <tuple>

#include <stave/core/ops/contract.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/linalg.h>
#include <stave/core/ops/reduce.h>
#include <stave/core/tensor/fail.h>
#include <stave/handlers/numerics/implicit.h>
#include <stave/handlers/numerics/krylov.h>
#include <stave/handlers/numerics/solvers.h>
#include <stave/handlers/numerics/trust_region.h>

namespace stave_detail {

namespace {

double dot(const Tensor& a, const Tensor& b) { return sum(a * b).item<double>(); }

// ---- line search -------------------------------------------------------------------------

/// The point start + a * direction of a line search: the value of f at the point, and the slope,
/// which is the derivative of the value with respect to a.
struct LinePoint {
  double a, value, slope;
  // `gradient` is the gradient of f at x, and `tensor` is f(x) as a tensor.
  Tensor x, gradient, tensor;
};

/// Searches for a step that satisfies the strong Wolfe conditions: the value decreases by at least
/// 1e-4 of the decrease that the slope at the start predicts, and the absolute value of the slope
/// shrinks to at most 0.9 of that at the start.
class LineSearch {
 public:
  LineSearch(const ValueAndGradient& f, const LinePoint& start, const Tensor& direction, Index& evaluations)
      : f_(f), start_(start), direction_(direction), evaluations_(evaluations) {}

  // Algorithm 3.5 of Nocedal and Wright: enlarges the step from `first` until it satisfies the
  // conditions, or until an interval that contains such a step is found. Returns nothing if no step
  // is found.
  std::optional<LinePoint> found(double first) {
    LinePoint before = start_;
    double a = first;
    for (int i = 0; i < most_steps; ++i, a *= 2) {
      const LinePoint here = at(a);
      if (!is_lower(here) || (i > 0 && here.value >= before.value)) return zoom(before, here);
      if (is_flat(here)) return here;
      if (here.slope >= 0) return zoom(here, before);
      before = here;
    }
    return std::nullopt;
  }

 private:
  static constexpr int most_steps = 40;
  static constexpr double decrease = 1e-4, flatness = 0.9;

  LinePoint at(double a) {
    ++evaluations_;
    const Tensor x = start_.x + direction_ * a;
    const auto [value, gradient] = f_(x);
    const double number = value.item<double>();
    return {a, number, dot(gradient, direction_), x, gradient, value};
  }
  bool is_lower(const LinePoint& p) const { return p.value <= start_.value + decrease * p.a * start_.slope; }
  bool is_flat(const LinePoint& p) const { return std::abs(p.slope) <= -flatness * start_.slope; }
  // Returns the position of the minimum of the cubic through both points, equation (3.59), if it is
  // well inside the interval; otherwise the middle of the interval.
  static double minimum_between(const LinePoint& p, const LinePoint& q) {
    const double d1 = p.slope + q.slope - 3 * (p.value - q.value) / (p.a - q.a), root = d1 * d1 - p.slope * q.slope;
    const double d2 = std::copysign(std::sqrt(std::max(root, 0.)), q.a - p.a);
    const double a = q.a - (q.a - p.a) * (q.slope + d2 - d1) / (q.slope - p.slope + 2 * d2);
    const double low = std::min(p.a, q.a), high = std::max(p.a, q.a), edge = 0.1 * (high - low);
    return a >= low + edge && a <= high - edge ? a : (low + high) / 2;
  }
  // Algorithm 3.6: narrows an interval. `low` has the smallest value of the points so far for which
  // is_lower is true, and its slope points to `high`.
  std::optional<LinePoint> zoom(LinePoint low, LinePoint high) {
    for (int i = 0; i < most_steps; ++i) {
      const LinePoint here = at(minimum_between(low, high));
      if (!is_lower(here) || !(here.value < low.value)) {
        high = here;
        continue;
      }
      if (is_flat(here)) return here;
      if (here.slope * (high.a - low.a) >= 0) high = low;
      low = here;
    }
    // If rounding prevents the conditions from being met, a point that is lower than the start is
    // accepted.
    return low.a > 0 && low.value < start_.value ? std::optional(low) : std::nullopt;
  }

  const ValueAndGradient& f_;
  const LinePoint& start_;
  const Tensor& direction_;
  Index& evaluations_;
};

// ---- models of the inverse Hessian -------------------------------------------------------

/// A step and the change of the gradient along it; `curvature` is their dot product.
struct Change {
  Tensor step, gradient;
  double curvature;
};

class Model {
 public:
  explicit Model(const MinimizeOptions& options) : options_(options) {}

  /// Returns the model of the inverse Hessian times g.
  Tensor times(const Tensor& g) const {
    if (options_.method == MinimizeMethod::bfgs) return inverse_.defined() ? matmul(inverse_, g) : g;
    // Algorithm 7.4, the two-loop recursion of L-BFGS.
    Tensor q = g;
    std::vector<double> alphas;
    for (auto change = changes_.rbegin(); change != changes_.rend(); ++change) {
      alphas.push_back(dot(change->step, q) / change->curvature);
      q = q - change->gradient * alphas.back();
    }
    if (!changes_.empty())
      q = q * (changes_.back().curvature / dot(changes_.back().gradient, changes_.back().gradient));
    for (const Change& change : changes_) {
      q = q + change.step * (alphas.back() - dot(change.gradient, q) / change.curvature);
      alphas.pop_back();
    }
    return q;
  }
  void learn(Change change) {
    if (!(change.curvature > 0)) return;
    if (options_.method == MinimizeMethod::bfgs) return update(change);
    changes_.push_back(std::move(change));
    if (changes_.size() > static_cast<std::size_t>(options_.memory)) changes_.pop_front();
  }
  bool is_identity() const { return !inverse_.defined() && changes_.empty(); }
  void forget() {
    inverse_ = Tensor();
    changes_.clear();
  }

 private:
  // The BFGS update, with the step s, the change y of the gradient, and c = s^T y:
  //   (1 - s y^T / c) H (1 - y s^T / c) + s s^T / c
  //   = H + (1 + y^T H y / c) s s^T / c - (H y s^T + s (H y)^T) / c.
  void update(const Change& change) {
    const auto& [s, y, c] = change;
    if (!inverse_.defined()) inverse_ = eye(s.size(), s.dtype(), s.device()) * (c / dot(y, y));
    const Tensor hy = matmul(inverse_, y), cross = outer(hy, s);
    inverse_ = inverse_ + outer(s, s) * ((1 + dot(y, hy) / c) / c) - (cross + matrix_transpose(cross)) * (1 / c);
  }

  const MinimizeOptions& options_;
  Tensor inverse_;
  std::deque<Change> changes_;
};

bool is_small(const Tensor& gradient, double gtol) {
  return gradient.size() == 0 || max(abs(gradient)).item<double>() <= gtol;
}

void check_options(const MinimizeOptions& options) {
  if (!(options.gtol >= 0 && std::isfinite(options.gtol)))
    fail<Error>("minimize: gtol is {}; it must be a number that is not negative", options.gtol);
  if (options.steps < 0)
    fail<Error>("minimize: at most {} steps: give a positive number, or 0 for the default", options.steps);
  if (options.memory < 1) fail<Error>("minimize: L-BFGS is to keep {} steps: it must keep at least 1", options.memory);
}

// ---- searches ----------------------------------------------------------------------------

/// A function of a vector, without derivatives with respect to captured values.
struct Smooth {
  ValueAndGradient value_and_gradient;
  HessianTimes hessian;

  // Returns how precisely conjugate gradients solve for a step. This makes Newton's method converge
  // superlinearly: (7.3) of Nocedal and Wright.
  TruncatedCgLimits limits(const Tensor& gradient) const {
    return {.tolerance = std::min(0.5, std::sqrt(std::sqrt(dot(gradient, gradient)))), .products = 2 * gradient.size()};
  }
};
Tensor identity(const Tensor& x) { return x; }

/// A search, which goes on from `here`, and counts its steps and its evaluations of the function.
struct Search {
  const Smooth& f;
  const MinimizeOptions& options;
  LinePoint here;
  Index steps = 0, evaluations = 1;

  bool goes_on() const {
    const Index most = options.steps > 0 ? options.steps : 200 * std::max<Index>(here.x.size(), 1);
    return steps < most && !is_small(here.gradient, options.gtol);
  }
  Tensor newton_direction() const {
    const auto product = [&](const Tensor& v) { return f.hessian(here.x, v); };
    return truncated_cg(product, identity, here.gradient, f.limits(here.gradient));
  }
  void run_line_searches() {
    const bool is_newton = options.method == MinimizeMethod::newton_cg;
    Model model(options);
    for (; goes_on(); ++steps) {
      Tensor direction = is_newton ? newton_direction() : -model.times(here.gradient);
      here.slope = dot(direction, here.gradient);
      if (!(here.slope < 0)) {  // rounding can make the direction point uphill
        model.forget();
        direction = -here.gradient;
        here.slope = dot(direction, here.gradient);
      }
      here.a = 0;
      // Without a model, the first trial step of the line search has a length of at most 1.
      const double first = model.is_identity() && !is_newton ? std::min(1., 1 / std::sqrt(-here.slope)) : 1;
      const std::optional<LinePoint> next = LineSearch(f.value_and_gradient, here, direction, evaluations).found(first);
      if (!next) {
        if (model.is_identity()) return;
        model.forget();
        continue;
      }
      const Tensor step = next->x - here.x, change = next->gradient - here.gradient;
      if (!is_newton) model.learn({step, change, dot(step, change)});
      here = *next;
    }
  }
  // Returns the step within the radius, and the decrease that the model predicts.
  std::pair<Tensor, double> trust_region_step(double radius) const {
    const Tensor& g = here.gradient;
    LinearProduct product = [&](const Tensor& v) { return f.hessian(here.x, v); };
    const auto with_decrease = [&](const Tensor& p) { return std::pair(p, -dot(g, p) - dot(p, product(p)) / 2); };
    if (options.method == MinimizeMethod::dogleg) {
      const Tensor matrix = vmap(product)(eye(g.size(), g.dtype(), g.device()));
      product = [matrix](const Tensor& v) { return matmul(matrix, v); };
      const Tensor factor = cholesky(matrix, {.nan_if_indefinite = true});
      if (!not_finite(factor)) {
        const Tensor half = triangular_solve(factor, -g, {.lower = true});
        const Tensor newton = triangular_solve(factor, half, {.lower = true, .transpose = true});
        const Tensor steepest = -g * (dot(g, g) / dot(g, product(g)));
        return with_decrease(dogleg(newton, steepest, full({}, radius, g.dtype()), ones_like(g)));
      }
    }
    TruncatedCgLimits limits = f.limits(g);
    limits.radius = full({}, radius, g.dtype());
    return with_decrease(truncated_cg(product, identity, g, limits));
  }
  // Algorithm 4.1 of Nocedal and Wright's Numerical Optimization, with the constants of SciPy. Near
  // the minimum, both decreases are smaller than the rounding errors of the value. Ten epsilons of
  // the value are added to both, so that their ratio tends to 1 (Conn, Gould, Toint, "Trust Region
  // Methods", 2000, section 17.4.2).
  void run_trust_region() {
    const double epsilon = epsilon_of(here.x.dtype());
    for (double radius = 1; goes_on(); ++steps) {
      const auto [step, predicted] = trust_region_step(radius);
      const double length = std::sqrt(dot(step, step));
      if (!(length > epsilon * std::sqrt(dot(here.x, here.x)))) return;
      const Tensor x = here.x + step;
      const auto [value, gradient] = f.value_and_gradient(x);
      ++evaluations;
      const double number = value.item<double>(), noise = 10 * epsilon * std::abs(here.value);
      const double ratio = predicted > 0 ? (here.value - number + noise) / (predicted + noise) : -1;
      if (!(ratio >= 0.25)) radius = std::min(length, radius) / 4;
      else if (ratio > 0.75 && length > 0.99 * radius) radius *= 2;
      if (ratio > 0.15) here = {0, number, 0, x, gradient, value};
    }
  }
};

}  // namespace

Minimum<Tensor> minimize_flat(const ValueAndGradient& f, const HessianTimes& hessian, const Tensor& start,
                              const MinimizeOptions& options) {
  if (!is_float(start.dtype()))
    fail<DtypeError>("minimize: the start is {}: convert it to floats with astype", start.dtype());
  check_options(options);
  if (const char* const number = not_finite(start))
    fail<Error>("minimize: the start has an element that is {}", number);
  const Smooth constant{[&](const Tensor& x) {
                          const auto [value, gradient] = f(x);
                          return std::pair(stop_gradient(value), stop_gradient(gradient));
                        },
                        [&](const Tensor& x, const Tensor& v) { return stop_gradient(hessian(x, v)); }};
  const Tensor first = stop_gradient(start);
  const auto [value, gradient] = f(first);
  const int derivatives = possible_derivatives(gradient);
  LinePoint here{0, value.item<double>(), 0, first, stop_gradient(gradient), stop_gradient(value)};
  if (!std::isfinite(here.value)) fail<Error>("minimize: the function is {} at the start", here.value);
  if (const char* const number = not_finite(here.gradient))
    fail<Error>("minimize: at the start the function is {}, but an element of its gradient is {}", here.value, number);

  Search search{constant, options, here};
  const bool by_trust_region = options.method == MinimizeMethod::trust_ncg || options.method == MinimizeMethod::dogleg;
  if (by_trust_region) search.run_trust_region();
  else search.run_line_searches();
  Minimum<Tensor> found{search.here.x, search.here.tensor, search.here.gradient,
                        search.steps,  search.evaluations, is_small(search.here.gradient, options.gtol)};
  if (derivatives > 0) {
    found.x = with_derivatives_of_root([&](const Tensor& x) { return f(x).second; }, found.x,
                                       full(found.x.shape(), true), derivatives);
    std::tie(found.value, found.grad) = f(found.x);
  }
  return found;
}

}  // namespace stave_detail
