// Losses: how far predictions are from their targets. All losses are composed of other operations.
// Integers become default_dtype(); 16-bit floats are computed in float32 and rounded once.
// Predictions and targets must have one shape, because broadcasting them is usually a mistake;
// otherwise ShapeError is thrown.
#pragma once

#include <optional>

#include <stave/core/tensor/options.h>
#include <stave/core/tensor/tensor.h>

namespace stave {

/// How the losses of all examples are combined.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"  // GCC confuses it with `none` of layout.h
enum class Reduction { none, mean, sum };
#pragma GCC diagnostic pop

struct LossOptions {
  [[no_unique_address]] ByName by_name{};
  Reduction reduction = Reduction::mean;
};

struct CrossEntropyOptions {
  [[no_unique_address]] ByName by_name{};
  Index axis = -1;  ///< the axis of the classes
  /// The fraction of each label that is spread evenly over all classes.
  double label_smoothing = 0;
  std::optional<Index> ignored{};  ///< examples with this integer label contribute nothing
  /// The weight of each class: [classes].
  Tensor weights{};
  Reduction reduction = Reduction::mean;
};
/// -log softmax(logits)[label], for logits with an axis of classes. Labels are either integers,
/// of the logits' shape without that axis, or floats of the whole shape, which are a probability
/// for each class. With integer labels the mean is weighted by the weights of the labels that
/// are not ignored; it is 0 if all are. With probabilities it is over all examples. This is
/// PyTorch's cross_entropy, except for `axis`, and that PyTorch returns NaN if all are ignored.
///
/// A logit of -inf masks a class: the class has no derivative and contributes nothing
/// if its probability is 0. With label_smoothing, which gives each class some probability, the loss
/// is infinite. Throws IndexError for a label outside [0, classes) that is not the ignored one.
Tensor cross_entropy(const Tensor& logits, const Tensor& labels, CrossEntropyOptions options = {});

struct NllOptions {
  [[no_unique_address]] ByName by_name{};
  Index axis = -1;                 ///< the axis of the classes
  std::optional<Index> ignored{};  ///< examples with this label contribute nothing
  Tensor weights{};                ///< the weight of each class: [classes]
  Reduction reduction = Reduction::mean;
};
/// -log_probabilities[label], for integer labels: cross_entropy of the results of log_softmax.
/// This is PyTorch's nll_loss.
Tensor nll_loss(const Tensor& log_probabilities, const Tensor& labels, NllOptions options = {});

/// (x - y)^2.
Tensor mse_loss(const Tensor& predictions, const Tensor& targets, LossOptions options = {});
Tensor mae_loss(const Tensor& predictions, const Tensor& targets,
                LossOptions options = {});  ///< |x - y|; the derivative at 0 is 0

struct HuberOptions {
  [[no_unique_address]] ByName by_name{};
  double delta = 1;  ///< positive
  Reduction reduction = Reduction::mean;
};
/// e^2 / 2 of the error e = x - y where |e| <= delta, else delta (|e| - delta / 2).
/// This is the Huber loss of PyTorch and Optax.
Tensor huber_loss(const Tensor& predictions, const Tensor& targets, HuberOptions options = {});
struct SmoothL1Options {
  [[no_unique_address]] ByName by_name{};
  double beta = 1;  ///< 0 gives mae_loss
  Reduction reduction = Reduction::mean;
};
/// e^2 / (2 beta) of the error e = x - y where |e| <= beta, else |e| - beta / 2: huber_loss / beta.
/// This is PyTorch's smooth_l1_loss.
Tensor smooth_l1_loss(const Tensor& predictions, const Tensor& targets, SmoothL1Options options = {});

struct BinaryCrossEntropyOptions {
  [[no_unique_address]] ByName by_name{};
  Tensor weights{};  ///< factors of the losses; they broadcast
  /// Factors of the terms y log(p) alone, only with logits; they broadcast.
  Tensor positive_weight{};
  Reduction reduction = Reduction::mean;
};
/// -y log(p) - (1 - y) log(1 - p), for probabilities p and targets y in [0, 1].
/// Logarithms are clamped to at least -100, as in PyTorch, and have derivative 0 there.
/// Prefer binary_cross_entropy_with_logits.
Tensor binary_cross_entropy(const Tensor& probabilities, const Tensor& targets, BinaryCrossEntropyOptions options = {});
/// binary_cross_entropy of p = sigmoid(logits), accurate for logits of any size:
///   positive_weight y softplus(-x) + (1 - y) softplus(x)
Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& targets,
                                        BinaryCrossEntropyOptions options = {});

struct KlDivergenceOptions {
  [[no_unique_address]] ByName by_name{};
  Index axis = -1;           ///< the axis of the classes
  bool log_targets = false;  ///< whether targets are logarithms of probabilities
  Reduction reduction = Reduction::mean;
};
/// sum(y (log(y) - log_predictions)) over the classes, where terms with y = 0 are 0:
/// the Kullback-Leibler divergence of the distribution y from the predicted one.
/// This is Optax's kl_divergence, and PyTorch's kl_div with reduction="batchmean".
Tensor kl_divergence(const Tensor& log_predictions, const Tensor& targets, KlDivergenceOptions options = {});

struct CosineSimilarityOptions {
  [[no_unique_address]] ByName by_name{};
  Index axis = -1;
  double epsilon = 1e-8;  ///< a vector is divided by its norm, or by epsilon if that is larger
};
/// sum(a b) / (norm(a) norm(b)) along an axis: the cosine of the angle between vectors, 0 if one
/// of them is 0. The operands broadcast. This is PyTorch's cosine_similarity.
Tensor cosine_similarity(const Tensor& a, const Tensor& b, CosineSimilarityOptions options = {});

