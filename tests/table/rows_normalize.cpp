// Rows of normalisation functions. References are the formulas, summed in long double.

#include <algorithm>
#include <cmath>

#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/normalize.h>

#include "table/reference.h"
#include "table/row.h"

namespace table {

namespace {

/// The mean of f over all positions that equal p outside `axes`.
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

/// (x - mean) / sqrt(variance + epsilon) * weight + bias. The axes `affine` of x are those
/// of weight and bias.
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
              // The channels axis is split into [groups, channels per group].
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

}  // namespace

void add_normalize_rows(std::vector<Row>& rows) {
  const auto add = [&](const char* name, std::function<std::vector<Variant>(Dtype)> variants) {
    rows.push_back({.name = name, .dtypes = network_dtypes, .variants = std::move(variants), .bitwise = false});
  };
  add("layer_norm", layer_norm_variants);
  add("rms_norm", rms_norm_variants);
  add("group_norm", group_norm_variants);
  add("batch_norm", [](Dtype dtype) { return batch_norm_variants(dtype, true); });
  add("batch_norm_inference", [](Dtype dtype) { return batch_norm_variants(dtype, false); });
  add("normalize", normalize_variants);
}

}  // namespace table
