// A saliency map of a model of ONNX: the gradient of the score of a class by the pixels, which
// shows the pixels that speak for the class and against it. All pictures are lanes of one vmap.
#include <iostream>

#include <stave/handlers/onnx/onnx.h>
#include <stave/stave.h>

#include "check.h"
#include "digits.h"

using namespace stave;

int main() {
  const OnnxModel model = load_onnx(STAVE_EXAMPLE_DATA "/digits.onnx");
  const Digits all = read_digits(STAVE_EXAMPLE_DATA "/digits.csv");
  const Tensor pixels = all.pixels(slice(8)), labels = all.labels(slice(8));

  const auto score = [&](const Tensor& x, const Tensor& label) {
    return take(model({{"pixels", x(newaxis)}}).at("logits")[0], label);
  };
  const Tensor saliency = vmap(grad(score))(pixels, labels);

  // The third picture, a 2, and its map: pixels that raise the score (+) and lower it (-).
  const Tensor picture = reshape(pixels[2], {8, 8}), map = reshape(saliency[2], {8, 8}) / max(abs(saliency[2]));
  for (int i = 0; i < 8; ++i) {
    for (int j = 0; j < 8; ++j) std::cout << (picture(i, j) > 0 ? "#" : ".");
    std::cout << "   ";
    for (int j = 0; j < 8; ++j) std::cout << (map(i, j) > 0.4 ? "+" : map(i, j) < -0.4 ? "-" : ".");
    std::cout << "\n";
  }

  const Tensor torch = read_csv(STAVE_EXAMPLE_DATA "/51_saliency.csv", {.dtype = float32});
  check(allclose(saliency, torch, 1e-4, 1e-5), "the maps are those of PyTorch");
  check(allclose(compile(vmap(grad(score)))(pixels, labels), torch, 1e-4, 1e-5), "also when compiled");
}
