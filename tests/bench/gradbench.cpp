// Problems of GradBench (github.com/gradbench/gradbench), written as a user would write them,
// beside the function without a derivative in plain C++: the gradient of a diagonal LSTM over a
// text, and the Jacobian of the residuals of a hand model.
#include <array>
#include <cmath>
#include <span>
#include <vector>

#include "bench.h"

namespace {

using namespace stave_bench;

// ---- lstm ---------------------------------------------------------------------------------------

// The bits of a character, and the layers, each with a hidden state and a cell state.
constexpr Index bits = 14, layers = 2;

Tensor some(const Shape& shape, double size) { return astype(scattered(shape, size), float64); }
// Each row is a character.
Tensor text(Index length) { return astype(scattered({length, bits}) > 0, float64); }

// The mean log-probability of the next character, negated. The weights, [2 layers, 4 bits], are for
// each layer the factors of its gates, and their offsets; the scales, [3, bits], those of the input
// and of the output, and the offset of the output. The start, [2 layers, bits], is the hidden and
// the cell state of each layer.
Tensor lstm_loss(const Tensor& weights, const Tensor& scales, const Tensor& start, const Tensor& characters) {
  const auto step = [=](const Tensor& state, const Tensor& character) {
    Tensor x = character * scales(0);
    std::vector<Tensor> next;
    for (Index layer = 0; layer < layers; ++layer) {
      const Tensor w = reshape(weights(2 * layer), {4, bits}), b = reshape(weights(2 * layer + 1), {4, bits});
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
  return -sum(characters(slice(1, none)) * (predicted - normalizer)) / ((length - 1) * bits);
}

void lstm_gradient(benchmark::State& state) {
  const auto f = compile(grad<0, 1>(lstm_loss));
  const Tensor weights = some({2 * layers, 4 * bits}, 2), scales = some({3, bits}, 2);
  const Tensor start = some({2 * layers, bits}, 1), characters = text(1024);
  for (int i = 0; i < 3; ++i) f(weights, scales, start, characters);
  measure(state, [&] { return f(weights, scales, start, characters); });
}

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

// The same in plain C++.
double lstm_loss_of(std::span<const double> weights, std::span<const double> scales, std::span<const double> start,
                    std::span<const double> characters) {
  const std::size_t length = characters.size() / bits;
  std::array<double, 2 * layers * bits> state;
  std::copy(start.begin(), start.end(), state.begin());
  double total = 0;
  for (std::size_t t = 0; t + 1 < length; ++t) {
    double x[bits], sum = 2;
    for (std::size_t i = 0; i < bits; ++i) x[i] = characters[t * bits + i] * scales[i];
    for (std::size_t layer = 0; layer < layers; ++layer) {
      const double *w = weights.data() + 8 * layer * bits, *b = w + 4 * bits;
      double *hidden = state.data() + 2 * layer * bits, *cell = hidden + bits;
      for (std::size_t i = 0; i < bits; ++i) {
        const double forget = logistic(x[i] * w[i] + b[i]), in = logistic(hidden[i] * w[bits + i] + b[bits + i]);
        const double out = logistic(x[i] * w[2 * bits + i] + b[2 * bits + i]);
        const double change = std::tanh(hidden[i] * w[3 * bits + i] + b[3 * bits + i]);
        cell[i] = cell[i] * forget + in * change;
        x[i] = hidden[i] = out * std::tanh(cell[i]);
      }
    }
    for (std::size_t i = 0; i < bits; ++i) x[i] = x[i] * scales[bits + i] + scales[2 * bits + i];
    for (std::size_t i = 0; i < bits; ++i) sum += std::exp(x[i]);
    const double normalizer = std::log(sum);
    for (std::size_t i = 0; i < bits; ++i) total += characters[(t + 1) * bits + i] * (x[i] - normalizer);
  }
  return -total / static_cast<double>((length - 1) * bits);
}

void lstm_by_hand(benchmark::State& state) {
  const Tensor weights = some({2 * layers, 4 * bits}, 2), scales = some({3, bits}, 2);
  const Tensor start = some({2 * layers, bits}, 1), characters = text(1024);
  const double found =
      lstm_loss_of(weights.data<double>(), scales.data<double>(), start.data<double>(), characters.data<double>());
  const double expected = lstm_loss(weights, scales, start, characters).item<double>();
  if (std::abs(found - expected) > 1e-10 * std::abs(expected)) state.SkipWithError("the loss differs");
  measure(state, [&] {
    return lstm_loss_of(weights.data<double>(), scales.data<double>(), start.data<double>(), characters.data<double>());
  });
}

// ---- ht -----------------------------------------------------------------------------------------

constexpr Index bones = 22, vertices = 544, seen = 100, parameters = 26;

// The bones of a hand: a wrist, five fingers of four bones, and a forearm. The numbers stand for
// measured ones.
struct Hand {
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
Tensor rotations(const Tensor& angles) {
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
Tensor angles_of(const Tensor& x) {
  const Tensor of_fingers = reshape(x(slice(6, none)), {5, 4}), zero = zeros({5, 1}, float64);
  const Tensor first = concat({of_fingers(slice(), slice(0, 2)), zero}, 1);
  const auto about_x = [&](Index k) { return concat({of_fingers(slice(), slice(k, k + 1)), zero, zero}, 1); };
  const Tensor fingers = stack({first, about_x(2), about_x(3), zeros({5, 3}, float64)}, 1);
  const Tensor still = zeros({1, 3}, float64);
  return concat({still, reshape(fingers, {20, 3}), still});
}

// Parameters: the rotation of the whole hand, its position, and four angles of each finger.
Tensor hand_residuals(const Hand& hand, const Tensor& x) {
  const Tensor relatives = concat({matmul(hand.relatives(slice(), slice(), slice(0, 3)), rotations(angles_of(x))),
                                   hand.relatives(slice(), slice(), slice(3, 4))},
                                  2);
  std::vector<Tensor> absolutes;
  for (Index bone = 0; bone < bones; ++bone) {
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

void ht_jacobian(benchmark::State& state) {
  const Hand hand;
  const auto f = compile(jacfwd([&](const Tensor& x) { return hand_residuals(hand, x); }));
  const Tensor x = some({parameters}, 0.5);
  for (int i = 0; i < 3; ++i) f(x);
  measure(state, [&] { return f(x); });
}

using Matrix = std::array<double, 16>;
Matrix product(const Matrix& a, const Matrix& b) {
  Matrix c{};
  for (int i = 0; i < 4; ++i)
    for (int k = 0; k < 4; ++k)
      for (int j = 0; j < 4; ++j) c[4 * i + j] += a[4 * i + k] * b[4 * k + j];
  return c;
}
Matrix rotation(double x, double y, double z) {
  const double cx = std::cos(x), sx = std::sin(x), cy = std::cos(y), sy = std::sin(y), cz = std::cos(z),
               sz = std::sin(z);
  return {cy * cz,
          -cx * sz + sx * sy * cz,
          sx * sz + cx * sy * cz,
          0,
          cy * sz,
          cx * cz + sx * sy * sz,
          -sx * cz + cx * sy * sz,
          0,
          -sy,
          sx * cy,
          cx * cy,
          0,
          0,
          0,
          0,
          1};
}

// The same in plain C++.
std::vector<double> hand_residuals_of(const Hand& hand, std::span<const double> x) {
  const double *relatives = hand.relatives.data<double>().data(), *inverses = hand.inverses.data<double>().data();
  const double *corners = hand.corners.data<double>().data(), *weights = hand.weights.data<double>().data();
  std::vector<double> skin(3 * vertices);
  std::array<Matrix, bones> absolutes;
  for (int bone = 0; bone < bones; ++bone) {
    const int finger = (bone - 1) / 4, joint = (bone - 1) % 4;
    const double* angles = x.data() + 6 + 4 * finger;
    Matrix relative, inverse;
    std::copy_n(relatives + 16 * bone, 16, relative.begin());
    std::copy_n(inverses + 16 * bone, 16, inverse.begin());
    if (bone > 0 && bone < 21 && joint < 3)
      relative = product(relative, joint == 0 ? rotation(angles[0], angles[1], 0) : rotation(angles[joint + 1], 0, 0));
    const auto parent = Hand::parent(bone);
    absolutes[bone] = parent < 0 ? relative : product(absolutes[parent], relative);
    const Matrix m = product(absolutes[bone], inverse);
    for (int i = 0; i < 3; ++i)
      for (int v = 0; v < vertices; ++v)
        skin[i * vertices + v] +=
            weights[bone * vertices + v] * (m[4 * i] * corners[v] + m[4 * i + 1] * corners[vertices + v] +
                                            m[4 * i + 2] * corners[2 * vertices + v] + m[4 * i + 3]);
  }
  const Matrix whole = rotation(x[0], x[1], x[2]);
  const auto numbers = hand.numbers.data<std::int32_t>();
  const auto points = hand.points.data<double>();
  std::vector<double> residuals(3 * seen);
  for (int i = 0; i < 3; ++i)
    for (int k = 0; k < seen; ++k) {
      const auto v = numbers[k];
      const double turned = whole[4 * i] * skin[v] + whole[4 * i + 1] * skin[vertices + v] +
                            whole[4 * i + 2] * skin[2 * vertices + v] + x[3 + i];
      residuals[i * seen + k] = points[i * seen + k] - turned;
    }
  return residuals;
}

void ht_by_hand(benchmark::State& state) {
  const Hand hand;
  const Tensor x = some({parameters}, 0.5);
  const std::vector<double> found = hand_residuals_of(hand, x.data<double>());
  const Tensor expected = hand_residuals(hand, x);
  for (std::size_t k = 0; k < found.size(); ++k)
    if (std::abs(found[k] - expected.data<double>()[k]) > 1e-12) state.SkipWithError("the residuals differ");
  measure(state, [&] { return hand_residuals_of(hand, x.data<double>()); });
}

BENCHMARK(lstm_gradient)->UseRealTime();
BENCHMARK(lstm_by_hand)->UseRealTime();
BENCHMARK(ht_jacobian)->UseRealTime();
BENCHMARK(ht_by_hand)->UseRealTime();

}  // namespace
