// Problems of GradBench (github.com/gradbench/gradbench), written as a user would write them, beside
// the function without a derivative in plain C++: the gradient of a diagonal LSTM over a text.
#include <array>
#include <cmath>
#include <vector>

#include "bench.h"

namespace {

using namespace stave_bench;

// ---- lstm ---------------------------------------------------------------------------------------

constexpr Index bits = 14, layers = 2;  // bits of a character; each layer has a hidden state and a cell state

Tensor some(const Shape& shape, double size) { return astype(scattered(shape, size), float64); }
// Each row is a character.
Tensor text(Index length) { return astype(scattered({length, bits}) > 0, float64); }

struct Lstm {
  Tensor weights;  // [2 layers, 4 bits]: for each layer the factors of its gates, and their offsets
  Tensor scales;   // [3, bits]: of the input and of the output, and the offset of the output
  Tensor start;    // [2 layers, bits]: for each layer its hidden and cell state
};

// The mean log-probability of the next character, negated.
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
  const Tensor normalizer = log(sum(exp(predicted), 1, true) + 2);
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
double lstm_loss_of(const double* weights, const double* scales, const double* start, const double* characters,
                    Index length) {
  std::array<double, 2 * layers * bits> state;
  std::copy_n(start, state.size(), state.begin());
  double total = 0;
  for (Index t = 0; t + 1 < length; ++t) {
    double x[bits], sum = 2;
    for (Index i = 0; i < bits; ++i) x[i] = characters[t * bits + i] * scales[i];
    for (Index layer = 0; layer < layers; ++layer) {
      const double *w = weights + 8 * layer * bits, *b = w + 4 * bits;
      double *hidden = state.data() + 2 * layer * bits, *cell = hidden + bits;
      for (Index i = 0; i < bits; ++i) {
        const double forget = logistic(x[i] * w[i] + b[i]), in = logistic(hidden[i] * w[bits + i] + b[bits + i]);
        const double out = logistic(x[i] * w[2 * bits + i] + b[2 * bits + i]);
        const double change = std::tanh(hidden[i] * w[3 * bits + i] + b[3 * bits + i]);
        cell[i] = cell[i] * forget + in * change;
        x[i] = hidden[i] = out * std::tanh(cell[i]);
      }
    }
    for (Index i = 0; i < bits; ++i) x[i] = x[i] * scales[bits + i] + scales[2 * bits + i];
    for (Index i = 0; i < bits; ++i) sum += std::exp(x[i]);
    const double normalizer = std::log(sum);
    for (Index i = 0; i < bits; ++i) total += characters[(t + 1) * bits + i] * (x[i] - normalizer);
  }
  return -total / static_cast<double>((length - 1) * bits);
}

void lstm_by_hand(benchmark::State& state) {
  const Tensor weights = some({2 * layers, 4 * bits}, 2), scales = some({3, bits}, 2);
  const Tensor start = some({2 * layers, bits}, 1), characters = text(1024);
  const double found = lstm_loss_of(weights.data<double>(), scales.data<double>(), start.data<double>(),
                                    characters.data<double>(), 1024);
  const double expected = lstm_loss(weights, scales, start, characters).item<double>();
  if (std::abs(found - expected) > 1e-10 * std::abs(expected)) state.SkipWithError("the loss differs");
  measure(state, [&] {
    return lstm_loss_of(weights.data<double>(), scales.data<double>(), start.data<double>(), characters.data<double>(),
                        1024);
  });
}

BENCHMARK(lstm_gradient)->UseRealTime();
BENCHMARK(lstm_by_hand)->UseRealTime();

}  // namespace
