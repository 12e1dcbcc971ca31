// Losses: how far predictions are from what was wanted. All are composed of other operations. Integers become default_dtype(), halves
// are computed in float32 and rounded once. Predictions and targets have one shape, as a broadcast one is mostly a mistake: that throws
// ShapeError.
#pragma once

#include <optional>

#include <stave/core/tensor/options.h>
#include <stave/core/tensor/tensor.h>

namespace stave {

/// What becomes of the losses of all examples.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored \
    "-Wshadow"  // GCC takes it for another name of `none` (layout.h), though the enumeration is scoped
enum class Reduction { none, mean, sum };
#pragma GCC diagnostic pop

struct LossOptions {
  [[no_unique_address]] ByName by_name{};
  Reduction reduction = Reduction::mean;
};

struct CrossEntropyOptions {
  [[no_unique_address]] ByName by_name{};
  Index axis = -1;                 ///< of the classes
  double label_smoothing = 0;      ///< so much of each label goes to all classes in equal parts
  std::optional<Index> ignored{};  ///< an integer label that does not count
  Tensor weights{};                ///< [classes], for the label's class, or, of probabilities, for each
  Reduction reduction = Reduction::mean;
};
/// -log softmax(logits)[label], for logits with an axis of classes. Labels are integers, of the logits' shape without that axis, or
/// floats of the whole shape: a probability for each class. The mean is over the labels that count, weighed as they are (0 if none
/// counts); of probabilities over all. PyTorch's, but for `axis`, and for the NaN where none counts.
///
/// A logit of -inf masks a class: it has no derivative, and takes no part where its probability is 0; with label_smoothing, which gives
/// each class some, the loss is infinite. Throws IndexError for a label outside [0, classes) that is not the ignored one.
Tensor cross_entropy(const Tensor& logits, const Tensor& labels, CrossEntropyOptions options = {});

struct NllOptions {
  [[no_unique_address]] ByName by_name{};
  Index axis = -1;                 ///< of the classes
  std::optional<Index> ignored{};  ///< a label that does not count
  Tensor weights{};                ///< [classes]
  Reduction reduction = Reduction::mean;
};
/// -log_probabilities[label], for integer labels: cross_entropy of what log_softmax gave. PyTorch's.
Tensor nll_loss(const Tensor& log_probabilities, const Tensor& labels, NllOptions options = {});

Tensor mse_loss(const Tensor& predictions, const Tensor& targets, LossOptions options = {});  ///< (x - y)^2
Tensor mae_loss(const Tensor& predictions, const Tensor& targets,
                LossOptions options = {});  ///< |x - y|; derivative 0 at 0

struct HuberOptions {
  [[no_unique_address]] ByName by_name{};
  double delta = 1;  ///< positive
  Reduction reduction = Reduction::mean;
};
/// e^2 / 2 of the error e = x - y where |e| <= delta, beyond that delta (|e| - delta / 2). PyTorch's and Optax's.
Tensor huber_loss(const Tensor& predictions, const Tensor& targets, HuberOptions options = {});
struct SmoothL1Options {
  [[no_unique_address]] ByName by_name{};
  double beta = 1;  ///< 0 gives mae_loss
  Reduction reduction = Reduction::mean;
};
/// e^2 / (2 beta) where |e| <= beta, beyond that |e| - beta / 2: huber_loss / beta. PyTorch's.
Tensor smooth_l1_loss(const Tensor& predictions, const Tensor& targets, SmoothL1Options options = {});

struct BinaryCrossEntropyOptions {
  [[no_unique_address]] ByName by_name{};
  Tensor weights{};          ///< of each loss; broadcasts
  Tensor positive_weight{};  ///< of the targets' part alone, with logits only; broadcasts
  Reduction reduction = Reduction::mean;
};
/// -y log(p) - (1 - y) log(1 - p), of probabilities p and targets y in [0, 1]. Logarithms are at least -100, as PyTorch's, and constant
/// there: prefer logits.
Tensor binary_cross_entropy(const Tensor& probabilities, const Tensor& targets, BinaryCrossEntropyOptions options = {});
/// The same of p = sigmoid(logits), at any size of logits: positive_weight y softplus(-x) + (1 - y) softplus(x).
Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& targets,
                                        BinaryCrossEntropyOptions options = {});

struct KlDivergenceOptions {
  [[no_unique_address]] ByName by_name{};
  Index axis = -1;           ///< of the classes
  bool log_targets = false;  ///< targets are logarithms of probabilities
  Reduction reduction = Reduction::mean;
};
/// sum(y (log(y) - log_predictions)) over the classes, 0 where y is 0: how far the distribution y is from the predicted one. Optax's;
/// PyTorch's kl_div with reduction="batchmean".
Tensor kl_divergence(const Tensor& log_predictions, const Tensor& targets, KlDivergenceOptions options = {});

struct CosineSimilarityOptions {
  [[no_unique_address]] ByName by_name{};
  Index axis = -1;
  double epsilon = 1e-8;  ///< norms are at least this
};
/// sum(a b) / (norm(a) norm(b)) along an axis: the cosine of the angle between vectors, 0 if one is 0. They broadcast. PyTorch's.
Tensor cosine_similarity(const Tensor& a, const Tensor& b, CosineSimilarityOptions options = {});

/// max(0, 1 - x y), of predictions x and targets y that are -1 or 1. Optax's; derivative 0 at the kink.
Tensor hinge_loss(const Tensor& predictions, const Tensor& targets, LossOptions options = {});

}  // namespace stave