/// max(0, 1 - x y), for predictions x and targets y that are -1 or 1. The derivative at the kink is
/// 0. This is Optax's hinge_loss.
Tensor hinge_loss(const Tensor& predictions, const Tensor& targets, LossOptions options = {});

// ---- margins --------------------------------------------------------------------------------
// These are PyTorch's losses of the same names. The derivative at a kink is 0.

/// log(1 + exp(-x y)), for targets y that are -1 or 1, accurate for x of any size.
Tensor soft_margin_loss(const Tensor& predictions, const Tensor& targets, LossOptions options = {});

struct MarginOptions {
  [[no_unique_address]] ByName by_name{};
  double margin = 0;
  Reduction reduction = Reduction::mean;
};
/// max(0, -y (x1 - x2) + margin): x1 should be larger than x2 where y is 1, smaller where it is -1.
Tensor margin_ranking_loss(const Tensor& x1, const Tensor& x2, const Tensor& targets, MarginOptions options = {});
/// 1 - c where y is 1, and max(0, c - margin) where y is -1, with the cosine_similarity c of
/// vectors a [..., d] and b [..., d], and targets y [...].
Tensor cosine_embedding_loss(const Tensor& a, const Tensor& b, const Tensor& targets, MarginOptions options = {});

struct HingeEmbeddingOptions {
  [[no_unique_address]] ByName by_name{};
  double margin = 1;
  Reduction reduction = Reduction::mean;
};
/// x where y is 1, and max(0, margin - x) where y is -1, for distances x and targets y.
Tensor hinge_embedding_loss(const Tensor& distances, const Tensor& targets, HingeEmbeddingOptions options = {});

struct MultiMarginOptions {
  [[no_unique_address]] ByName by_name{};
  int p = 1;  ///< 1 or 2
  double margin = 1;
  Tensor weights{};  ///< the weight of each class: [classes]
  Reduction reduction = Reduction::mean;
};
/// sum(max(0, margin - x[label] + x[i])^p) / classes over the other classes i, times the weight of
/// the label, for x [..., classes] and integer labels [...]. Throws IndexError for a label out of
/// range.
Tensor multi_margin_loss(const Tensor& x, const Tensor& labels, MultiMarginOptions options = {});
/// sum(max(0, 1 - x[j] + x[i])) / classes over the labels j of an example and all other classes i,
/// for x [..., classes] and integers [..., classes]. The labels of an example end before the first
/// -1.
Tensor multilabel_margin_loss(const Tensor& x, const Tensor& labels, LossOptions options = {});
/// The mean over the classes of binary_cross_entropy_with_logits, for x and targets [..., classes].
Tensor multilabel_soft_margin_loss(const Tensor& x, const Tensor& targets, LossOptions options = {});

struct TripletMarginOptions {
  [[no_unique_address]] ByName by_name{};
  double margin = 1;
  double p = 2;           ///< the distance is vector_norm(a - b + epsilon, p)
  double epsilon = 1e-6;  ///< keeps the distance away from 0
  bool swap = false;      ///< takes the smaller of the distances of anchor and positive to negative
  Reduction reduction = Reduction::mean;
};
/// max(0, d(anchor, positive) - d(anchor, negative) + margin), for vectors [..., d]. The operands
/// broadcast.
Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           TripletMarginOptions options = {});

// ---- likelihoods and sequences --------------------------------------------------------------

struct PoissonNllOptions {
  [[no_unique_address]] ByName by_name{};
  bool log_input = true;  ///< whether predictions are logarithms of rates
  /// Whether to add Stirling's approximation y log(y) - y + log(2 pi y) / 2 of log(y!) where y > 1.
  bool full = false;
  double epsilon = 1e-8;  ///< is added to rates before the logarithm
  Reduction reduction = Reduction::mean;
};
/// exp(x) - y x, or for rates x - y log(x + epsilon): the negative logarithm of a Poisson
/// likelihood. This is PyTorch's poisson_nll_loss.
Tensor poisson_nll_loss(const Tensor& predictions, const Tensor& targets, PoissonNllOptions options = {});

struct GaussianNllOptions {
  [[no_unique_address]] ByName by_name{};
  bool full = false;      ///< whether to add log(2 pi) / 2
  double epsilon = 1e-6;  ///< variances below it count as epsilon, as a constant
  Reduction reduction = Reduction::mean;
};
/// (log(v) + (x - y)^2 / v) / 2 for variances v, which broadcast to the shape of the predictions x.
/// This is PyTorch's gaussian_nll_loss. The variance has derivative 0 where it is clamped (PyTorch
/// treats it as if it were not).
Tensor gaussian_nll_loss(const Tensor& predictions, const Tensor& targets, const Tensor& variances,
                         GaussianNllOptions options = {});

struct CtcOptions {
  [[no_unique_address]] ByName by_name{};
  Index blank = 0;  ///< the label of the blank, which separates others
  /// Gives 0, and no derivative, for targets that are too long for their input.
  bool zero_infinity = false;
  /// The mean is that of losses divided by their target's length, which counts as at least 1.
  Reduction reduction = Reduction::mean;
};
/// Connectionist temporal classification (Graves et al. 2006): -log of the probability that the
/// labels of all steps, without repetitions and blanks, are the target. log_probabilities are
/// [steps, batch, classes], targets integers [batch, longest], lengths integers [batch]. Labels
/// after the end of a target are not used. This is PyTorch's ctc_loss. It takes a few operations
/// for each step. Throws ShapeError if shapes do not fit.
Tensor ctc_loss(const Tensor& log_probabilities, const Tensor& targets, const Tensor& input_lengths,
                const Tensor& target_lengths, CtcOptions options = {});

}  // namespace stave
