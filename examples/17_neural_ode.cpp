// A neural differential equation: a small network gives the velocity of a point, and is trained
// until the point follows a given path. odeint chooses its step sizes as it integrates. The
// gradient comes from the adjoint equation, so no step is stored.
#include <iostream>

#include <stave/stave.h>

#include "check.h"

using namespace stave;

struct Net {
  Tensor w1, b1, w2, b2;
};

Tensor velocity(const Tensor& y, const Tensor&, const Net& net) {
  return matmul(net.w2, tanh(matmul(net.w1, y) + net.b1)) + net.b2;
}

int main() {
  const Tensor times = linspace(0, 1, 11, float64);
  const Tensor spiral = expand_dims(exp(-0.3 * times), 1) * stack({cos(2 * times), sin(2 * times)}, -1);
  const auto path = odeint(velocity, {.rtol = 1e-12, .atol = 1e-12});
  const auto loss = [&](const Net& net) { return mean(square(path(spiral(0), times, net) - spiral)); };

  const Tensor numbers = arange(1, 17, 1, float64);
  Net net{reshape(sin(numbers), {8, 2}), zeros({8}, float64), reshape(cos(numbers), {2, 8}) / 4, zeros({2}, float64)};
  const auto optimizer = adam({.learning_rate = 0.02});
  auto state = optimizer.init(net);
  std::cout << "before: " << loss(net) << "\n";
  for (int step = 0; step < 100; ++step) std::tie(net, state) = optimizer.update(net, grad(loss)(net), state);
  std::cout << "after 100 steps: " << loss(net) << "\n";
  // Results of JAX 0.10.2 and Optax 0.2.8 with the same tolerances.
  check(allclose(loss(net), tensor(0.003112781305144678, float64), 1e-9), "the loss is JAX's after 100 steps");
  check(allclose(global_norm(net), tensor(3.5340120018655647, float64), 1e-9), "and so is the size of the network");
}
