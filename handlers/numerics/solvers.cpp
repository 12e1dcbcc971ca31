#include <stave/handlers/numerics/solvers.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/reduce.h>
#include <stave/core/tensor/fail.h>

namespace stave_detail {

const char* not_finite(const Tensor& x) {
  if (x.size() == 0 || sum(x * 0).item<double>() == 0) return nullptr;
  return max(astype(isnan(x), int32)).item<int>() ? "nan" : "inf";
}

void check_fixed_point(double tolerance, Index steps, const std::vector<Tensor>& start) {
  if (!(tolerance >= 0 && tolerance < std::numeric_limits<double>::infinity()))
    fail<Error>("fixed_point: the tolerance is {}; it must be a positive number, or 0 for 16 epsilons of the dtype",
                tolerance);
  if (steps < 1) fail<Error>("fixed_point: at most {} steps: there must be at least 1", steps);
  for (std::size_t i = 0; i < start.size(); ++i)
    if (const char* const number = not_finite(start[i]))
      fail<Error>("fixed_point: the start{} has an element that is {}",
                  start.size() > 1 ? fmt::format(", in its tensor {},", i) : "", number);
}

bool has_settled(const std::vector<Tensor>& next, const std::vector<Tensor>& x, double tolerance, Index step_number,
                 double& moved) {
  check_same_structure(next.size() == x.size(), "fixed_point: the result of f and its argument");
  bool settled = true;
  moved = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (next[i].size() == 0) continue;
    const double step = max(abs(next[i] - x[i]) / (1 + abs(x[i]))).item<double>();
    if (!std::isfinite(step)) {
      const char* const number = not_finite(next[i]);
      fail<Error>(
          "fixed_point: step {} gave an element that is {}, from values that are finite: the function does not "
          "contract there, or has an argument that is not finite",
          step_number + 1, number ? number : "too large");
    }
    moved = std::max(moved, step);
    settled = settled && step <= (tolerance > 0 ? tolerance : 16 * epsilon_of(next[i].dtype()));
  }
  return settled;
}

void fail_no_fixed_point(Index steps, double moved) {
  fail<Error>(
      "fixed_point: after {} steps the last one moved an element by {:.2g} (1 + |x|): give more steps, a larger "
      "tolerance, or a "
      "function that contracts",
      steps, moved);
}

}  // namespace stave_detail
