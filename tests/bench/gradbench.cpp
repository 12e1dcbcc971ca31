// Problems of GradBench (github.com/gradbench/gradbench), written as a user would write them
// (gradbench/), beside the function without a derivative in plain C++ (cpp_tools/programs.h): the
// gradient of a diagonal LSTM over a text, and the Jacobian of the residuals of a hand model.
#include <cmath>
#include <vector>

#include "cpp_tools/programs.h"
#include "models.h"

namespace {

using namespace stave_bench;

void lstm_gradient(benchmark::State& state) {
  const auto f = compile(grad<0, 1>(lstm_loss));
  const Tensor weights = some({2 * lstm_layers, 4 * lstm_bits}, 2), scales = some({3, lstm_bits}, 2);
  const Tensor start = some({2 * lstm_layers, lstm_bits}, 1), characters = lstm_text(1024);
  for (int i = 0; i < 3; ++i) f(weights, scales, start, characters);
  measure(state, [&] { return f(weights, scales, start, characters); });
}

void lstm_by_hand(benchmark::State& state) {
  const cpp_tools::Lstm lstm;
  const std::vector<double> x = lstm.start();
  const Tensor weights = some({2 * lstm_layers, 4 * lstm_bits}, 2), scales = some({3, lstm_bits}, 2);
  const Tensor start = some({2 * lstm_layers, lstm_bits}, 1), characters = lstm_text(1024);
  const double found = lstm(x)[0], expected = lstm_loss(weights, scales, start, characters).item<double>();
  if (std::abs(found - expected) > 1e-10 * std::abs(expected)) state.SkipWithError("the loss differs");
  measure(state, [&] { return lstm(x); });
}

void ht_jacobian(benchmark::State& state) {
  const Hand hand = some_hand();
  const auto f = compile(jacfwd([&](const Tensor& x) { return hand_residuals(hand, x); }));
  const Tensor x = some({26}, 0.5);
  for (int i = 0; i < 3; ++i) f(x);
  measure(state, [&] { return f(x); });
}

void ht_by_hand(benchmark::State& state) {
  const cpp_tools::Hand hand;
  const std::vector<double> x = hand.start(), found = hand(x);
  const Tensor expected = hand_residuals(some_hand(), some({26}, 0.5));
  for (std::size_t k = 0; k < found.size(); ++k)
    if (std::abs(found[k] - expected.data<double>()[k]) > 1e-12) state.SkipWithError("the residuals differ");
  measure(state, [&] { return hand(x); });
}

BENCHMARK(lstm_gradient)->UseRealTime();
BENCHMARK(lstm_by_hand)->UseRealTime();
BENCHMARK(ht_jacobian)->UseRealTime();
BENCHMARK(ht_by_hand)->UseRealTime();

}  // namespace
