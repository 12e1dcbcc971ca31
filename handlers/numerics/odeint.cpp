#include <stave/handlers/numerics/odeint.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/reduce.h>
#include <stave/core/tensor/fail.h>
#include <stave/handlers/numerics/solvers.h>
#include <stave/handlers/taylor/jet.h>
#include <stave/handlers/transforms/custom.h>
#include <stave/handlers/transforms/vjp.h>

namespace stave_detail {

namespace {

// ---- one interval ------------------------------------------------------------------------

// The coefficients of the method of Dormand and Prince. The last stage of a step is the first stage
// of the next one.
constexpr int stages = 7;
constexpr double nodes[stages] = {0, 1. / 5, 3. / 10, 4. / 5, 8. / 9, 1, 1};
// Row i gives the y at which stage i is evaluated. The last row also gives y at the end of the
// step.
constexpr double weights[stages][stages - 1] = {{},
                                                {1. / 5},
                                                {3. / 40, 9. / 40},
                                                {44. / 45, -56. / 15, 32. / 9},
                                                {19372. / 6561, -25360. / 2187, 64448. / 6561, -212. / 729},
                                                {9017. / 3168, -355. / 33, 46732. / 5247, 49. / 176, -5103. / 18656},
                                                {35. / 384, 0, 500. / 1113, 125. / 192, -2187. / 6784, 11. / 84}};
// The weights of order 5 minus those of order 4.
constexpr double errors[stages] = {71. / 57600, 0, -71. / 16695, 71. / 1920, -17253. / 339200, 22. / 525, -1. / 40};

using Slopes = std::array<Tensor, stages>;

class Integration {
 public:
  Integration(const Dynamics& f, const Tensor& times, const Tensor& parameters, const OdeOptions& options,
              const std::string& where)
      : f_(f), times_(times), parameters_(parameters), options_(options), where_(where) {}

  /// Returns y at `end`, given y at `begin`.
  Tensor integrate_to(Tensor y, double begin, double end) {
    if (begin == end || y.size() == 0) return y;
    const double direction = end > begin ? 1 : -1;
    double t = begin;
    Slopes k;
    k[0] = slope(y, t);
    if (taken_ == 0)
      if (const char* const number = not_finite(k[0]))
        fail<Error>(
            "odeint: at the first time, t = {:.6g}, the equation gives a derivative that is {}{}: look at its "
            "arguments",
            t, number, where_);
    if (options_.method == OdeMethod::taylor) return integrate_by_series(std::move(y), t, end);
    if (step_ == 0) step_ = first_step(y, t, k[0], direction);
    for (Index taken = 0; t != end; ++taken, ++taken_) {
      if (taken == options_.steps) fail_at(t, "there were {} steps since the previous requested time");
      const double left = std::abs(end - t), length = std::min(step_, left);
      if (!(t + direction * length != t)) fail_at(t, "no step is short enough for the tolerances");
      const double h = direction * length;
      const Tensor next = take_step(y, t, h, k);
      const double error = size(combined(errors, stages, k) * h, y, next);
      // A step is 10 % shorter than the error estimate allows, and 1/8 to 10 times as long as the
      // one before.
      const double factor = error == 0 ? 10 : std::clamp(0.9 * std::pow(error, -0.2), 0.125, 10.);
      if (error <= 1) {
        y = next;
        t = length == left ? end : t + h;
        k[0] = k[stages - 1];
        step_ = length < step_ ? std::max(step_, length * factor) : length * factor;
      } else {
        // An error that is not a number means that the step is far too long.
        step_ = length * (error > 1 ? std::min(factor, 1.) : 0.125);
      }
    }
    return y;
  }

