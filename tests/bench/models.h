// Programs of tensors that several benchmarks measure. cpp_tools/programs.h has them in plain C++.
#pragma once

#include <vector>

#include "bench.h"

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

// ---- GradBench: the gradient of a diagonal LSTM over a text -------------------------------------

// The bits of a character, and the layers, each with a hidden state and a cell state.
constexpr Index lstm_bits = 14, lstm_layers = 2;

inline Tensor some(const Shape& shape, double size) { return astype(scattered(shape, size), float64); }
// Each row is a character.
inline Tensor lstm_text(Index length) { return astype(scattered({length, lstm_bits}) > 0, float64); }

// The mean log-probability of the next character, negated. The weights, [2 layers, 4 bits], are for
// each layer the factors of its gates, and their offsets; the scales, [3, bits], those of the input
// and of the output, and the offset of the output. The start, [2 layers, bits], is the hidden and
// the cell state of each layer.
inline Tensor lstm_loss(const Tensor& weights, const Tensor& scales, const Tensor& start, const Tensor& characters) {
  const auto step = [=](const Tensor& state, const Tensor& character) {
    Tensor x = character * scales(0);
    std::vector<Tensor> next;
    for (Index layer = 0; layer < lstm_layers; ++layer) {
      const Tensor w = reshape(weights(2 * layer), {4, lstm_bits}), b = reshape(weights(2 * layer + 1), {4, lstm_bits});
      const Tensor hidden = state(2 * layer), cell = state(2 * layer + 1);
      const Tensor forget = sigmoid(x * w(0) + b(0)), in = sigmoid(hidden * w(1) + b(1));
      const Tensor out = sigmoid(x * w(2) + b(2)), change = tanh(hidden * w(3) + b(3));
      const Tensor kept = cell * forget + in * change;
      x = out * tanh(kept);
      next.push_back(x);
      next.push_back(kept);
    }
    return std::pair(stack(next), x * scales(1) + scales(2));
  };
  const Index length = characters.shape(0);
  const Tensor predicted = scan(step)(start, characters(slice(0, length - 1))).second;
  const Tensor normalizer = log(sum(exp(predicted), 1, keepdims) + 2);
  return -sum(characters(slice(1, none)) * (predicted - normalizer)) / ((length - 1) * lstm_bits);
}

// ---- GradBench: the Jacobian of the residuals of a hand model -----------------------------------

// The bones of a hand: a wrist, five fingers of four bones, and a forearm. The numbers stand for
// measured ones.
struct Hand {
  static constexpr Index bones = 22, vertices = 544, seen = 100, parameters = 26;
  Tensor relatives = transforms(0.4, 3), inverses = transforms(0.3, 5);  // [bones, 4, 4]
  Tensor corners = concat({some({3, vertices}, 1), ones({1, vertices}, float64)});
  Tensor weights = softmax(some({bones, vertices}, 8), 0);
  // The points that were seen, and the numbers of their corners.
  Tensor points = some({3, seen}, 1), numbers = arange(seen) * 5 % vertices;

  // Matrices near the identity.
  static Tensor transforms(double size, Index shift) {
    const Tensor upper = eye(3, 4, 0, float64) + some({bones + shift, 3, 4}, size)(slice(shift, none));
    const Tensor last = broadcast_to(tensor({0., 0., 0., 1.}), {bones, 1, 4});
    return concat({upper, last}, 1);
  }
  static Index parent(Index bone) { return bone == 0 ? -1 : bone == 21 || bone % 4 == 1 ? 0 : bone - 1; }
};

// Rotations by angles about the axes x, y and z: [n, 3] -> [n, 3, 3].
inline Tensor rotations(const Tensor& angles) {
  const Tensor c = cos(angles), s = sin(angles);
  const auto [cx, cy, cz] = unstack<3>(c, 1);
  const auto [sx, sy, sz] = unstack<3>(s, 1);
  const Tensor rows = stack({cy * cz, -cx * sz + sx * sy * cz, sx * sz + cx * sy * cz, cy * sz, cx * cz + sx * sy * sz,
                             -sx * cz + cx * sy * sz, -sy, sx * cy, cx * cy},
                            1);
  return reshape(rows, {angles.shape(0), 3, 3});
}

// The angles of the bones: the first bone of a finger bends about two axes, the two after it about
// one.
inline Tensor angles_of(const Tensor& x) {
  const Tensor of_fingers = reshape(x(slice(6, none)), {5, 4}), zero = zeros({5, 1}, float64);
  const Tensor first = concat({of_fingers(slice(), slice(0, 2)), zero}, 1);
  const auto about_x = [&](Index k) { return concat({of_fingers(slice(), slice(k, k + 1)), zero, zero}, 1); };
  const Tensor fingers = stack({first, about_x(2), about_x(3), zeros({5, 3}, float64)}, 1);
  const Tensor still = zeros({1, 3}, float64);
  return concat({still, reshape(fingers, {20, 3}), still});
}

// Parameters: the rotation of the whole hand, its position, and four angles of each finger.
inline Tensor hand_residuals(const Hand& hand, const Tensor& x) {
  const Tensor relatives = concat({matmul(hand.relatives(slice(), slice(), slice(0, 3)), rotations(angles_of(x))),
                                   hand.relatives(slice(), slice(), slice(3, 4))},
                                  2);
  std::vector<Tensor> absolutes;
  for (Index bone = 0; bone < Hand::bones; ++bone) {
    const Index parent = Hand::parent(bone);
    absolutes.push_back(parent < 0 ? relatives(bone)
                                   : matmul(absolutes[static_cast<std::size_t>(parent)], relatives(bone)));
  }
  const Tensor transforms = matmul(stack(absolutes), hand.inverses)(slice(), slice(0, 3));
  const Tensor moved = matmul(transforms, hand.corners);  // [bones, 3, vertices]
  const Tensor skin = sum(moved * expand_dims(hand.weights, 1), 0);
  const Tensor turned = matmul(rotations(reshape(x(slice(0, 3)), {1, 3}))(0), skin) + expand_dims(x(slice(3, 6)), 1);
  return hand.points - take(turned, hand.numbers, 1);
}

}  // namespace stave_bench
