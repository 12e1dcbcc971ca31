// Regression by a Gaussian process. The three parameters of its kernel maximise the likelihood of
// the data. Adam comes close, by gradients through a Cholesky factor; then Newton's method
// converges, by the Hessian of the same function.
#include <cmath>
#include <iostream>
#include <numbers>

#include <stave/stave.h>

#include "check.h"

using namespace stave;

struct Data {
  Tensor x, y;
};

// Returns -log p(y). y is normal with the covariance s^2 exp(-(x - x')^2 / 2 l^2), plus noise^2 on
// the diagonal. `p` holds the logarithms of l, s and noise. Rasmussen and Williams, Gaussian
// Processes for Machine Learning, 2006, algorithm 2.1.
Tensor negative_log_likelihood(const Tensor& p, const Data& data) {
  const Index n = data.x.size();
  const Tensor distance2 = square(expand_dims(data.x, 1) - data.x), scales2 = exp(2 * p);
  const Tensor kernel = scales2(1) * exp(-distance2 / (2 * scales2(0))) + scales2(2) * eye(n, float64);
  const Tensor l = cholesky(kernel), whitened = triangular_solve(l, data.y, {.lower = true});
  return sum(square(whitened)) / 2 + sum(log(diagonal(l))) +
         0.5 * static_cast<double>(n) * std::log(2 * std::numbers::pi);
}

int main() {
  const Tensor x = linspace(0, 3, 128, float64);
  const Data data{x, sin(3 * x) + 0.1 * cos(40 * x)};
  const auto loss = [&](const Tensor& p) { return negative_log_likelihood(p, data); };

  Tensor p = zeros({3}, float64);
  const auto optimizer = adam({.learning_rate = 0.05});
  auto state = optimizer.init(p);
  for (int step = 0; step < 100; ++step) std::tie(p, state) = optimizer.update(p, grad(loss)(p), state);
  std::cout << "adam, 100 steps: " << exp(p) << ", -log p(y) = " << loss(p) << "\n";
  // Results of JAX 0.10.2 and Optax 0.2.8.
  check(allclose(p, tensor({-0.35749348305655304, 0.17881335855436878, -2.5931436885313857}, float64), 1e-9),
        "a hundred steps of Adam are Optax's");

  for (int step = 0; step < 4; ++step) p -= solve(hessian(loss)(p), grad(loss)(p));
  std::cout << "Newton, 4 steps: " << exp(p) << ", -log p(y) = " << loss(p) << "\n";
  check(norm(grad(loss)(p)).item<double>() < 1e-8, "Newton's method arrives");
  check(allclose(p, tensor({-0.3609954057286009, 0.17208834814011859, -2.6175838288266116}, float64), 1e-9),
        "where JAX arrives");
  check(min(eigvalsh(hessian(loss)(p))).item<double>() > 4, "at a minimum");
}
