// Losses of margins and likelihoods, and the loss of sequences without alignment (CTC).

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include <stave/core/op/op.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/index.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/linalg.h>
#include <stave/core/ops/losses_frontend.h>
#include <stave/core/ops/reduce.h>
#include <stave/core/ops/scan.h>
#include <stave/core/tensor/fail.h>

namespace stave {

using namespace stave_detail;

namespace {}  // namespace

Tensor soft_margin_loss(const Tensor& predictions, const Tensor& targets, LossOptions options) {
  return named(
      "soft_margin_loss",
      [&] {
        check_one_shape("soft_margin_loss", predictions, targets);
        return in_floats(
            [&](const Tensor& x, const Tensor& y) { return reduce_losses(softplus(-x * y), options.reduction); },
            predictions, targets);
      },
      predictions, targets);
}

Tensor margin_ranking_loss(const Tensor& x1, const Tensor& x2, const Tensor& targets, MarginOptions options) {
  return named(
      "margin_ranking_loss",
      [&] {
        check_one_shape("margin_ranking_loss", x1, x2);
        check_one_shape("margin_ranking_loss", x1, targets);
        return in_floats(
            [&](const Tensor& a, const Tensor& b, const Tensor& y) {
              return reduce_losses(relu(y * (b - a) + options.margin), options.reduction);
            },
            x1, x2, targets);
      },
      x1, x2, targets);
}

namespace {

// The losses of pairs that are alike, where y is 1, and unlike, where it is -1.
Tensor of_pairs(const Tensor& alike, const Tensor& unlike, const Tensor& y) {
  return where(y == 1, alike, where(y == -1, unlike, 0));
}

}  // namespace

Tensor cosine_embedding_loss(const Tensor& a, const Tensor& b, const Tensor& targets, MarginOptions options) {
  return named(
      "cosine_embedding_loss",
      [&] {
        check_one_shape("cosine_embedding_loss", a, b);
        if (a.rank() < 1 || targets.shape() != without_last(a.shape()))
          fail<ShapeError>(
              "cosine_embedding_loss: targets {} must have the shape of the vectors {} without the last axis",
              targets.shape(), a.shape());
        return in_floats(
            [&](const Tensor& x, const Tensor& y) {
              const Tensor c = cosine_similarity(x, y);
              return reduce_losses(of_pairs(1 - c, relu(c - options.margin), targets), options.reduction);
            },
            a, b);
      },
      a, b, targets);
}

Tensor hinge_embedding_loss(const Tensor& distances, const Tensor& targets, HingeEmbeddingOptions options) {
  return named(
      "hinge_embedding_loss",
      [&] {
        check_one_shape("hinge_embedding_loss", distances, targets);
        return in_floats(
            [&](const Tensor& x) {
              return reduce_losses(of_pairs(x, relu(options.margin - x), targets), options.reduction);
            },
            distances);
      },
      distances, targets);
}

Tensor multi_margin_loss(const Tensor& x, const Tensor& labels, MultiMarginOptions options) {
  if (options.p != 1 && options.p != 2) fail<Error>("multi_margin_loss: p is {}, and must be 1 or 2", options.p);
  return named(
      "multi_margin_loss",
      [&] {
        if (x.rank() < 1 || labels.shape() != without_last(x.shape()))
          fail<ShapeError>("multi_margin_loss: labels {} must have the shape of x {} without the classes",
                           labels.shape(), x.shape());
        const Index classes = x.shape(-1);
        if (options.weights.defined() && options.weights.shape() != Shape(classes))
          fail<ShapeError>("multi_margin_loss: weights have shape {}, for {} classes", options.weights.shape(),
                           classes);
        return in_floats(
            [&](const Tensor& t, const Tensor& weights) {
              const Tensor own = one_hot(labels, classes, t.dtype());
              const Tensor right = sum(scale(own, t), -1, keepdims);
              const Tensor excess = relu(options.margin - right + t);
              const Tensor losses = sum(where(own > 0, 0, options.p == 2 ? square(excess) : excess), -1);
              const Tensor weighted = weights.defined() ? losses * take(weights, labels) : losses;
              return reduce_losses(weighted / static_cast<double>(std::max<Index>(classes, 1)), options.reduction);
            },
            x, options.weights);
      },
      x, labels);
}

Tensor multilabel_margin_loss(const Tensor& x, const Tensor& labels, LossOptions options) {
  return named(
      "multilabel_margin_loss",
      [&] {
        check_one_shape("multilabel_margin_loss", x, labels);
        if (x.rank() < 1) fail<ShapeError>("multilabel_margin_loss: a tensor of rank 0 has no classes");
        const Index classes = x.shape(-1);
        return in_floats(
            [&](const Tensor& t) {
              const Tensor used = logical_not(cumulative_sum(astype(labels < 0, int32), -1) > 0);
              const Tensor places = where(used, labels, 0);
              const Tensor chosen = logical_and(one_hot(places, classes, bool_), expand_dims(used, Shape{-1}));
              const Tensor other = logical_not(any(chosen, -2, keepdims));  // [..., 1, classes]
              const Tensor right = expand_dims(take_along_axis(t, places, -1), Shape{-1});
              const Tensor excess = relu(1 - right + expand_dims(t, Shape{-2}));
              const Tensor counted = logical_and(expand_dims(used, Shape{-1}), other);
              const Tensor losses = sum(where(counted, excess, 0), {-2, -1});
              return reduce_losses(losses / static_cast<double>(std::max<Index>(classes, 1)), options.reduction);
            },
            x);
      },
      x, labels);
}

Tensor multilabel_soft_margin_loss(const Tensor& x, const Tensor& targets, LossOptions options) {
  return named(
      "multilabel_soft_margin_loss",
      [&] {
        check_one_shape("multilabel_soft_margin_loss", x, targets);
        return in_floats(
            [&](const Tensor& t, const Tensor& y) {
              const Tensor losses = binary_cross_entropy_with_logits(t, y, {.reduction = Reduction::none});
              return reduce_losses(mean(losses, -1), options.reduction);
            },
            x, targets);
      },
      x, targets);
}

Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           TripletMarginOptions options) {
  return named(
      "triplet_margin_loss",
      [&] {
        return in_floats(
            [&](const Tensor& a, const Tensor& p, const Tensor& n) {
              const auto distance = [&](const Tensor& x, const Tensor& y) {
                return vector_norm(x - y + options.epsilon, options.p, -1);
              };
              const Tensor near = distance(a, p);
              Tensor far = distance(a, n);
              if (options.swap) far = minimum(far, distance(p, n));
              return reduce_losses(relu(near - far + options.margin), options.reduction);
            },
            anchor, positive, negative);
      },
      anchor, positive, negative);
}

