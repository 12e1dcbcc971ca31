// GradBench's `lstm`: a diagonal LSTM that predicts the next character of a text. The plain C++ of
// it is Lstm in ../cpp_tools/programs.h.
#pragma once

#include <utility>
#include <vector>

#include <stave/stave.h>

namespace gradbench {

using namespace stave;

/// Returns the mean log-probability of the next character, negated. The weights, [2 layers,
/// 4 bits], are for each layer the factors of its gates, and their offsets; the scales, [3, bits],
/// those of the input and of the output, and the offset of the output. The start, [2 layers, bits],
/// is the hidden and the cell state of each layer. Each row of the characters, [length, bits], is a
/// character.
inline Tensor lstm_loss(const Tensor& weights, const Tensor& scales, const Tensor& start, const Tensor& characters) {
  const Index layers = weights.shape(0) / 2, length = characters.shape(0), bits = characters.shape(1);
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
  const Tensor predicted = scan(step)(start, characters(slice(0, length - 1))).second;
  const Tensor normalizer = log(sum(exp(predicted), 1, keepdims) + 2);
  return -sum(characters(slice(1, none)) * (predicted - normalizer)) / ((length - 1) * bits);
}

}  // namespace gradbench
