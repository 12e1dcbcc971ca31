// Inside a model of ONNX: the gradients of each example, values by their names, a value replaced,
// and the node where a NaN begins.
#include <iostream>
#include <limits>

#include <stave/handlers/observe/debug.h>
#include <stave/handlers/onnx/onnx.h>
#include <stave/stave.h>

#include "check.h"
#include "digits.h"

using namespace stave;

int main() {
  const OnnxModel model = load_onnx(STAVE_EXAMPLE_DATA "/digits.onnx");
  const Digits all = read_digits(STAVE_EXAMPLE_DATA "/digits.csv");
  const Tensor pixels = all.pixels(slice(8)), labels = all.labels(slice(8));

  // The gradients of each example. The model takes a batch, so each lane makes one of its example.
  const auto loss = [&](const NamedTensors& weights, const Tensor& x, const Tensor& label) {
    return cross_entropy(model(weights, {{"pixels", x(newaxis)}}).at("logits")[0], label);
  };
  const NamedTensors each = vmap(grad(loss), {.in_axes = {unmapped, 0, 0}})(model.weights(), pixels, labels);
  for (const auto& [name, gradients] : each) std::cout << name << " " << gradients.shape() << "\n";

  // The values of the graph by their names, and what the model says without one of its features.
  const auto logits = [&](const Tensor& x) { return model({{"pixels", x}}).at("logits"); };
  const auto [y, values] = harvest(logits, {.tag = "onnx"})(pixels);
  const Tensor hidden = values.at("hidden");
  const Tensor without = hidden.at(ellipsis, argmax(sum(hidden, 0)).item<int>()).set(0);
  const Tensor changed = plant(logits, {{"hidden", without}}, {.tag = "onnx"})(pixels);
  std::cout << "changed by the strongest feature: " << count_nonzero(argmax(y, -1) != argmax(changed, -1)).item<int>()
            << " of 8\n";
  check(!allclose(y, changed), "the feature matters");

  // A weight is damaged. The error names the operation, and the node in which it is performed.
  NamedTensors damaged = model.weights();
  damaged.at("w2") = damaged.at("w2").at(3, 5).set(std::numeric_limits<float>::quiet_NaN());
  try {
    debug([&](const Tensor& x) { return model(damaged, {{"pixels", x}}); }, {.trap_nan = true, .print = false})(pixels);
  } catch (const TransformError& error) {
    const std::string text = error.what();
    std::cout << text << "\n";
    check(text.find("layer2") != text.npos, "the node is named");
  }
}