 private:
  // Integrates by steps of a Taylor series, whose last two coefficients determine the step length
  // (Jorba, Zou, section 3): the error is about that of the first term left out.
  Tensor integrate_by_series(Tensor y, double t, double end) {
    for (Index taken = 0; t != end; ++taken, ++taken_) {
      if (taken == options_.steps) fail_at(t, "there were {} steps since the previous requested time");
      const auto series = series_of_solution(
          [&](const Tensor& at, const Tensor& time) { return require_defined(f_(at, time, parameters_), "odeint"); }, y,
          time_of(t, y), order());
      const double left = std::abs(end - t), length = std::min(series_step(series, y), left);
      const double direction = end > t ? 1 : -1;
      if (!(length > 0 && t + direction * length != t)) fail_at(t, "no step is short enough for the tolerances");
      y = evaluate_series(series, direction * length);
      t = length == left ? end : t + direction * length;
    }
    return y;
  }
  int order() const {
    if (options_.order) return options_.order;
    const double tolerance = options_.rtol > 0 ? options_.rtol : options_.atol;
    return std::max(2, static_cast<int>(std::ceil(1 - std::log(tolerance) / 2)));
  }
  // The length at which the terms of the last two orders are as large as the allowed error. (One of
  // the two may vanish, as in the series of an even function.)
  double series_step(const std::vector<Tensor>& series, const Tensor& y) const {
    double step = std::numeric_limits<double>::infinity();
    for (std::size_t k = series.size() - 2; k < series.size(); ++k) {
      const double term = size(series[k], y, y);
      if (!std::isfinite(term)) return 0;
      if (term != 0) step = std::min(step, std::pow(term, -1. / static_cast<double>(k)));
    }
    return 0.9 * step;
  }
  Tensor time_of(double t, const Tensor& y) const { return astype(tensor(t, float64, y.device()), times_.dtype()); }
  Tensor slope(const Tensor& y, double t) const { return require_defined(f_(y, time_of(t, y), parameters_), "odeint"); }
  static Tensor combined(const double* by, int count, const Slopes& k) {
    Tensor sum;
    for (int i = 0; i < count; ++i)
      if (by[i] != 0) sum = add_tangents(std::move(sum), k[static_cast<std::size_t>(i)] * by[i]);
    return sum;
  }
  Tensor take_step(const Tensor& y, double t, double h, Slopes& k) const {
    Tensor next;
    for (int stage = 1; stage < stages; ++stage) {
      next = y + combined(weights[stage], stage, k) * h;
      k[static_cast<std::size_t>(stage)] = slope(next, t + nodes[stage] * h);
    }
    return next;
  }
  /// Returns the root mean square of an error, in units of the allowed error.
  double size(const Tensor& error, const Tensor& y, const Tensor& next) const {
    const Tensor allowed = options_.atol + options_.rtol * maximum(abs(y), abs(next));
    return std::sqrt(mean(square(error / allowed)).item<double>());
  }
  // The starting step size: Hairer, Norsett, Wanner, section II.4.
  double first_step(const Tensor& y, double t, const Tensor& k, double direction) const {
    const double d0 = size(y, y, y), d1 = size(k, y, y);
    const double guess = d0 < 1e-5 || d1 < 1e-5 ? 1e-6 : 0.01 * d0 / d1;
    const Tensor ahead = slope(y + k * (direction * guess), t + direction * guess);
    const double d2 = size(ahead - k, y, y) / guess, most = std::max(d1, d2);
    const double step = most <= 1e-15 ? std::max(1e-6, guess * 1e-3) : std::pow(0.01 / most, 0.2);
    return step == step ? std::min(100 * guess, step) : guess;
  }
  [[noreturn]] void fail_at(double t, const char* why) const {
    fail<Error>("odeint: at t = {:.6g}{} {}: the solution may grow without bound there, or the equation may be stiff",
                t, where_, fmt::format(fmt::runtime(why), options_.steps));
  }

