// Burgers' equation u_t + u u_x = nu u_xx on a circle, by a spectral method: derivatives are
// products in Fourier space. The viscosity nu is found from the solution at one time, by the
// gradient through 500 steps of the solver.
#include <iostream>

#include <stave/stave.h>

#include "check.h"

using namespace stave;

constexpr Index points = 128, steps = 500;
constexpr double end = 1, step = end / steps;

int main() {
  const double pi = 3.141592653589793;
  const Tensor x = linspace(0, 2 * pi, points, float64, cpu, false);
  const Tensor k = rfftfreq(points, 1. / points, float64);  // 0, 1, ..., points / 2
  // u u_x = (u^2 / 2)_x. Frequencies above two thirds of the largest one are dropped, because
  // products would alias them.
  const Tensor half_derivative = complex(0, where(k < points / 3., -0.5 * k, 0));

  // The classical Runge-Kutta method for the coefficients z of u.
  const auto solution = [&](const Tensor& nu) {
    const auto velocity = [&](const Tensor& z) {
      return half_derivative * rfft(square(irfft(z))) - nu * square(k) * z;
    };
    Tensor z = rfft(sin(x));
    for (int i = 0; i < steps; ++i) {
      const Tensor a = velocity(z), b = velocity(z + step / 2 * a), c = velocity(z + step / 2 * b);
      z = z + step / 6 * (a + 2 * (b + c) + velocity(z + step * c));
    }
    return irfft(z);
  };

  // The exact solution, by the substitution u = -2 nu p_x / p of Cole and Hopf: p solves the heat
  // equation, whose coefficients decay as e^(-nu k^2 t).
  const double true_nu = 0.2;
  const Tensor heat = rfft(exp((cos(x) - 1) / (2 * true_nu))) * exp(-true_nu * end * square(k));
  const Tensor measured = -2 * true_nu * irfft(heat * complex(0, k)) / irfft(heat);
  check(max(abs(solution(tensor(true_nu, float64)) - measured)).item<double>() < 1e-11, "the solver is accurate");

  // The secant method on the derivative of the loss.
  const auto slope = grad([&](const Tensor& nu) { return sum(square(solution(nu) - measured)); });
  Tensor before = tensor(0.3, float64), nu = tensor(0.28, float64);
  Tensor slope_before = slope(before);
  for (int i = 0; i < 8; ++i) {
    const Tensor now = slope(nu);
    std::cout << "nu = " << nu.item<double>() << ", slope " << now.item<double>() << "\n";
    if (std::abs(now.item<double>()) < 1e-10) break;
    const Tensor next = nu - now * (nu - before) / (now - slope_before);
    before = nu;
    slope_before = now;
    nu = next;
  }
  check(allclose(nu, tensor(true_nu, float64), 1e-6), "the viscosity is found");
}
