// The update rules of optimizers (domain ai.onnx.preview.training).
#include <cmath>

#include <stave/core/ops/elementwise.h>
#include <stave/handlers/onnx/operators.h>

namespace stave_detail {

namespace {

// The inputs after the learning rate r and the number of updates t are groups of n tensors each:
// parameters, gradients, and `kinds - 2` kinds of state. update(x, g, states) returns the new
// parameter and states.
template <class Update>
OnnxValues updated(const NodeCall& n, std::size_t kinds, Update update) {
  if (n.size() < 2 || (n.size() - 2) % kinds != 0)
    fail<ShapeError>("{} inputs are not {} for each parameter", n.size() - 2, kinds);
  const std::size_t count = (n.size() - 2) / kinds;
  OnnxValues all((kinds - 1) * count);
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<Tensor> states;
    for (std::size_t k = 2; k < kinds; ++k) states.push_back(n(2 + k * count + i));
    const Tensor& x = n(2 + i);
    const Tensor g = n.number("norm_coefficient", 0) * x + n(2 + count + i);
    const std::vector<Tensor> found = update(x, g, states);
    for (std::size_t k = 0; k < found.size(); ++k) all[k * count + i] = OnnxValue(found[k]);
  }
  return all;
}

OnnxValues adagrad(const NodeCall& n) {
  const Tensor rate = n(0) / (1 + static_cast<double>(n.integer(1)) * n.number("decay_factor", 0));
  const double epsilon = n.number("epsilon", 1e-6);
  return updated(n, 3, [&](const Tensor& x, const Tensor& g, const std::vector<Tensor>& states) {
    const Tensor h = states[0] + g * g;
    return std::vector{x - rate * g / (sqrt(h) + epsilon), h};
  });
}

OnnxValues adam(const NodeCall& n) {
  const double alpha = n.number("alpha", 0.9), beta = n.number("beta", 0.999), epsilon = n.number("epsilon", 1e-6),
               t = static_cast<double>(n.integer(1)), shrink = 1 - n.number("norm_coefficient_post", 0);
  const Tensor rate = t > 0 ? n(0) * (std::sqrt(1 - std::pow(beta, t)) / (1 - std::pow(alpha, t))) : n(0);
  return updated(n, 4, [&](const Tensor& x, const Tensor& g, const std::vector<Tensor>& states) {
    const Tensor v = alpha * states[0] + (1 - alpha) * g, h = beta * states[1] + (1 - beta) * (g * g);
    return std::vector{shrink * (x - rate * (v / (sqrt(h) + epsilon))), v, h};
  });
}

OnnxValues momentum(const NodeCall& n) {
  const double alpha = n.number("alpha", 0), beta = n.integer(1) > 0 ? n.number("beta", 0) : 1;
  const bool nesterov = n.text("mode", "standard") == "nesterov";
  return updated(n, 3, [&](const Tensor& x, const Tensor& g, const std::vector<Tensor>& states) {
    const Tensor v = alpha * states[0] + beta * g;
    return std::vector{x - n(0) * (nesterov ? g + alpha * v : v), v};
  });
}

constexpr OnnxOperator training_rows[] = {
    {"Adagrad", 1, adagrad},
    {"Adam", 1, adam},
    {"Momentum", 1, momentum},
};

}  // namespace

std::span<const OnnxOperator> onnx_training() { return training_rows; }

}  // namespace stave_detail
