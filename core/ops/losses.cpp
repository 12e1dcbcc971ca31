// Losses, composed of other operations.

#include <stave/core/ops/losses.h>

#include <algorithm>

#include <stave/core/op/op.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/losses_frontend.h>
#include <stave/core/ops/reduce.h>
#include <stave/core/ops/softmax.h>
#include <stave/core/tensor/fail.h>

namespace stave {

using namespace stave_detail;

namespace {

// Returns a loss that is computed elementwise, in the common floating dtype, and then reduced.
template <class F>
Tensor elementwise_loss(const char* function, const Tensor& predictions, const Tensor& targets, Reduction reduction,
                        F loss) {
  return named(
      function,
      [&] {
        check_one_shape(function, predictions, targets);
        return in_floats([&](const Tensor& x, const Tensor& y) { return reduce_losses(loss(x, y), reduction); },
                         predictions, targets);
      },
      predictions, targets);
}

}  // namespace

// ---- classification -----------------------------------------------------------------------------

namespace {

// The properties that cross_entropy and nll_loss share: the axis of classes, the number of classes
// and their weights.
struct Classes {
  const char* function;
  Index axis, count;
  Tensor weights;

  Classes(const char* function, const Tensor& x, Index axis, const Tensor& given_weights)
      : function(function), axis(normalize_axis(axis, x.rank(), function)), count(x.shape(this->axis)),
        weights(given_weights) {
    if (weights.defined() && weights.shape() != Shape(count))
      fail<ShapeError>("{}: weights have shape {}, for {} classes", function, weights.shape(), count);
  }
  // Returns the weights in a shape that broadcasts along the class axis of x.
  Tensor weights_beside(const Tensor& x) const {
    Shape shape = x.shape();
    std::fill(shape.begin(), shape.end(), 1);
    shape[static_cast<std::size_t>(axis)] = count;
    return reshape(weights, shape);
  }
};

// Returns x[..., label], where x and labels share the first `shared` axes. Negative labels are out
// of range.
Tensor entries_of(const Tensor& x, const Tensor& labels, int shared) {
  return apply(op_gather, {x, expand_dims(labels, -1)}, make_intrusive<GatherAttributes>(shared, false));
}

// Returns the losses of integer labels, reduced. The loss of an ignored label is 0. The mean is
// weighted by the weights of the other labels.
Tensor loss_of_labels(const Classes& classes, const Tensor& log_p, const Tensor& weights, const Tensor& labels,
                      std::optional<Index> ignored, double smoothing, Reduction reduction) {
  Shape expected = log_p.shape();
  expected.erase(expected.begin() + classes.axis);
  if (labels.shape() != expected)
    fail<ShapeError>("{}: labels have shape {}: for shape {} with classes along axis {} they must have {}",
                     classes.function, labels.shape(), log_p.shape(), classes.axis, expected);
  Tensor places = as_indices(labels, classes.function), counts;
  if (ignored) {
    counts = places != *ignored;
    places = where(counts, places, 0);
  }
  Tensor weight;
  if (weights.defined()) weight = entries_of(weights, places, 0);
  const auto weighted = [](const Tensor& w, const Tensor& x) { return w.defined() ? scale(w, x) : x; };
  Tensor losses = weighted(weight, -entries_of(moveaxis(log_p, classes.axis, -1), places, places.rank()));
  if (smoothing > 0) {
    const Tensor of_all = weights.defined() ? scale(classes.weights_beside(log_p), log_p) : log_p;
    losses = (1 - smoothing) * losses - (smoothing / static_cast<double>(classes.count)) * sum(of_all, classes.axis);
  }
  if (ignored) losses = where(counts, losses, 0);
  if (reduction != Reduction::mean) return reduce_losses(losses, reduction);
  if (!weight.defined() && !ignored) return sum(losses) / static_cast<double>(std::max<Index>(losses.size(), 1));
  if (!weight.defined()) weight = ones_like(losses);
  const Tensor total = sum(ignored ? where(counts, weight, 0) : weight);
  return sum(losses) / where(total == 0, 1, total);
}

Tensor loss_of_probabilities(const Classes& classes, const Tensor& log_p, const Tensor& weights,
                             const Tensor& probabilities, double smoothing, Reduction reduction) {
  check_one_shape(classes.function, log_p, probabilities);
  Tensor wanted = probabilities;
  if (smoothing > 0) wanted = (1 - smoothing) * wanted + smoothing / static_cast<double>(classes.count);
  if (weights.defined()) wanted = wanted * classes.weights_beside(log_p);
  const Tensor losses = -sum(scale(wanted, log_p), classes.axis);
  if (reduction != Reduction::mean) return reduce_losses(losses, reduction);
  return sum(losses) / static_cast<double>(std::max<Index>(losses.size(), 1));
}

}  // namespace

Tensor cross_entropy(const Tensor& logits, const Tensor& labels, CrossEntropyOptions options) {
  if (!(options.label_smoothing >= 0 && options.label_smoothing <= 1))
    fail<Error>("cross_entropy: label_smoothing {} must lie in [0, 1]", options.label_smoothing);
  return named(
      "cross_entropy",
      [&] {
        Classes classes("cross_entropy", logits, options.axis, options.weights);
        if (is_float(labels.dtype()) && options.ignored)
          fail<DtypeError>(
              "cross_entropy: `ignored` needs integer labels, but labels are {} (probabilities): give integers",
              labels.dtype());
        if (!is_float(labels.dtype()))
          return in_floats(
              [&](const Tensor& x, const Tensor& weights) {
                classes.weights = weights;
                return loss_of_labels(classes, log_softmax(x, classes.axis), weights, labels, options.ignored,
                                      options.label_smoothing, options.reduction);
              },
              logits, options.weights);
        return in_floats(
            [&](const Tensor& x, const Tensor& p, const Tensor& weights) {
              classes.weights = weights;
              return loss_of_probabilities(classes, log_softmax(x, classes.axis), weights, p, options.label_smoothing,
                                           options.reduction);
            },
            logits, labels, options.weights);
      },
      logits, labels);
}

Tensor nll_loss(const Tensor& log_probabilities, const Tensor& labels, NllOptions options) {
  return named(
      "nll_loss",
      [&] {
        Classes classes("nll_loss", log_probabilities, options.axis, options.weights);
        return in_floats(
            [&](const Tensor& x, const Tensor& weights) {
              classes.weights = weights;
              return loss_of_labels(classes, x, weights, labels, options.ignored, 0, options.reduction);
            },
            log_probabilities, options.weights);
      },
      log_probabilities, labels);
}

// Where a target is 0, its logarithm does not matter: scale and xlogy return 0.
Tensor kl_divergence(const Tensor& log_predictions, const Tensor& targets, KlDivergenceOptions options) {
  return named(
      "kl_divergence",
      [&] {
        check_one_shape("kl_divergence", log_predictions, targets);
        const int axis = normalize_axis(options.axis, targets.rank(), "kl_divergence");
        const auto of_floats = [&](const Tensor& x, const Tensor& y) {
          const Tensor terms = options.log_targets ? scale(exp(y), y - x) : xlogy(y, y) - scale(y, x);
          return reduce_losses(sum(terms, axis), options.reduction);
        };
        return in_floats(of_floats, log_predictions, targets);
      },
      log_predictions, targets);
}

// ---- numbers --------------------------------------------------------------------------------

Tensor mse_loss(const Tensor& predictions, const Tensor& targets, LossOptions options) {
  return elementwise_loss("mse_loss", predictions, targets, options.reduction,
                          [](const Tensor& x, const Tensor& y) { return square(x - y); });
}

Tensor mae_loss(const Tensor& predictions, const Tensor& targets, LossOptions options) {
  return elementwise_loss("mae_loss", predictions, targets, options.reduction,
                          [](const Tensor& x, const Tensor& y) { return abs(x - y); });
}

// In huber_loss and smooth_l1_loss, the branch that `where` does not select may have overflowed:
// `where` gives it the cotangent 0, and `scale` keeps that 0.
Tensor huber_loss(const Tensor& predictions, const Tensor& targets, HuberOptions options) {
  const double delta = options.delta;
  if (!(delta > 0)) fail<Error>("huber_loss: delta {} is not positive", delta);
  return elementwise_loss("huber_loss", predictions, targets, options.reduction, [=](const Tensor& x, const Tensor& y) {
    const Tensor error = x - y, size = abs(error);
    return where(size <= delta, 0.5 * square(error), delta * (size - 0.5 * delta));
  });
}

Tensor smooth_l1_loss(const Tensor& predictions, const Tensor& targets, SmoothL1Options options) {
  const double beta = options.beta;
  if (!(beta >= 0)) fail<Error>("smooth_l1_loss: beta {} is less than 0", beta);
  return elementwise_loss("smooth_l1_loss", predictions, targets, options.reduction,
                          [=](const Tensor& x, const Tensor& y) {
                            const Tensor error = x - y, size = abs(error);
                            if (beta == 0) return size;
                            return where(size <= beta, square(error) * (0.5 / beta), size - 0.5 * beta);
                          });
}

Tensor hinge_loss(const Tensor& predictions, const Tensor& targets, LossOptions options) {
  return elementwise_loss("hinge_loss", predictions, targets, options.reduction,
                          [](const Tensor& x, const Tensor& y) { return relu(1 - x * y); });
}

namespace {

template <class F>
Tensor binary_loss(const char* function, const Tensor& predictions, const Tensor& targets,
                   const BinaryCrossEntropyOptions& options, F loss) {
  return named(
      function,
      [&] {
        check_one_shape(function, predictions, targets);
        const auto of_floats = [&](const Tensor& x, const Tensor& y, const Tensor& weights, const Tensor& positive) {
          const auto beside = [&](const Tensor& weight) { return broadcast_to(weight, x.shape()); };
          Tensor losses = loss(x, positive.defined() ? y * beside(positive) : y, 1 - y);
          if (weights.defined()) losses = losses * beside(weights);
          return reduce_losses(losses, options.reduction);
        };
        return in_floats(of_floats, predictions, targets, options.weights, options.positive_weight);
      },
      predictions, targets);
}

}  // namespace

Tensor binary_cross_entropy(const Tensor& probabilities, const Tensor& targets, BinaryCrossEntropyOptions options) {
  if (options.positive_weight.defined())
    fail<Error>("binary_cross_entropy: positive_weight is for logits: use binary_cross_entropy_with_logits");
  return binary_loss("binary_cross_entropy", probabilities, targets, options,
                     [](const Tensor& p, const Tensor& positive, const Tensor& negative) {
                       return -(positive * maximum(log(p), -100) + negative * maximum(log1p(-p), -100));
                     });
}

Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& targets,
                                        BinaryCrossEntropyOptions options) {
  return binary_loss("binary_cross_entropy_with_logits", logits, targets, options,
                     [](const Tensor& x, const Tensor& positive, const Tensor& negative) {
                       return scale(positive, softplus(-x)) + scale(negative, softplus(x));
                     });
}

// Each vector is divided by its own norm before the product, so that no product overflows.
Tensor cosine_similarity(const Tensor& a, const Tensor& b, CosineSimilarityOptions options) {
  if (!(options.epsilon > 0)) fail<Error>("cosine_similarity: epsilon {} is not positive", options.epsilon);
  return named(
      "cosine_similarity",
      [&] {
        const Shape shape = broadcast_shapes(a.shape(), b.shape(), "cosine_similarity");
        const int axis = normalize_axis(options.axis, shape.rank(), "cosine_similarity");
        const auto direction = [&](const Tensor& x) {
          const Tensor vectors = broadcast_to(x, shape);
          return vectors / maximum(norm(vectors, axis, keepdims), options.epsilon);
        };
        return in_floats([&](const Tensor& x, const Tensor& y) { return sum(direction(x) * direction(y), axis); }, a,
                         b);
      },
      a, b);
}

}  // namespace stave