// ---- likelihoods ----------------------------------------------------------------------------

Tensor poisson_nll_loss(const Tensor& predictions, const Tensor& targets, PoissonNllOptions options) {
  return named(
      "poisson_nll_loss",
      [&] {
        check_one_shape("poisson_nll_loss", predictions, targets);
        return in_floats(
            [&](const Tensor& x, const Tensor& y) {
              Tensor losses = options.log_input ? exp(x) - y * x : x - y * log(x + options.epsilon);
              if (options.full) {
                const Tensor large = y > 1, safe = where(large, y, 1);
                losses = losses + where(large, safe * log(safe) - safe + 0.5 * log(2 * std::numbers::pi * safe), 0);
              }
              return reduce_losses(losses, options.reduction);
            },
            predictions, targets);
      },
      predictions, targets);
}

Tensor gaussian_nll_loss(const Tensor& predictions, const Tensor& targets, const Tensor& variances,
                         GaussianNllOptions options) {
  if (!(options.epsilon > 0)) fail<Error>("gaussian_nll_loss: epsilon {} is not positive", options.epsilon);
  return named(
      "gaussian_nll_loss",
      [&] {
        check_one_shape("gaussian_nll_loss", predictions, targets);
        if (broadcast_shapes(predictions.shape(), variances.shape(), "gaussian_nll_loss") != predictions.shape())
          fail<ShapeError>("gaussian_nll_loss: variances {} do not broadcast to predictions {}", variances.shape(),
                           predictions.shape());
        return in_floats(
            [&](const Tensor& x, const Tensor& y, const Tensor& v) {
              const Tensor variance = where(v < options.epsilon, options.epsilon, v);
              Tensor losses = 0.5 * (log(variance) + square(x - y) / variance);
              if (options.full) losses = losses + 0.5 * std::log(2 * std::numbers::pi);
              return reduce_losses(losses, options.reduction);
            },
            predictions, targets, variances);
      },
      predictions, targets, variances);
}

// ---- CTC ------------------------------------------------------------------------------------

