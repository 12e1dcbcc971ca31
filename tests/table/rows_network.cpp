// Parts of networks: normalisation, looking up, losses. References are the formulas, summed in long double.

#include <algorithm>
#include <cmath>
#include <optional>

#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/losses.h>
#include <stave/core/ops/network.h>
#include <stave/core/ops/normalize.h>

#include "table/reference.h"
#include "table/row.h"

namespace table {

namespace {

using Formula = std::function<Real(Real, Real)>;

/// Of which the dtype has some.
Domain probabilities(Dtype dtype) { return is_float(dtype) ? Domain{0.1, 0.9} : Domain{0, 1}; }

const std::vector<Dtype> network_dtypes = {float16, bfloat16, float32, float64, int32};

/// The mean of f over all positions that agree with p but for `axes`.
template <class F>
Real mean_over(const Shape& shape, const Shape& p, const std::vector<Index>& axes, F f) {
  Shape lengths;
  for (Index axis : axes) lengths.push_back(shape[static_cast<std::size_t>(axis)]);
  Real sum = 0;
  for_each_position(lengths, [&](const Shape& inner) {
    Shape at = p;
    for (std::size_t i = 0; i < axes.size(); ++i) at[static_cast<std::size_t>(axes[i])] = inner[i];
    sum += f(at);
  });
  return sum / static_cast<Real>(lengths.elements());
}

Shape picked(const Shape& p, const std::vector<Index>& axes) {
  Shape result;
  for (Index axis : axes) result.push_back(p[static_cast<std::size_t>(axis)]);
  return result;
}

/// (x - mean) / sqrt(variance + epsilon) times weight plus bias, which have the lengths of `affine`.
Array standardized(const Array& x, const std::vector<Index>& axes, Real epsilon, const Array& weight, const Array& bias,
                   const std::vector<Index>& affine) {
  return sized(make(as_float(x.dtype), x.shape,
                    [&](const Shape& p) {
                      const Real mean = mean_over(x.shape, p, axes, x);
                      const Real variance =
                          mean_over(x.shape, p, axes, [&](const Shape& at) { return (x(at) - mean) * (x(at) - mean); });
                      return (x(p) - mean) / std::sqrt(variance + epsilon) * weight(picked(p, affine)) +
                             bias(picked(p, affine));
                    }),
               16);
}

Shape lengths_of(const Shape& shape, const std::vector<Index>& axes) { return picked(shape, axes); }

// ---- normalisation ----------------------------------------------------------------------------------------

std::vector<Variant> layer_norm_variants(Dtype dtype) {
  const auto of = [&](const Shape& shape, const std::vector<Index>& axes, Index repeat) -> Variant {
    const Shape lengths = lengths_of(shape, axes);
    return {.name = shape.str() + " over " + lengths.str(),
            .inputs = {{dtype, shape, {}, true, repeat}, {dtype, lengths}, {dtype, lengths}},
            .call = [=](auto xs) { return layer_norm(xs[0], {.weight = xs[1], .bias = xs[2], .axes = axes}); },
            .reference = [=](auto xs) { return Arrays{standardized(xs[0], axes, 1e-5L, xs[1], xs[2], axes)}; }};
  };
  return {of({3, 4}, {1}, 0),
          of({2, 3, 4}, {1, 2}, 0),
          of({3, 4}, {0}, 1),
          of({0, 3}, {1}, 0),
          of({2, 3, 2}, {0, 2}, 1),
          refused(
              "", dtype, {}, [](const Tensor& x) { return layer_norm(x); }, "axis -1 is out of range for rank 0")};
}

std::vector<Variant> rms_norm_variants(Dtype dtype) {
  const auto of = [&](const Shape& shape, const std::vector<Index>& axes, Index repeat) -> Variant {
    const Shape lengths = lengths_of(shape, axes);
    return {.name = shape.str() + " over " + lengths.str(),
            .inputs = {{dtype, shape, {}, true, repeat}, {dtype, lengths}},
            .call = [=](auto xs) { return rms_norm(xs[0], {.weight = xs[1], .axes = axes}); },
            .reference =
                [=](auto xs) {
                  const Array &x = xs[0], &weight = xs[1];
                  return Arrays{sized(make(as_float(dtype), shape,
                                           [&](const Shape& p) {
                                             const Real size =
                                                 mean_over(shape, p, axes, [&](auto& at) { return x(at) * x(at); });
                                             return x(p) / std::sqrt(size + 1e-6L) * weight(picked(p, axes));
                                           }),
                                      4)};
                }};
  };
  return {of({3, 4}, {1}, 0), of({2, 3, 2}, {0, 2}, 1), of({0, 3}, {1}, 0),
          refused(
              "", dtype, {}, [](const Tensor& x) { return rms_norm(x); }, "axis -1 is out of range for rank 0")};
}

std::vector<Variant> normalize_variants(Dtype dtype) {
  const auto of = [&](const Shape& shape, const std::vector<Index>& axes, Index repeat) -> Variant {
    return {.name = shape.str() + " over " + lengths_of(shape, axes).str(),
            .inputs = {{dtype, shape, {}, true, repeat}},
            .call = [=](auto xs) { return normalize(xs[0], {.axes = axes}); },
            .reference =
                [=](auto xs) {
                  const Array& x = xs[0];
                  const Real count = static_cast<Real>(lengths_of(shape, axes).elements());
                  return Arrays{sized(make(as_float(dtype), shape,
                                           [&](const Shape& p) {
                                             const Real size =
                                                 mean_over(shape, p, axes, [&](auto& at) { return x(at) * x(at); });
                                             return x(p) / std::max(std::sqrt(size * count), 1e-12L);
                                           }),
                                      2)};
                }};
  };
  return {of({3, 4}, {1}, 0), of({2, 3, 2}, {0, 2}, 1), of({0, 3}, {1}, 0),
          refused(
              "", dtype, {}, [](const Tensor& x) { return normalize(x); }, "axis -1 is out of range for rank 0")};
}

std::vector<Variant> group_norm_variants(Dtype dtype) {
  const auto of = [&](const Shape& shape, Index groups, bool last, const char* refusal) -> Variant {
    const std::size_t axis = last ? shape.size() - 1 : 1;
    const Shape channels(shape[axis]);
    return {
        .name = shape.str() + " in " + std::to_string(groups) + (last ? " last" : ""),
        .inputs = {{dtype, shape}, {dtype, channels}, {dtype, channels}},
        .call =
            [=](auto xs) { return group_norm(xs[0], groups, {.weight = xs[1], .bias = xs[2], .channels_last = last}); },
        .reference =
            [=](auto xs) {
              // Channels as [groups, channels of each].
              Shape split = shape;
              split[axis] = groups;
              split.insert(split.begin() + static_cast<std::ptrdiff_t>(axis) + 1, shape[axis] / groups);
              std::vector<Index> axes;
              for (Index other = 1; other < split.rank(); ++other)
                if (other != static_cast<Index>(axis)) axes.push_back(other);
              const Array x{dtype, split, xs[0].values};
              const Array weight{dtype, {groups, shape[axis] / groups}, xs[1].values},
                  bias{dtype, weight.shape, xs[2].values};
              const auto at = static_cast<Index>(axis);
              Array y = standardized(x, axes, 1e-5L, weight, bias, {at, at + 1});
              y.shape = shape;
              return Arrays{y};
            },
        .refusal = refusal};
  };
  return {of({2, 4}, 2, false, ""),
          of({2, 4, 3}, 2, false, ""),
          of({2, 3, 4}, 2, true, ""),
          of({2, 2, 2, 2}, 1, false, ""),
          of({0, 4}, 2, false, ""),
          of({2, 3}, 2, false, "3 channels do not make 2 groups of equal size"),
          refused(
              "", dtype, {}, [](const Tensor& x) { return group_norm(x, 1); }, "one of channels are needed")};
}

std::vector<Variant> batch_norm_variants(Dtype dtype, bool training) {
  const auto of = [&](const Shape& shape, bool last, const char* refusal) -> Variant {
    const Index axis = last ? shape.rank() - 1 : 1;
    const Shape channels(shape[static_cast<std::size_t>(axis)]);
    std::vector<Index> axes;
    for (Index other = 0; other < shape.rank(); ++other)
      if (other != axis) axes.push_back(other);
    const Dtype real = as_float(dtype);
    Variant variant{.name = shape.str() + (last ? " last" : ""),
                    .inputs = {{dtype, shape, {}, true, shape.rank() > 2 ? axes[1] : axis},
                               {real, channels},
                               {real, channels, positive},
                               {dtype, channels},
                               {dtype, channels}},
                    .refusal = refusal};
    variant.call = [=](auto xs) {
      const BatchStatistics running{xs[1], xs[2]};
      const BatchNormOptions options{.weight = xs[3], .bias = xs[4], .channels_last = last};
      if (!training) return Outputs(batch_norm_inference(xs[0], running, options));
      const auto [y, now] = batch_norm(xs[0], running, options);
      return Outputs{y, now.mean, now.variance};
    };
    variant.reference = [=](auto xs) {
      const Array &x = xs[0], &weight = xs[3], &bias = xs[4];
      if (!training)
        return Arrays{sized(make(real, shape,
                                 [&](const Shape& p) {
                                   const Shape c(p[static_cast<std::size_t>(axis)]);
                                   return (x(p) - xs[1](c)) / std::sqrt(xs[2](c) + 1e-5L) * weight(c) + bias(c);
                                 }),
                            16)};
      const auto of_channel = [&](auto f) {
        return sized(make(real, channels,
                          [&](const Shape& c) {
                            Shape p(std::vector<Index>(shape.size(), 0));
                            p[static_cast<std::size_t>(axis)] = c[0];
                            const Real mean = mean_over(shape, p, axes, x);
                            const Real square = mean_over(
                                shape, p, axes, [&](const Shape& at) { return (x(at) - mean) * (x(at) - mean); });
                            return f(c, mean, square);
                          }),
                     4);
      };
      const Real n = static_cast<Real>(lengths_of(shape, axes).elements());
      return Arrays{
          standardized(x, axes, 1e-5L, weight, bias, {axis}),
          of_channel([&](const Shape& c, Real mean, Real) { return 0.9L * xs[1](c) + 0.1L * mean; }),
          of_channel([&](const Shape& c, Real, Real square) { return 0.9L * xs[2](c) + 0.1L * square * n / (n - 1); })};
    };
    return variant;
  };
  std::vector<Variant> variants = {of({4, 2}, false, ""), of({3, 2, 2}, false, ""), of({2, 3, 2}, true, ""),
                                   of({3, 0}, false, ""),
                                   refused(
                                       "", dtype, {},
                                       [](const Tensor& x) {
                                         return batch_norm_inference(x, {x, x});
                                       },
                                       "one of channels are needed")};
  if (training) variants.push_back(of({1, 3}, false, "without two nothing varies"));
  return variants;
}

// ---- looking up -------------------------------------------------------------------------------------------

std::vector<Variant> embedding_variants(Dtype dtype) {
  const auto of = [&](const Shape& table, const Shape& ids, Dtype of_ids, const std::vector<Real>& choices,
                      const char* refusal) -> Variant {
    return {.name = ids.str() + " " + name_of(of_ids) + " of " + table.str(),
            .inputs = {{dtype, table}, {of_ids, ids, {.choices = choices}}},
            .call = [](auto xs) { return embedding(xs[0], xs[1]); },
            .reference =
                [=](auto xs) {
                  return Arrays{make(dtype, concatenated(ids, part(table, 1, table.rank())), [&](const Shape& p) {
                    const Index row = static_cast<Index>(xs[1](part(p, 0, ids.rank())));
                    return xs[0](concatenated(Shape(row), part(p, ids.rank(), p.rank())));
                  })};
                },
            .refusal = refusal};
  };
  return {of({4, 3}, {5}, int32, {0, 1, 3}, ""),
          of({4, 3}, {2, 2}, uint8, {0, 1, 3}, ""),
          of({4, 2, 2}, {3}, int64, {0, 3}, ""),
          of({4}, {2, 3}, uint64, {0, 3}, ""),
          of({4, 3}, {0}, int32, {0}, ""),
          of({4, 3}, {3}, int32, {-1}, "index -1 is out of range"),
          of({4, 3}, {3}, int32, {4}, "index 4 is out of range"),
          refused(
              "", dtype, {}, [](const Tensor& x) { return embedding(x, zeros({1}, int32)); }, "has no rows")};
}

// ---- losses of classes ------------------------------------------------------------------------------------

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

/// By integer labels; of logits, or of what is already their logarithm.
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

// ---- losses of numbers ------------------------------------------------------------------------------------

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

/// What takes options with a reduction in them alone, or with other members.
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

void add_network_rows(std::vector<Row>& rows) {
  const auto add = [&](const char* name, std::function<std::vector<Variant>(Dtype)> variants, bool bitwise = true) {
    rows.push_back({.name = name, .dtypes = network_dtypes, .variants = std::move(variants), .bitwise = bitwise});
  };
  add("layer_norm", layer_norm_variants, false);
  add("rms_norm", rms_norm_variants, false);
  add("group_norm", group_norm_variants, false);
  add(
      "batch_norm", [](Dtype dtype) { return batch_norm_variants(dtype, true); }, false);
  add(
      "batch_norm_inference", [](Dtype dtype) { return batch_norm_variants(dtype, false); }, false);
  add("normalize", normalize_variants, false);
  add("embedding", embedding_variants);
  add("cross_entropy", cross_entropy_variants, false);
  add("nll_loss", nll_loss_variants, false);
  add("kl_divergence", kl_divergence_variants, false);
  const auto add_numbers = [&](const char* name, const Loss& loss, const Formula& formula) {
    add(
        name, [=](Dtype dtype) { return number_variants(dtype, loss, formula, {}, {}); }, false);
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
  add(
      "binary_cross_entropy",
      [](Dtype dtype) {
        const auto log = [](Real x) { return std::max<Real>(std::log(x), -100); };
        return number_variants(
            dtype, with_reduction(binary_cross_entropy),
            [=](Real p, Real y) { return -y * log(p) - (1 - y) * log(1 - p); }, probabilities(dtype),
            probabilities(dtype));
      },
      false);
  add(
      "binary_cross_entropy_with_logits",
      [](Dtype dtype) {
        std::vector<Variant> variants = number_variants(
            dtype, with_reduction(binary_cross_entropy_with_logits),
            [](Real x, Real y) { return y * std::log1p(std::exp(-x)) + (1 - y) * std::log1p(std::exp(x)); }, {-3, 3},
            probabilities(dtype));
        for (Variant& variant : weighted_binary_variants(dtype)) variants.push_back(std::move(variant));
        return variants;
      },
      false);
  add("cosine_similarity", cosine_similarity_variants, false);
}

}  // namespace table
