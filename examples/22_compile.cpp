// Programs. trace(f) returns the operations that f performs as a list. compile(f) records f at its
// first call and replays the recording afterwards, with forward and backward pass as one program. A
// value that f reads is a branch of the recording: a line search, with its `while`, is recorded
// once for each path that it takes.
#include <algorithm>
#include <chrono>
#include <iostream>

#include <stave/stave.h>

#include "check.h"

using namespace stave;

struct Model {
  Tensor w, b;
};

Tensor loss(const Model& m, const Tensor& x, const Tensor& y) {
  const Scope scope("loss");
  return mean(square(tanh(matmul(x, m.w) + m.b) - y));
}

// Steepest descent. Each step is halved until the function falls far enough (Armijo's condition).
Tensor descend(const Tensor& start) {
  const auto f = [](const Tensor& x) { return sum(square(square(x) - 2)); };
  Tensor x = start;
  for (int k = 0; k < 50; ++k) {
    const auto [value, slope] = value_and_grad(f)(x);
    const Tensor steepness = sum(square(slope));
    if (steepness.item<double>() < 1e-20) break;
    Tensor step = tensor(1., float64);
    while (f(x - step * slope) > value - 1e-4 * step * steepness) step = step / 2;
    x = x - step * slope;
  }
  return x;
}

template <class F>
double microseconds(F f) {
  double best = 1e9;
  for (int run = 0; run < 20; ++run) {
    const auto start = std::chrono::steady_clock::now();
    f();
    best = std::min(best, std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

int main() {
  const Tensor x = uniform(Key(0), {32, 4}), y = uniform(Key(1), {32, 2});
  Model model{uniform(Key(2), {4, 2}), zeros({2})};

  std::cout << trace(loss)(model, x, y) << "\n";

  // A training step in plain C++. Its gradient, its update and the rest become one program.
  const auto step = [](const Model& m, const Tensor& inputs, const Tensor& targets) {
    const Model slope = grad(loss)(m, inputs, targets);
    return Model{m.w - 0.1 * slope.w, m.b - 0.1 * slope.b};
  };
  const auto compiled = compile(step);
  Model plain = model;
  for (int i = 0; i < 100; ++i) {
    model = compiled(model, x, y);
    plain = step(plain, x, y);
  }
  check(array_equal(model.w, plain.w) && array_equal(model.b, plain.b), "a compiled step gives the same, bit for bit");
  check(compiled.recordings() == 1, "it is recorded once");
  std::cout << "a step: " << microseconds([&] { step(model, x, y); }) << " us, compiled "
            << microseconds([&] { compiled(model, x, y); }) << " us\n";

  const auto search = compile(descend);
  for (const double a : {0.5, 3., 0.5, 1., 3.}) {
    const Tensor start = tensor({a, -a, 2 * a}, float64);
    check(array_equal(search(start), descend(start)), "a compiled line search gives the same, bit for bit");
  }
  std::cout << "ways of the line search: " << search.recordings() << "\n";
  check(search.recordings() == 3, "one way for each start");

  // The square of x as a program, under transforms.
  const auto p = trace([](const Tensor& v) { return v * v; })(tensor(3.));
  check(grad(p)(tensor(5.)).item<float>() == 10, "a program has a derivative");
  check(array_equal(vmap(p)(tensor({1., 2.})), tensor({1., 4.})), "and lanes");
}
