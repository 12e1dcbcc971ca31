// Control flow. Under grad and jvp a tensor has a value, so if, while, recursion and item() work as
// in C++. Under vmap a tensor holds the values of many examples. Where a branch depends on a value
// that differs between them, the examples are split into groups: the function runs once for each
// path that a group takes.
#include <iostream>

#include <stave/stave.h>

#include "check.h"

using namespace stave;

// Computes a square root by Heron's method, in as many steps as x needs.
Tensor heron(const Tensor& x) {
  Tensor root = x;
  while (bool(abs(root * root - x) > 1e-12 * x)) root = (root + x / root) / 2;
  return root;
}

// Computes x^n by recursion.
Tensor power(const Tensor& x, int n) {
  if (n == 0) return ones_like(x);
  const Tensor half = power(x, n / 2);
  return n % 2 ? half * half * x : half * half;
}

Tensor leaky(const Tensor& x) {
  if (x > 0) return x;
  return 0.1 * x;
}

int main() {
  const Tensor two = tensor(2., float64), one = tensor(1., float64);

  const Tensor slope = grad(heron)(two);
  std::cout << "d sqrt(x) / dx at 2: " << slope << "\n";
  check(allclose(slope, 0.5 / sqrt(two)), "the derivative of a loop that depends on its values");

  const auto [value, tangent] = jvp([](const Tensor& x) { return power(x, 10); }, two, one);
  std::cout << "x^10 and its derivative at 2: " << value << " " << tangent << "\n";
  check(value.item<double>() == 1024 && tangent.item<double>() == 5120, "the derivative of a recursion");

  const Tensor second = grad(grad([](const Tensor& x) { return power(x, 3); }))(two);
  check(second.item<double>() == 12, "derivatives of derivatives, too");

  check(grad(leaky)(two).item<double>() == 1 && grad(leaky)(-two).item<double>() == 0.1,
        "the branch that was taken counts");

  const Tensor xs = tensor({-2., 4., 9., -3., 1e6, 4.}, float64);
  std::cout << "leaky: " << vmap(leaky)(xs) << ", its slope: " << vmap(grad(leaky))(xs) << "\n";
  check(array_equal(vmap(leaky)(xs), where(xs > 0, xs, 0.1 * xs)), "each lane takes its branch");

  int runs = 0;
  const auto counted = [&](const Tensor& x) {
    ++runs;
    return heron(x);
  };
  const Tensor roots = vmap(counted)(abs(xs));
  std::cout << "square roots: " << roots << ", in " << runs << " ways\n";
  check(allclose(roots, sqrt(abs(xs))), "each lane takes as many steps as it needs");
  check(allclose(vmap(grad(heron))(abs(xs)), 0.5 / sqrt(abs(xs))), "and has its derivative");
}
