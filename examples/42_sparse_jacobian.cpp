// Bratu's boundary-value problem, u'' + exp(u) = 0 with u(0) = u(1) = 0, by Newton's method. The
// Jacobian has 4,000,000 entries, and 5,998 of them are not zero: three directional derivatives
// give them all.
#include <cmath>
#include <iostream>

#include <stave/handlers/structure/sparse_jacobian.h>
#include <stave/stave.h>

#include "check.h"

using namespace stave;

constexpr Index n = 2000;  // inner points of the grid
constexpr double h = 1. / (n + 1);

Tensor residual(const Tensor& u) {
  const Tensor v = pad(u, {{1, 1}});  // with the values at the ends
  return v(slice(2, none)) - 2 * u + v(slice(none, -2)) + h * h * exp(u);
}

int main() {
  Tensor u = zeros({n}, float64);
  const auto jacobian = sparse_jacobian(residual, u);
  const SparsityPattern& pattern = jacobian.pattern();
  std::cout << pattern.entries() << " entries from " << jacobian.jvps() << " jvps\n";

  // Element (i, j) of a matrix with three diagonals is at (1 + i - j, j) of its bands.
  const Tensor i = pattern.row_indices(), j = pattern.column_indices;
  for (int step = 1; step <= 8; ++step) {
    const Tensor bands = zeros({3, n}, float64).at(1 + i - j, j).set(jacobian.values(u));
    const Tensor du = solve_banded(bands, -residual(u), {.lower = 1, .upper = 1});
    u = u + du;
    std::cout << "step " << step << ", max |du| " << (max(abs(du)) < 1e-9 ? "below 1e-9" : "above 1e-9") << "\n";
    if (max(abs(du)) < 1e-9) break;
  }

  // u(x) = -2 log(cosh((x - 1/2) t / 2) / cosh(t / 4)) with t = sqrt(2) cosh(t / 4)
  double t = 1;
  for (int k = 0; k < 100; ++k) t = std::sqrt(2.) * std::cosh(t / 4);
  const Tensor x = arange(1, n + 1, 1, float64) * h;
  const Tensor exact = -2 * log(cosh((x - 0.5) * (t / 2)) / std::cosh(t / 4));
  check(allclose(u, exact, 1e-7, 1e-7), "the solution is that of the formula, to the error of the grid");

  // A pattern is found once; the values are operations, and so may stand under transforms.
  const auto values = [&](const Tensor& v) { return jacobian.values(v); };
  check(vmap(values)(stack({u, 2 * u})).shape() == Shape(2, pattern.entries()), "a row for each point");
  check(allclose(compile(values)(u), values(u), 1e-12, 1e-12), "compiled values are the same");
}
