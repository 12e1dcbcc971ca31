// Newton's method. A Hessian is forward mode over reverse mode: hessian(f) is jacfwd(jacrev(f)).
// hvp multiplies the Hessian by a vector without computing the matrix.
#include <iostream>

#include <stave/stave.h>

#include "check.h"

using namespace stave;

// Rosenbrock's function: a curved, narrow valley whose minimum is at (1, 1).
Tensor valley(const Tensor& x) { return square(1 - x[0]) + 100 * square(x[1] - square(x[0])); }

int main() {
  Tensor x = tensor({-1.2, 1.}, float64);
  for (int step = 1; step <= 6; ++step) {
    x -= solve(hessian(valley)(x), grad(valley)(x));
    std::cout << "step " << step << ": " << x << "\n";
  }
  check(allclose(x, ones({2}, float64), 1e-6), "six steps reach the lowest point");

  const Tensor v = tensor({0.5, -2.}, float64);
  check(allclose(hvp(valley, x, v), matmul(hessian(valley)(x), v)), "hvp is the hessian times a vector");
}
