// Rows of losses. References are the formulas, summed in long double.

#include <algorithm>
#include <cmath>
#include <optional>

#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/losses.h>

#include "table/reference.h"
#include "table/row.h"

namespace table {

namespace {

using Formula = std::function<Real(Real, Real)>;

/// Probabilities, which integers and bools can represent only as 0 and 1.
Domain probabilities(Dtype dtype) { return is_float(dtype) ? Domain{0.1, 0.9} : Domain{0, 1}; }

// ---- losses of classes -------------------------------------------------------------------------

Array log_weights(const Array& x, std::size_t axis) {
  return make(float64, x.shape, [&](const Shape& p) {
    Real sum = 0;
    Shape at = p;
    for (at[axis] = 0; at[axis] < x.shape[axis]; ++at[axis]) sum += std::exp(x(at));
    return x(p) - std::log(sum);
  });
}

Array reduced(const Array& losses, Reduction reduction, Real count) {
  if (reduction == Reduction::none) return sized(losses, 16);
  Real sum = 0;
  for (Real loss : losses.values) sum += loss;
  return sized({losses.dtype, {}, {reduction == Reduction::sum ? sum : sum / count}}, 32);
}

const char* name_of(Reduction reduction) {
  return reduction == Reduction::none ? "" : reduction == Reduction::sum ? " sum" : " mean";
}

struct Labels {
  Shape shape;
  Index axis;
  Reduction reduction = Reduction::mean;
  std::optional<Index> ignored = {};
  double smoothing = 0;
  bool weighted = false;
};

/// A variant of a loss by integer labels: of logits (cross_entropy), or of log-probabilities
/// (nll_loss).
Variant by_labels(Dtype dtype, const Labels& labels, bool of_logits) {
  const auto axis = static_cast<std::size_t>(labels.axis < 0 ? labels.axis + labels.shape.rank() : labels.axis);
  const Index count = labels.shape[axis];
  const Shape kept = without_axis(labels.shape, static_cast<Index>(axis));
  Variant variant{.name = labels.shape.str() + " along " + std::to_string(labels.axis) + name_of(labels.reduction) +
                          (labels.ignored ? " ignoring" : "") + (labels.smoothing > 0 ? " smooth" : "") +
                          (labels.weighted ? " weighted" : ""),
                  .inputs = {{dtype, labels.shape, {-3, 3}}, {int32, kept, {.choices = {0, 1, 2}}}}};
  if (labels.weighted) variant.inputs.push_back({dtype, {count}, positive});
  variant.call = [=](auto xs) {
    const Tensor weights = labels.weighted ? xs[2] : Tensor();
    if (!of_logits)
      return nll_loss(
          xs[0], xs[1],
          {.axis = labels.axis, .ignored = labels.ignored, .weights = weights, .reduction = labels.reduction});
    return cross_entropy(xs[0], xs[1],
                         {.axis = labels.axis,
                          .label_smoothing = labels.smoothing,
                          .ignored = labels.ignored,
                          .weights = weights,
                          .reduction = labels.reduction});
  };
  variant.reference = [=](auto xs) {
    const Array logs = of_logits ? log_weights(xs[0], axis) : xs[0];
    const auto weight = [&](Index c) { return labels.weighted ? xs[2]({c}) : Real(1); };
    Real total = 0;
    const Array losses = make(as_float(dtype), kept, [&](const Shape& p) {
      const Index label = static_cast<Index>(xs[1](p));
      if (labels.ignored == label) return Real(0);
      total += weight(label);
      const auto log_of = [&](Index c) { return logs(with_axis(p, static_cast<Index>(axis), c)); };
      Real loss = -(1 - static_cast<Real>(labels.smoothing)) * weight(label) * log_of(label);
      for (Index c = 0; c < count; ++c)
        loss -= static_cast<Real>(labels.smoothing) / static_cast<Real>(count) * weight(c) * log_of(c);
      return loss;
    });
    return Arrays{reduced(losses, labels.reduction, total == 0 ? 1 : total)};
  };
  return variant;
}

Variant by_probabilities(Dtype dtype, const Shape& shape, Index axis_given, Reduction reduction, double smoothing,
                         bool weighted) {
  const auto axis = static_cast<std::size_t>(axis_given < 0 ? axis_given + shape.rank() : axis_given);
  const Dtype real = as_float(dtype);
  Variant variant{.name = "probabilities " + shape.str() + " along " + std::to_string(axis_given) + name_of(reduction) +
                          (smoothing > 0 ? " smooth" : "") + (weighted ? " weighted" : ""),
                  .inputs = {{dtype, shape, {-3, 3}}, {real, shape, {0.1, 0.9}}}};
  if (weighted) variant.inputs.push_back({dtype, {shape[axis]}, positive});
  variant.call = [=](auto xs) {
    return cross_entropy(xs[0], xs[1],
                         {.axis = axis_given,
                          .label_smoothing = smoothing,
                          .weights = weighted ? xs[2] : Tensor(),
                          .reduction = reduction});
  };
  variant.reference = [=](auto xs) {
    const Array logs = log_weights(xs[0], axis);
    const Shape kept = without_axis(shape, static_cast<Index>(axis));
    const Array losses = make(real, kept, [&](const Shape& p) {
      Real loss = 0;
      for (Index c = 0; c < shape[axis]; ++c) {
        const Shape at = with_axis(p, static_cast<Index>(axis), c);
        const Real wanted = (1 - static_cast<Real>(smoothing)) * xs[1](at) +
                            static_cast<Real>(smoothing) / static_cast<Real>(shape[axis]);
        loss -= wanted * (weighted ? xs[2]({c}) : 1) * logs(at);
      }
      return loss;
    });
    return Arrays{reduced(losses, reduction, static_cast<Real>(std::max<Index>(kept.elements(), 1)))};
  };
  return variant;
}

std::vector<Variant> cross_entropy_variants(Dtype dtype) {
  using enum Reduction;
  std::vector<Variant> variants;
  for (const Labels& labels :
       {Labels{{3, 4}, -1}, Labels{{4, 3}, 0, none}, Labels{{2, 3, 2}, 1, sum}, Labels{{3, 4}, 1, mean, 2},
        Labels{{3, 4}, 1, none, {}, 0.1}, Labels{{4, 3}, 1, mean, 1, 0.2, true}, Labels{{4, 3}, -1, mean, {}, 0, true},
        Labels{{0, 3}, 1}, Labels{{3}, 0}})
    variants.push_back(by_labels(dtype, labels, true));
  variants.push_back(by_probabilities(dtype, {3, 4}, -1, mean, 0, false));
  variants.push_back(by_probabilities(dtype, {2, 3, 2}, 1, none, 0.1, true));
  variants.push_back(refused(
      "", dtype, {}, [](const Tensor& x) { return cross_entropy(x, x); }, "axis -1 is out of range for rank 0"));
  return variants;
}

std::vector<Variant> nll_loss_variants(Dtype dtype) {
  using enum Reduction;
  std::vector<Variant> variants;
  for (const Labels& labels : {Labels{{3, 4}, -1}, Labels{{2, 3, 2}, 1, none}, Labels{{4, 3}, 1, mean, 1, 0, true},
                               Labels{{5, 3}, 1, sum, {}, 0, true}, Labels{{0, 3}, 1}, Labels{{3, 3}, 0, sum}})
    variants.push_back(by_labels(dtype, labels, false));
  variants.push_back(refused(
      "", dtype, {}, [](const Tensor& x) { return nll_loss(x, zeros({}, int32)); },
      "axis -1 is out of range for rank 0"));
  return variants;
}

std::vector<Variant> kl_divergence_variants(Dtype dtype) {
  const auto of = [&](const Shape& shape, Index axis, bool logarithms, Reduction reduction) -> Variant {
    const Shape kept = without_axis(shape, axis);
    return {.name = shape.str() + " along " + std::to_string(axis) + name_of(reduction) + (logarithms ? " logs" : ""),
            .inputs = {{dtype, shape, {-3, -0.1}}, {dtype, shape, logarithms ? Domain{-2, 1} : Domain{0.1, 2}}},
            .call =
                [=](auto xs) {
                  return kl_divergence(xs[0], xs[1], {.axis = axis, .log_targets = logarithms, .reduction = reduction});
                },
            .reference =
                [=](auto xs) {
                  const Array losses = make(as_float(dtype), kept, [&](const Shape& p) {
                    Real sum = 0;
                    for (Index c = 0; c < shape[static_cast<std::size_t>(axis)]; ++c) {
                      const Shape at = with_axis(p, axis, c);
                      const Real y = logarithms ? std::exp(xs[1](at)) : xs[1](at);
                      sum += y == 0 ? 0 : y * (std::log(y) - xs[0](at));
                    }
                    return sum;
                  });
                  return Arrays{reduced(losses, reduction, static_cast<Real>(kept.elements()))};
                }};
  };
  using enum Reduction;
  return {
      of({3, 4}, 1, false, mean), of({2, 3, 2}, 1, false, none), of({4, 3}, 0, true, sum), of({0, 3}, 1, false, none),
      refused(
          "", dtype, {}, [](const Tensor& x) { return kl_divergence(x, x); }, "axis -1 is out of range for rank 0")};
}

// ---- losses of numbers -------------------------------------------------------------------------

using Loss = std::function<Tensor(const Tensor&, const Tensor&, Reduction)>;

std::vector<Variant> number_variants(Dtype dtype, const Loss& loss, const Formula& formula, const Domain& predictions,
                                     const Domain& targets) {
  const auto of = [&](const Shape& shape, Reduction reduction) -> Variant {
    return {.name = shape.str() + name_of(reduction),
            .inputs = {{dtype, shape, predictions}, {dtype, shape, targets}},
            .call = [=](auto xs) { return loss(xs[0], xs[1], reduction); },
            .reference =
                [=](auto xs) {
                  return Arrays{reduced(mapped(as_float(dtype), xs[0], xs[1], formula), reduction,
                                        static_cast<Real>(shape.elements()))};
                }};
  };
  using enum Reduction;
  return {of({3, 4}, mean),
          of({2, 3}, none),
          of({5}, sum),
          of({0, 2}, none),
          of({}, mean),
          refused(
              "", dtype, {2, 3}, [=](const Tensor& x) { return loss(x, zeros({3}), mean); }, "must have one shape")};
}

/// The loss as a function of its reduction. `options` sets the other members of its options.
template <class Options>
Loss with_reduction(Tensor (*loss)(const Tensor&, const Tensor&, Options), Options options = {}) {
  return [=](const Tensor& x, const Tensor& y, Reduction reduction) {
    Options given = options;
    given.reduction = reduction;
    return loss(x, y, given);
  };
}

std::vector<Variant> weighted_binary_variants(Dtype dtype) {
  const auto of = [&](const Shape& shape, const Shape& weights) -> Variant {
    return {.name = "weighted " + shape.str(),
            .inputs = {{dtype, shape, {-3, 3}},
                       {dtype, shape, probabilities(dtype)},
                       {dtype, weights, positive},
                       {dtype, weights, positive}},
            .call =
                [](auto xs) {
                  return binary_cross_entropy_with_logits(xs[0], xs[1], {.weights = xs[2], .positive_weight = xs[3]});
                },
            .reference =
                [=](auto xs) {
                  const Array losses = make(as_float(dtype), shape, [&](const Shape& p) {
                    const Shape at = broadcast_position(weights, p);
                    const Real x = xs[0](p), y = xs[1](p);
                    return xs[2](at) * (y * xs[3](at) * std::log1p(std::exp(-x)) + (1 - y) * std::log1p(std::exp(x)));
                  });
                  return Arrays{reduced(losses, Reduction::mean, static_cast<Real>(shape.elements()))};
                }};
  };
  return {of({2, 3}, {3}), of({2, 2}, {2, 1})};
}

std::vector<Variant> cosine_similarity_variants(Dtype dtype) {
  const auto of = [&](const Shape& a, const Shape& b, Index axis) -> Variant {
    const Shape shape = broadcast_shape(a, b);
    const Index along = axis < 0 ? axis + shape.rank() : axis;
    return {.name = a.str() + " and " + b.str() + " along " + std::to_string(axis),
            .inputs = {{dtype, a, {0.5, 3}}, {dtype, b, {0.5, 3}}},
            .call = [=](auto xs) { return cosine_similarity(xs[0], xs[1], {.axis = axis}); },
            .reference =
                [=](auto xs) {
                  return Arrays{sized(
                      make(as_float(dtype), without_axis(shape, along),
                           [&](const Shape& p) {
                             Real ab = 0, aa = 0, bb = 0;
                             for (Index i = 0; i < shape[static_cast<std::size_t>(along)]; ++i) {
                               const Shape at = with_axis(p, along, i);
                               const Real x = xs[0](broadcast_position(a, at)), y = xs[1](broadcast_position(b, at));
                               ab += x * y, aa += x * x, bb += y * y;
                             }
                             const Real least = 1e-8L;
                             return ab / std::max(std::sqrt(aa), least) / std::max(std::sqrt(bb), least);
                           }),
                      4)};
                }};
  };
  return {of({3, 4}, {3, 4}, -1),
          of({2, 3}, {3}, 1),
          of({3, 2}, {3, 2}, 0),
          of({4}, {4}, 0),
          of({0, 3}, {0, 3}, 1),
          refused(
              "", dtype, {}, [](const Tensor& x) { return cosine_similarity(x, x); },
              "axis -1 is out of range for rank 0")};
}

}  // namespace

void add_losses_rows(std::vector<Row>& rows) {
  const auto add = [&](const char* name, std::function<std::vector<Variant>(Dtype)> variants) {
    rows.push_back({.name = name, .dtypes = network_dtypes, .variants = std::move(variants), .bitwise = false});
  };
  add("cross_entropy", cross_entropy_variants);
  add("nll_loss", nll_loss_variants);
  add("kl_divergence", kl_divergence_variants);
  const auto add_numbers = [&](const char* name, const Loss& loss, const Formula& formula) {
    add(name, [=](Dtype dtype) { return number_variants(dtype, loss, formula, {}, {}); });
  };
  add_numbers("mse_loss", with_reduction(mse_loss), [](Real x, Real y) { return (x - y) * (x - y); });
  add_numbers("mae_loss", with_reduction(mae_loss), [](Real x, Real y) { return std::abs(x - y); });
  add_numbers("huber_loss", with_reduction(huber_loss, {.delta = 0.7}), [](Real x, Real y) {
    const Real e = std::abs(x - y), delta = 0.7L;
    return e <= delta ? e * e / 2 : delta * (e - delta / 2);
  });
  add_numbers("smooth_l1_loss", with_reduction(smooth_l1_loss, {.beta = 0.7}), [](Real x, Real y) {
    const Real e = std::abs(x - y), beta = 0.7L;
    return e <= beta ? e * e / (2 * beta) : e - beta / 2;
  });
  add_numbers("hinge_loss", with_reduction(hinge_loss), [](Real x, Real y) { return std::max<Real>(0, 1 - x * y); });
  add("binary_cross_entropy", [](Dtype dtype) {
    const auto log = [](Real x) { return std::max<Real>(std::log(x), -100); };
    return number_variants(
        dtype, with_reduction(binary_cross_entropy), [=](Real p, Real y) { return -y * log(p) - (1 - y) * log(1 - p); },
        probabilities(dtype), probabilities(dtype));
  });
  add("binary_cross_entropy_with_logits", [](Dtype dtype) {
    std::vector<Variant> variants = number_variants(
        dtype, with_reduction(binary_cross_entropy_with_logits),
        [](Real x, Real y) { return y * std::log1p(std::exp(-x)) + (1 - y) * std::log1p(std::exp(x)); }, {-3, 3},
        probabilities(dtype));
    for (Variant& variant : weighted_binary_variants(dtype)) variants.push_back(std::move(variant));
    return variants;
  });
  add("cosine_similarity", cosine_similarity_variants);
}

}  // namespace table
