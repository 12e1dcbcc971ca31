// A model of ONNX, which PyTorch trained on the digits 0 to 4, learns the others: its weights are
// tuned by AdamW, along the same losses as in PyTorch (data/47_bring_your_model.py).
#include <cmath>
#include <iostream>

#include <stave/handlers/numerics/optimizers.h>
#include <stave/handlers/onnx/onnx.h>
#include <stave/stave.h>

#include "check.h"
#include "digits.h"

using namespace stave;

int main() {
  const OnnxModel model = load_onnx(STAVE_EXAMPLE_DATA "/digits.onnx");
  std::cout << model.inputs()[0].str() << " -> " << model.outputs()[0].str() << "\n";

  const Digits all = read_digits(STAVE_EXAMPLE_DATA "/digits.csv");
  const Tensor pixels = all.pixels(slice(500)), labels = all.labels(slice(500));
  const auto logits = [&](const NamedTensors& weights, const Tensor& x) {
    return model(weights, {{"pixels", x}}).at("logits");
  };
  const auto accuracy = [&](const NamedTensors& weights) {  // of digits that are not trained on
    const Tensor found = argmax(logits(weights, all.pixels(slice(500, none))), -1);
    return mean(astype(found == all.labels(slice(500, none)), float32)).item<double>();
  };

  const auto loss = [&](const NamedTensors& weights) { return cross_entropy(logits(weights, pixels), labels); };
  const auto optimizer = adamw({.learning_rate = 1e-2});
  const auto step = compile([&](NamedTensors weights, auto state) {
    const auto [value, gradient] = value_and_grad(loss)(weights);
    std::tie(weights, state) = optimizer.update(weights, gradient, state);
    return std::tuple(value, weights, state);
  });

  NamedTensors weights = model.weights();
  auto state = optimizer.init(weights);
  const double before = accuracy(weights);
  const std::vector<double> expected =
      read_csv(STAVE_EXAMPLE_DATA "/47_bring_your_model.csv", {.dtype = float64}).to_vector<double>();
  for (const double torch : expected) {
    Tensor value;
    std::tie(value, weights, state) = step(weights, state);
    check(std::abs(value.item<double>() - torch) < 1e-3 * (1 + torch), "the loss is that of PyTorch");
  }
  std::cout << "accuracy " << std::round(100 * before) << " % before, " << std::round(100 * accuracy(weights))
            << " % after\n";
  check(accuracy(weights) > 0.85 && before < 0.6, "the model has learned");

  // For many calls with these weights.
  const auto classify =
      compile([&](const Tensor& x) { return argmax(logits(weights, x), -1); }, {.for_inference = true});
  const Tensor others = all.pixels(slice(500, none));
  for (int call = 0; call < 3; ++call)
    check(array_equal(classify(others), argmax(logits(weights, others), -1)), "the same classes");
}
