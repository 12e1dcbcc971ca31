#include <stave/handlers/solvers.h>

#include <algorithm>

#include <stave/core/fail.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/reduce.h>

namespace stave_detail {

bool has_settled(const std::vector<Tensor>& next, const std::vector<Tensor>& x, double tolerance, double& moved) {
  check_same_structure(next.size() == x.size(), "fixed_point: what f returns and what it is given");
  bool settled = true;
  moved = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (next[i].size() == 0) continue;
    const double step = max(abs(next[i] - x[i]) / (1 + abs(x[i]))).item<double>();
    moved = step <= moved ? moved : step;  // NaN comes out
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
