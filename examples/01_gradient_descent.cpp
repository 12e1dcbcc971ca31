// Gradient descent. grad(loss) takes the same arguments as loss, and returns the gradient with
// respect to the first one. The gradient has that argument's type, here Line: any plain struct of
// tensors can hold parameters.
#include <iostream>

#include <stave/stave.h>

#include "check.h"

using namespace stave;

struct Line {
  Tensor slope, intercept;
};

Tensor loss(const Line& line, const Tensor& x, const Tensor& y) {
  return mean(square(line.slope * x + line.intercept - y));
}

int main() {
  const Tensor x = linspace(-1, 1, 50), y = 3 * x - 0.5;
  Line line{zeros({}), zeros({})};
  for (int step = 0; step < 60; ++step) {
    const auto [value, gradient] = value_and_grad(loss)(line, x, y);
    if (step % 20 == 0) std::cout << "step " << step << ": loss " << value << "\n";
    line = tree_map([](const Tensor& w, const Tensor& dw) { return w - 0.5 * dw; }, line, gradient);
  }
  std::cout << "slope " << line.slope << ", intercept " << line.intercept << "\n";

  check(allclose(line.slope, Tensor(3.), 1e-4), "the slope is found");
  check(allclose(line.intercept, Tensor(-0.5), 1e-4), "the intercept is found");
}
