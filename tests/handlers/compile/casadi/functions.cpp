// Functions that check.py loads into CasADi and compares with CasADi's own.
#include <tuple>

#include <stave/handlers/compile/write_c.h>
#include <stave/stave.h>

using namespace stave;

namespace {

Tensor some(const Shape& shape) { return full(shape, 0.5, float64); }

}  // namespace

// Matrices, vectors and numbers, as inputs and outputs.
CFunction mixed() {
  const auto f = [](const Tensor& a, const Tensor& x, const Tensor& s) {
    const Tensor y = s * sin(matmul(a, x));
    return std::tuple(y, exp(s) * a + outer(y, x), sum(square(y)));
  };
  return {trace(f)(some({2, 3}), some({3}), some({})),
          {.interface = Interface::casadi,
           .inputs = {"a", "x", "s"},
           .outputs = {"y", "b", "q"},
           .jacobian = true,
           .forward = true,
           .reverse = true,
           .hessian = true}};
}

// One step of a double integrator; the cost of a state and a force.
CFunction integrator() {
  const auto f = [](const Tensor& x, const Tensor& u) {
    const Tensor position = x[0], speed = x[1], dt = tensor(0.1, float64);
    return stack(std::vector{position + dt * speed, speed + dt * u});
  };
  return {
      trace(f)(some({2}), some({})),
      {.interface = Interface::casadi, .inputs = {"x", "u"}, .outputs = {"next"}, .jacobian = true, .hessian = true}};
}
CFunction cost() {
  const auto f = [](const Tensor& x, const Tensor& u) { return sum(square(x)) + 0.1 * square(u); };
  return {
      trace(f)(some({2}), some({})),
      {.interface = Interface::casadi, .inputs = {"x", "u"}, .outputs = {"cost"}, .jacobian = true, .hessian = true}};
}

// The minimum of Rosenbrock's function is 0 at (1, 1, ...).
CFunction rosenbrock() {
  const auto f = [](const Tensor& x) {
    const Tensor head = x(slice(0, -1)), tail = x(slice(1, none));
    return sum(100. * square(tail - square(head)) + square(1. - head));
  };
  return {trace(f)(some({4})),
          {.interface = Interface::casadi, .inputs = {"x"}, .outputs = {"y"}, .jacobian = true, .hessian = true}};
}

// Fails where x is not positive definite.
CFunction factor() {
  const auto f = [](const Tensor& x) { return cholesky(x); };
  return {trace(f)(eye(2, float64)), {.interface = Interface::casadi, .inputs = {"x"}, .outputs = {"l"}}};
}