namespace {

// A logarithm of 0 that is finite, so that differences of two have derivatives.
constexpr double log_of_zero = -1e30;

// The target with a blank before, between and after its labels has 2 longest + 1 positions. `alpha`
// is the logarithm of the probability to be at a position after the steps so far. A step stays,
// moves by one, or skips a blank between different labels:
//   alpha'[s] = log_p[label of s] + logsumexp(alpha[s], alpha[s - 1], alpha[s - 2] if it may skip)
Tensor ctc_losses(const Tensor& log_p, const Tensor& targets, const Tensor& input_lengths, const Tensor& target_lengths,
                  Index blank) {
  const Index steps = log_p.shape(0), batch = log_p.shape(1), longest = targets.shape(1), positions = 2 * longest + 1;
  const Tensor ends = expand_dims(target_lengths, Shape{1});
  const Tensor used = arange(0, longest, 1, ends.dtype(), log_p.device()) < ends;
  const Tensor labels = where(used, targets, blank), blanks = full_like(labels, blank);
  // blank, label, blank, label, ..., blank
  const Tensor pairs = reshape(stack({blanks, labels}, 2), {batch, 2 * longest});
  const Tensor extended = concat({pairs, full({batch, 1}, blank, labels.dtype(), log_p.device())}, 1);
  const Tensor before = pad(extended, {{0, 0}, {2, 0}}, blank)(slice(), slice(positions));
  const Tensor may_skip = logical_and(extended != blank, extended != before);
  const Tensor of_labels = take_along_axis(log_p, expand_dims(extended, Shape{0}), 2);
  const Tensor place = arange(0, positions, 1, int64, log_p.device());
  const auto later = [&](const Tensor& alpha, Index by) {
    return pad(alpha, {{0, 0}, {by, 0}}, log_of_zero)(slice(), slice(positions));
  };
  Tensor alpha = where(place == 0, 0., full({batch, positions}, log_of_zero, log_p.dtype(), log_p.device()));
  for (Index step = 0; step < steps; ++step) {
    const Tensor from_two = where(may_skip, later(alpha, 2), log_of_zero);
    Tensor sum_of_paths = logaddexp(logaddexp(alpha, later(alpha, 1)), from_two);
    // The first step is at one of the first two positions.
    if (step == 0) sum_of_paths = where(place < 2, 0., full_like(alpha, log_of_zero));
    const Tensor next = maximum(sum_of_paths + of_labels[step], log_of_zero);
    alpha = where(expand_dims(input_lengths, Shape{1}) > step, next, alpha);
  }
  const Tensor last = 2 * ends;
  const Tensor at_blank = take_along_axis(alpha, last, 1), at_label = take_along_axis(alpha, maximum(last - 1, 0), 1);
  const Tensor total = where(ends > 0, logaddexp(at_blank, at_label), at_blank);
  return -squeeze(total, 1);
}

}  // namespace

Tensor ctc_loss(const Tensor& log_probabilities, const Tensor& targets, const Tensor& input_lengths,
                const Tensor& target_lengths, CtcOptions options) {
  return named(
      "ctc_loss",
      [&] {
        const Index batch = log_probabilities.rank() == 3 ? log_probabilities.shape(1) : -1;
        if (batch < 0 || targets.rank() != 2 || targets.shape(0) != batch || input_lengths.shape() != Shape(batch) ||
            target_lengths.shape() != Shape(batch))
          fail<ShapeError>(
              "ctc_loss: log_probabilities {} must be [steps, batch, classes], targets {} [batch, longest], and "
              "lengths "
              "{} and {} [batch]",
              log_probabilities.shape(), targets.shape(), input_lengths.shape(), target_lengths.shape());
        if (options.blank < 0 || options.blank >= log_probabilities.shape(2))
          fail<IndexError>("ctc_loss: the blank {} is none of {} classes", options.blank, log_probabilities.shape(2));
        const Tensor labels = as_indices(targets, "ctc_loss"), ends = as_indices(target_lengths, "ctc_loss");
        return in_floats(
            [&](const Tensor& log_p) {
              Tensor losses = ctc_losses(log_p, labels, as_indices(input_lengths, "ctc_loss"), ends, options.blank);
              const Tensor impossible = losses > -0.5 * log_of_zero;
              losses = where(impossible, options.zero_infinity ? 0. : std::numeric_limits<double>::infinity(), losses);
              if (options.reduction == Reduction::mean) losses = losses / maximum(astype(ends, log_p.dtype()), 1);
              return reduce_losses(losses, options.reduction);
            },
            log_probabilities);
      },
      log_probabilities, targets, input_lengths, target_lengths);
}

}  // namespace stave
