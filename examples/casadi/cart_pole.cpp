// A cart with a pole on it, for CasADi: its motion and the cost of a state are functions of
// tensors. stave_generate (CMakeLists.txt) writes them as C with exact derivatives, and mpc.py uses
// them.
#include <stave/handlers/compile/write_c.h>
#include <stave/stave.h>

using namespace stave;

namespace {

constexpr double cart = 1, pole = 0.1, length = 0.5, gravity = 9.81, dt = 0.05;

// The derivative of the state: the cart's position and speed, the pole's angle from upright and its
// rate (Barto, Sutton and Anderson, 1983, without friction).
Tensor derivative(const Tensor& state, const Tensor& force) {
  const auto [position, speed, angle, rate] = unstack<4>(state);
  const Tensor s = sin(angle), c = cos(angle);
  const Tensor pushed = (force + pole * length * square(rate) * s) / (cart + pole);
  const Tensor turning = (gravity * s - c * pushed) / (length * (4. / 3 - pole * square(c) / (cart + pole)));
  return stack({speed, pushed - pole * length * turning * c / (cart + pole), rate, turning});
}

// A step of the classical Runge-Kutta method.
Tensor step(const Tensor& x, const Tensor& u) {
  const Tensor k1 = derivative(x, u), k2 = derivative(x + dt / 2 * k1, u), k3 = derivative(x + dt / 2 * k2, u),
               k4 = derivative(x + dt * k3, u);
  return x + dt / 6 * (k1 + 2. * k2 + 2. * k3 + k4);
}

// Small where the pole is upright, the cart in the middle and the force small.
Tensor cost(const Tensor& x, const Tensor& u) {
  return square(x(0)) + 10. * (1. - cos(x(2))) + 0.1 * (square(x(1)) + square(x(3))) + 0.01 * square(u);
}

template <class F>
CFunction for_casadi(F f, std::string result) {
  return {
      trace(f)(zeros({4}, float64), zeros({}, float64)),
      {.interface = Interface::casadi, .inputs = {"x", "u"}, .outputs = {result}, .jacobian = true, .hessian = true}};
}

}  // namespace

CFunction cart_pole_step() { return for_casadi(step, "next"); }
CFunction cart_pole_cost() { return for_casadi(cost, "cost"); }
