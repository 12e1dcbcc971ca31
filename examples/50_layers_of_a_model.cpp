// The layers of a model of ONNX, by the names of its nodes: what each of them costs, before
// anything runs, and how far weights of eight bits change its result.
#include <cmath>
#include <iostream>
#include <map>

#include <stave/handlers/observe/cost.h>
#include <stave/handlers/onnx/onnx.h>
#include <stave/stave.h>

#include "check.h"
#include "digits.h"

using namespace stave;

// Replaces the second operand of each product [rows, columns] by integers of eight bits with a
// scale for each column, and notes the relative error of the product under the name of the node.
struct QuantizeWeights : Handler {
  std::map<std::string, double> errors;
  Outputs handle(Call& call) override {
    if (call.op().id != OpId::matmul) return perform(std::move(call));
    const Tensor w = call.input(1), exact = perform(call)[0];
    const Tensor scale = max(abs(w), 0) / 127.;
    const Tensor integers = astype(round(w / scale), int8);
    Outputs outputs = perform(call.with_inputs({call.input(0), astype(integers, float32) * scale}));
    errors[scopes().front()] = (vector_norm(outputs[0] - exact) / vector_norm(exact)).item<double>();
    return outputs;
  }
};

int main() {
  const OnnxModel model = load_onnx(STAVE_EXAMPLE_DATA "/digits.onnx");
  const auto logits = [&](const Tensor& x) { return model({{"pixels", x}}).at("logits"); };

  const Index batch = 1000;
  const Cost forward = cost(logits)(abstract({batch, 64}));
  std::cout << forward << "\n";
  // A product takes 2 n m k operations and the sum with the bias n m; elements have four bytes.
  check(forward.scope("layer1").flops == batch * 32 * (2 * 64 + 1), "the operations of a layer");
  check(forward.scope("layer2").flops == batch * 10 * (2 * 32 + 1), "the operations of another layer");
  check(forward.scope("activation").bytes_written == 4 * batch * 32, "the bytes of a layer");
  // The backward pass of a layer is in the scope of the layer, too.
  const Cost training = cost(grad([&](const Tensor& x) { return sum(logits(x)); }))(abstract({batch, 64}));
  check(training.scope("backward of grad/layer1").flops >= batch * 32 * 2 * 64, "the operations of a backward pass");

  QuantizeWeights quantize;
  const Tensor pixels = read_digits(STAVE_EXAMPLE_DATA "/digits.csv").pixels(slice(8));
  const Tensor y = logits(pixels), of_integers = with(quantize, [&] { return logits(pixels); });
  for (const auto& [layer, error] : quantize.errors)
    std::cout << layer << ": error " << std::round(1e5 * error) / 1e3 << " %\n";

  const std::vector<double> torch =
      read_csv(STAVE_EXAMPLE_DATA "/50_layers_of_a_model.csv", {.dtype = float64}).to_vector<double>();
  check(std::abs(quantize.errors.at("layer1") / torch[0] - 1) < 1e-3, "the first error is that of PyTorch");
  check(std::abs(quantize.errors.at("layer2") / torch[1] - 1) < 1e-3, "the second error is that of PyTorch");
  check(array_equal(argmax(y, -1), argmax(of_integers, -1)), "no digit is read differently");
}
