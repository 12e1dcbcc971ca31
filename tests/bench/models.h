// Programs of tensors that several benchmarks measure. cpp_tools/programs.h has them in plain C++.
#pragma once

#include <vector>

#include "bench.h"
#include "gradbench/hand.h"
#include "gradbench/lstm.h"

namespace stave_bench {

// ---- a path of the Lorenz system (1963) ---------------------------------------------------------

inline Tensor lorenz_slope(const Tensor& s) {
  const auto [x, y, z] = unstack<3>(s);
  return stack({10. * (y - x), x * (28. - z) - y, x * y - 8. / 3 * z});
}

/// Returns the sum of the three numbers after a thousand steps of length h by a Runge-Kutta method.
inline Tensor lorenz_end(const Tensor& start, double h) {
  const auto step = [h](const Tensor& s) {
    const Tensor k1 = lorenz_slope(s), k2 = lorenz_slope(s + h / 2 * k1), k3 = lorenz_slope(s + h / 2 * k2),
                 k4 = lorenz_slope(s + h * k3);
    return s + h / 6 * (k1 + 2. * k2 + 2. * k3 + k4);
  };
  return sum(loop(1000, step)(start));
}

// ---- an extended Kalman filter: a robot that turns, by its distance and bearing -----------------

constexpr double ekf_dt = 0.1;

// x, y, speed, heading
inline Tensor ekf_move(const Tensor& s) {
  const auto [x, y, speed, heading] = unstack<4>(s);
  return stack({x + ekf_dt * speed * cos(heading), y + ekf_dt * speed * sin(heading), speed, heading + 0.3 * ekf_dt});
}
inline Tensor ekf_look(const Tensor& s) { return stack({hypot(s(0), s(1)), atan2(s(1), s(0))}); }

/// Returns the log-likelihood of distances and bearings, [steps, 2], for the logarithms of the
/// variances of the process noise.
inline Tensor log_likelihood(const Tensor& log_noise, const Tensor& seen) {
  const Tensor process = diag(exp(log_noise)), sensor = diag(tensor({0.01, 0.0004}));
  Tensor state = tensor({4., 0., 0.5, 1.5}), covariance = eye(4), total = tensor(0.);
  for (Index t = 0; t < seen.shape(0); ++t) {
    const Tensor f = jacfwd(ekf_move)(state);
    covariance = matmul(f, covariance, matrix_transpose(f)) + process;
    state = ekf_move(state);
    const Tensor h = jacfwd(ekf_look)(state), surprise = seen(t) - ekf_look(state), hp = matmul(h, covariance);
    const Tensor spread = matmul(hp, matrix_transpose(h)) + sensor;
    const Tensor gain = matrix_transpose(solve(spread, hp));
    total = total - (vecdot(surprise, solve(spread, surprise)) + slogdet(spread).second) / 2;
    state = state + matmul(gain, surprise);
    covariance = covariance - matmul(gain, hp);
  }
  return total;
}

/// Returns distances and bearings, [steps, 2].
inline Tensor ekf_measurements(Index steps) {
  const Tensor t = arange(steps) * 1.;
  return stack({3. + cos(0.1 * t), 0.02 * t}, 1);
}

// ---- GradBench: a diagonal LSTM over a text, and a hand model (gradbench/) ----------------------

using gradbench::Hand, gradbench::hand_residuals, gradbench::lstm_loss;

// The bits of a character, and the layers, each with a hidden state and a cell state.
constexpr Index lstm_bits = 14, lstm_layers = 2;

inline Tensor some(const Shape& shape, double size) { return astype(scattered(shape, size), float64); }
// Each row is a character.
inline Tensor lstm_text(Index length) { return astype(scattered({length, lstm_bits}) > 0, float64); }

/// Returns a hand whose numbers stand for measured ones.
inline Hand some_hand() {
  constexpr Index bones = 22, vertices = 544, seen = 100;
  // Matrices near the identity.
  const auto transforms = [](double size, Index shift) {
    const Tensor upper = eye(3, 4, 0, float64) + some({bones + shift, 3, 4}, size)(slice(shift, none));
    return concat({upper, broadcast_to(tensor({0., 0., 0., 1.}, float64), {bones, 1, 4})}, 1);
  };
  Hand hand;
  for (Index bone = 0; bone < bones; ++bone)
    hand.parents.push_back(bone == 0 ? -1 : bone == 21 || bone % 4 == 1 ? 0 : bone - 1);
  hand.relatives = transforms(0.4, 3);
  hand.inverses = transforms(0.3, 5);
  hand.corners = concat({some({3, vertices}, 1), ones({1, vertices}, float64)});
  hand.weights = softmax(some({bones, vertices}, 8), 0);
  hand.points = some({3, seen}, 1);
  hand.numbers = arange(seen) * 5 % vertices;
  return hand;
}

}  // namespace stave_bench
