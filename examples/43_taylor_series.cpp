// Taylor series. The Lorenz system is integrated to the last digits by series of its solution: one
// run of the equation gives all coefficients of a step.
#include <cmath>
#include <iostream>

#include <stave/handlers/taylor/jet.h>
#include <stave/handlers/taylor/laplacian.h>
#include <stave/stave.h>

#include "check.h"

using namespace stave;

Tensor lorenz(const Tensor& y, const Tensor&) {
  return stack({10. * (y(1) - y(0)), y(0) * (28. - y(2)) - y(1), y(0) * y(1) - 8. / 3. * y(2)});
}

int main() {
  const Tensor x = tensor(0.5, float64), v = tensor(1., float64);
  const auto f = [](const Tensor& t) { return exp(-t * t) / (1. + t); };
  const std::vector<Tensor> c = taylor(f, 12)(x, v);  // of f(0.5 + t)
  std::cout << "coefficient 12: " << c[12] << "\n";
  std::cout << "f(0.6) by the series: " << evaluate_series(c, 0.1) << ", error "
            << (abs(evaluate_series(c, 0.1) - f(x + 0.1)) < 1e-13 ? "below" : "above") << " 1e-13\n";

  // The coefficients of one step, and the step.
  const Tensor start = ones({3}, float64), zero = zeros({}, float64);
  const std::vector<Tensor> step = series_of_solution(lorenz, start, zero, 20);
  std::cout << "y'(0) = " << step[1] << ", y''(0)/2 = " << step[2] << "\n";

  // odeint takes such steps, as long as the coefficients allow.
  const auto path = odeint(lorenz, {.rtol = 1e-16, .atol = 1e-16, .method = OdeMethod::taylor, .order = 20});
  const Tensor end = path(start, tensor({0., 1.}, float64))(1);
  std::cout << "y(1) = " << end << "\n";
  // The same by mpmath with 40 digits.
  const Tensor exact = tensor({-9.3785700109250624, -8.3570337884266447, 29.362325337363418}, float64);
  check(allclose(end, exact, 1e-14, 0), "the solution is exact to 1e-14");

  // The second derivatives of a function of three numbers, summed.
  const auto gaussian = [](const Tensor& u) { return exp(-sum(square(u))); };
  const Tensor at = tensor({0.1, 0.2, 0.3}, float64), r = sum(square(at));
  std::cout << "Laplacian " << laplacian(gaussian)(at) << "\n";
  check(allclose(laplacian(gaussian)(at), (4 * r - 6) * exp(-r), 1e-14, 0), "and it is (4 r^2 - 6) exp(-r^2)");
}
