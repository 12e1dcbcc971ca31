// Losses of classifiers.
#include <stave/core/ops/losses.h>

#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/softmax.h>
#include <stave/handlers/onnx/operators.h>

namespace stave_detail {

namespace {

// The classes are along axis 1.
Tensor negative_log_likelihood(const NodeCall& n, const Tensor& log_probabilities) {
  NllOptions options{.axis = 1};
  if (n.has("ignore_index")) options.ignored = n.integer("ignore_index");
  if (n.has(2)) options.weights = n(2);
  const std::string reduction = n.text("reduction", "mean");
  if (reduction == "none") options.reduction = Reduction::none;
  else if (reduction == "sum") options.reduction = Reduction::sum;
  else if (reduction != "mean") n.refuse("there is no reduction '{}'", reduction);
  return nll_loss(log_probabilities, n(1), options);
}

OnnxValues softmax_cross_entropy(const NodeCall& n) {
  const Tensor log_probabilities = log_softmax(n(0), 1);
  return results({negative_log_likelihood(n, log_probabilities), log_probabilities});
}

constexpr OnnxOperator losses_rows[] = {
    {"NegativeLogLikelihoodLoss", 12, [](const NodeCall& n) { return negative_log_likelihood(n, n(0)); }},
    {"SoftmaxCrossEntropyLoss", 12, softmax_cross_entropy},
};

}  // namespace

std::span<const OnnxOperator> onnx_losses() { return losses_rows; }

}  // namespace stave_detail