  const Dynamics& f_;
  const Tensor &times_, &parameters_;
  const OdeOptions& options_;
  // The lane for error messages, such as ", in lane 2".
  const std::string& where_;
  // The number of steps since the first of the times, including rejected steps.
  Index taken_ = 0;
  // The length to try for the next step; 0 if it is not known yet.
  double step_ = 0;
};

void check_options(const OdeOptions& options) {
  const auto is_tolerance = [](double x) { return x >= 0 && std::isfinite(x); };
  if (!is_tolerance(options.rtol) || !is_tolerance(options.atol) || options.rtol + options.atol == 0)
    fail<Error>(
        "odeint: the tolerances are rtol = {} and atol = {}: they must be numbers that are not negative and not both 0",
        options.rtol, options.atol);
  if (options.order != 0 && (options.order < 2 || options.method != OdeMethod::taylor))
    fail<Error>("odeint: the order is {}: it must be 0 or, for OdeMethod::taylor, at least 2", options.order);
  if (options.steps < 1) fail<Error>("odeint: at most {} steps: there must be at least 1", options.steps);
}

// ---- the solution and its rules ----------------------------------------------------------

Tensor integrated(const Dynamics& f, const Tensor& y0, const Tensor& times, const Tensor& parameters,
                  const OdeOptions& options, const std::string& where) {
  const std::vector<double> at = astype(times, float64).to_vector<double>();
  for (std::size_t i = 0; i < at.size(); ++i)
    if (!std::isfinite(at[i])) fail<Error>("odeint: time {} is {}{}: times must be finite numbers", i, at[i], where);
  if (const char* const number = not_finite(y0))
    fail<Error>("odeint: the start has an element that is {}{}", number, where);
  for (std::size_t i = 2; i < at.size(); ++i)
    if ((at[i] - at[i - 1]) * (at[1] - at[0]) < 0)
      fail<Error>("odeint: times must rise or fall throughout: {}, {}, {}", at[i - 2], at[i - 1], at[i]);
  Integration integration(f, times, parameters, options, where);
  std::vector<Tensor> path{y0};
  for (std::size_t i = 1; i < at.size(); ++i) path.push_back(integration.integrate_to(path.back(), at[i - 1], at[i]));
  return stack(path);
}

// Returns the dynamics of the adjoint equation, which is integrated backwards in time.
// Its state is the concatenation of
//  y             the solution, [n]
//  a             the cotangent of y, [n], with a' = -f_y^T a
//  to_t          the cotangent of the first time, [1], with to_t' = -f_t^T a
//  to_parameters the cotangents of the parameters, [m], with to_parameters' = -f_p^T a
Dynamics adjoint(const Dynamics& f, Index n) {
  return [=](const Tensor& state, const Tensor& t, const Tensor& parameters) {
    const Tensor y = entries(state, 0, 0, n), a = entries(state, 0, n, n);
    const auto [slope, pullback] = vjp(f, y, t, parameters);
    const auto [to_y, to_t, to_parameters] = pullback(a);
    return concat({slope, -to_y, -reshape(astype(to_t, y.dtype()), {1}), -astype(to_parameters, y.dtype())});
  };
}

struct Solution {
  Tensor path, times, parameters;
};

Tensor solved(const Dynamics& f, const Tensor& y0, const Tensor& times, const Tensor& parameters,
              const OdeOptions& options, const std::string& where);

std::tuple<Tensor, Tensor, Tensor> cotangents(const Dynamics& f, const Solution& solution, const Tensor& ct,
                                              const OdeOptions& options, const std::string& where) {
  const auto& [path, times, parameters] = solution;
  const Index count = path.shape(0), n = path.shape(1), m = parameters.size();
  const Dynamics backwards = adjoint(f, n);
  if (const char* const number = not_finite(ct))
    fail<Error>("odeint: the cotangent of the solution has an element that is {}{}, which cannot be integrated back",
                number, where);
  Tensor a = ct(count - 1), to_start = zeros({1}, path.dtype(), path.device());
  Tensor to_parameters = zeros({m}, path.dtype(), path.device());
  std::vector<Tensor> to_times;
  for (Index i = count - 1; i > 0; --i) {
    const Tensor y = path(i), moved = sum(ct(i) * f(y, times(i), parameters));
    to_times.push_back(moved);
    to_start = to_start - moved;
    const Tensor back = solved(backwards, concat({y, a, to_start, to_parameters}), stack({times(i), times(i - 1)}),
                               parameters, options, where);
    const Tensor state = back(1);
    a = entries(state, 0, n, n) + ct(i - 1);
    to_start = entries(state, 0, 2 * n, 1);
    to_parameters = entries(state, 0, 2 * n + 1, m);
  }
  to_times.push_back(reshape(to_start, {}));
  std::reverse(to_times.begin(), to_times.end());
  return {a, astype(stack(to_times), times.dtype()), astype(to_parameters, parameters.dtype())};
}

Tensor solved(const Dynamics& f, const Tensor& y0, const Tensor& times, const Tensor& parameters,
              const OdeOptions& options, const std::string& where) {
  if (!is_float(y0.dtype()) || !is_float(require_defined(times, "odeint", 1).dtype()))
    fail<DtypeError>("odeint: the start is {} and times are {}: convert to floats with astype", y0.dtype(),
                     times.dtype());
  if (times.rank() != 1 || times.size() == 0)
    fail<ShapeError>("odeint: times have shape {}: a vector of at least one is needed", times.shape());
  check_options(options);
  const auto found = [=](const Tensor& y, const Tensor& ts, const Tensor& p) {
    return integrated(f, y, ts, p, options, where);
  };
  const auto forward = [=](const Tensor& y, const Tensor& ts, const Tensor& p) {
    const Tensor path = solved(f, y, ts, p, options, where);
    return std::pair(path, std::tuple(path, ts, p));
  };
  const auto backward = [=](const std::tuple<Tensor, Tensor, Tensor>& kept, const Tensor& ct) {
    const auto& [path, ts, p] = kept;
    return cotangents(f, {path, ts, p}, ct, options, where);
  };
  const auto lanes = [=](Index count, const std::vector<bool>& batched, const Tensor& y, const Tensor& ts,
                         const Tensor& p) {
    std::vector<Tensor> paths;
    const auto of = [&](const Tensor& x, std::size_t which, Index lane) { return batched[which] ? x(lane) : x; };
    for (Index lane = 0; lane < count; ++lane)
      paths.push_back(solved(f, of(y, 0, lane), of(ts, 1, lane), of(p, 2, lane), options,
                             fmt::format("{}, in lane {}", where, lane)));
    if (count > 0) return stack(paths);
    return zeros({0, ts.shape(-1), y.shape(-1)}, y.dtype(), y.device());
  };
  return custom_vmap(custom_vjp(found, forward, backward), lanes)(y0, times, parameters);
}

}  // namespace

Tensor odeint_flat(const Dynamics& f, const Tensor& y0, const Tensor& times, const Tensor& parameters,
                   const OdeOptions& options) {
  return solved(f, y0, times, parameters, options, "");
}

}  // namespace stave_detail
