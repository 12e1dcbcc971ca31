// A convolutional network learns to read handwritten digits: two convolutions, each followed by max
// pooling over 2 x 2 neighbours, and a matrix. All parts are functions of the library, and the loss
// equals JAX's in every step.
#include <cmath>
#include <iostream>
#include <tuple>
#include <vector>

#include <stave/stave.h>

#include "check.h"
#include "digits.h"

using namespace stave;

// Aggregates are trees of tensors, so gradients and the optimizer's state are networks as well.
struct Cnn {
  Tensor w1, b1, w2, b2, w3, b3;
};

// [n, channels, rows, columns] -> [n, more channels, rows / 2, columns / 2]
Tensor layer(const Tensor& x, const Tensor& w, const Tensor& b) {
  return max_pool(relu(conv(x, w, {.padding = Padding::same}) + reshape(b, {-1, 1, 1})), 2);
}

// Maps images [n, 1, 8, 8] to one logit per digit, [n, 10].
Tensor logits(const Cnn& cnn, const Tensor& images) {
  const Tensor features = layer(layer(images, cnn.w1, cnn.b1), cnn.w2, cnn.b2);
  return matmul(reshape(features, {images.shape()[0], -1}), cnn.w3) + cnn.b3;
}

Tensor loss(const Cnn& cnn, const Tensor& images, const Tensor& labels) {
  return cross_entropy(logits(cnn, images), labels);
}

// Initial weights with which layers keep the variance of their inputs: He et al., "Delving deep
// into rectifiers", 2015.
Tensor weights(const Key& key, const Shape& shape, Index fan_in) {
  return std::sqrt(6. / static_cast<double>(fan_in)) * uniform(key, shape, -1, 1);
}

double accuracy(const Cnn& cnn, const Tensor& images, const Tensor& labels) {
  return mean(astype(argmax(logits(cnn, images), 1) == labels, float64)).item<double>();
}

void train() {
  const Digits digits = read_digits(STAVE_EXAMPLE_DATA "/digits.csv");
  const Tensor images = reshape(astype(digits.pixels, float64), {-1, 1, 8, 8}), labels = digits.labels;
  constexpr Index training = 1438, batch_size = 64;

  const auto [key1, key2, key3, order_key] = split<4>(Key(0));
  Cnn cnn{weights(key1, {16, 1, 3, 3}, 9), zeros({16}), weights(key2, {32, 16, 3, 3}, 144), zeros({32}),
          weights(key3, {128, 10}, 128),   zeros({10})};
  const auto optimizer = adam({.learning_rate = 3e-3});
  auto state = optimizer.init(cnn);
  std::vector<Tensor> losses;
  for (int epoch = 0; epoch < 10; ++epoch) {
    const Tensor order = permutation(fold_in(order_key, epoch), training);
    for (Index end = batch_size; end <= training; end += batch_size) {
      const Tensor batch = order(slice(end - batch_size, end));
      const auto [value, gradient] = value_and_grad(loss)(cnn, images(batch), labels(batch));
      std::tie(cnn, state) = optimizer.update(cnn, gradient, state);
      losses.push_back(value);
    }
    std::cout << "epoch " << epoch + 1 << ": loss " << losses.back() << "\n";
  }
  const auto test = slice(training, none);
  const double right = accuracy(cnn, images(test), labels(test));
  std::cout << "accuracy on digits not seen: " << right << "\n";

  const Tensor figures = read_csv(STAVE_EXAMPLE_DATA "/18_convolutional_network.csv", {.skip_lines = 1, .columns = 1});
  check(allclose(stack(losses), figures(slice(), 0), 1e-10), "the loss is JAX's in each of 220 steps");
  check(right > 0.9, "it reads digits that it has not seen");
}

int main() { with(DefaultDtype(float64), train); }
