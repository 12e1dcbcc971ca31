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
  // For each example: the norms of the four gradients, and the changed logits.
  const Tensor torch = read_csv(STAVE_EXAMPLE_DATA "/48_inside_a_model.csv", {.dtype = float32});
  Index column = 0;
  for (const auto& [name, gradients] : each) {
    const Tensor norms = norm(reshape(gradients, {8, -1}), -1);
    check(allclose(norms, torch(ellipsis, column++), 1e-3, 1e-6), "the gradients have the norms of PyTorch's");
  }
  check(allclose(changed, torch(ellipsis, slice(4, none)), 1e-4, 1e-4), "the changed logits are those of PyTorch");

  // A weight is damaged. The error names the operation, and the node in which it is performed; the
  // debugger stops there.
  NamedTensors damaged = model.weights();
  damaged.at("w2") = damaged.at("w2").at(3, 5).set(std::numeric_limits<float>::quiet_NaN());
  const auto f = [&](const Tensor& x) { return model(damaged, {{"pixels", x}}); };
  try {
    debug(f, {.trap_nan = true, .print = false})(pixels);
  } catch (const TransformError& error) {
    std::cout << error.what() << "\n";
    check(std::string(error.what()).find("layer2") != std::string::npos, "the node is named");
  }
  Stepper stepper(f, pixels);
  stepper.break_at({.nan = true});
  check(stepper.go_on() && stepper.at().scopes().front() == "layer2", "the debugger stops in the node");
}
