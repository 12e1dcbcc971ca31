// Fits a curve to measurements: its parameters with their standard deviations, a robust loss,
// bounds, the influence of each measurement, and five hundred fits at once.
#include <iostream>

#include <stave/handlers/numerics/least_squares.h>
#include <stave/stave.h>

#include "check.h"

using namespace stave;

struct Decay {
  Tensor amplitude, rate, floor;
};
Tensor curve(const Decay& p, const Tensor& t) { return p.amplitude * exp(-p.rate * t) + p.floor; }

int main() {
  const Tensor t = linspace(0, 3, 25, float64);
  const auto number = [](double x) { return tensor(x, float64); };
  const Decay truth{number(3), number(1.3), number(0.5)}, start{number(2), number(1), number(0.4)};
  const Tensor y = curve(truth, t) + 0.05 * normal(Key(7), t.shape(), float64);
  const auto show = [](const char* what, const Tensor& x) { std::cout << what << round(x * 1000) / 1000 << "\n"; };

  const auto misfit = [&](const Decay& p) { return curve(p, t) - y; };
  const auto found = least_squares(misfit, start);
  const Tensor deviations = sqrt(diagonal(parameter_covariance(misfit, found.x)));
  show("amplitude, rate, floor: ", ravel(found.x).first);
  show("standard deviations:    ", deviations);

  // One measurement is wrong. A robust loss lets it count less.
  const Tensor spoiled = scatter_add(y, tensor({{8}}), tensor({4.}, float64));
  const auto spoiled_misfit = [&](const Decay& p) { return curve(p, t) - spoiled; };
  show("with an outlier:        ", ravel(least_squares(spoiled_misfit, start).x).first);
  const auto robust = least_squares(spoiled_misfit, start, {.loss = RobustLoss::cauchy, .f_scale = 0.1});
  show("robust:                 ", ravel(robust.x).first);
  check(allclose(robust.x.rate, found.x.rate, 0.05), "a robust loss is hardly disturbed by an outlier");

  // The floor is known to be at most 0.45.
  const Bounds bounds{Decay{number(0), number(0), number(0)}, Decay{number(9), number(9), number(0.45)}};
  show("within bounds:          ", ravel(least_squares(misfit, start, bounds).x).first);

  // The derivative of the fitted rate by each measurement. Errors of the measurements pass through
  // it.
  const auto rate = [&](const Tensor& measured) {
    return least_squares([&](const Decay& p) { return curve(p, t) - measured; }, start, {.ftol = 1e-14}).x.rate;
  };
  const Tensor influence = grad(rate)(y);
  show("from the influences:    ", 0.05 * sqrt(sum(square(influence))));

  const Tensor repeated = curve(truth, t) + 0.05 * normal(Key(8), {500, t.size()}, float64);
  const Tensor rates = vmap(rate)(repeated);
  show("from 500 repetitions:   ", stave::std(rates));
  check(allclose(stave::std(rates), deviations(1), 0.15), "the repetitions scatter as the covariance says");
}
