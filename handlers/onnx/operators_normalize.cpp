// Normalisation.
#include <stave/core/ops/normalize.h>

#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/pooling.h>
#include <stave/core/ops/reduce.h>
#include <stave/handlers/onnx/operators.h>
#include <stave/handlers/onnx/windows.h>

namespace stave_detail {

namespace {

double epsilon_of(const NodeCall& n) { return n.number("epsilon", 1e-5); }

OnnxValues batch_normalization(const NodeCall& n) {
  const Tensor& x = n(0);
  if (n.integer("spatial", 1) == 0) n.refuse("statistics of each element (spatial = 0) are not supported");
  const auto channels = [&](const Tensor& v) { return x.rank() > 1 ? per_channel(v, x.rank()) : v; };
  if (n.integer("training_mode", 0) == 0) {
    const Tensor scale = n(1) * rsqrt(n(4) + epsilon_of(n));
    return results({astype((x - channels(n(3))) * channels(scale) + channels(n(2)), x.dtype())});
  }
  std::vector<Index> axes = axes_between(0, x.rank());
  std::erase(axes, 1);
  const Tensor average = mean(x, Axes(axes)), variance = var(x, Axes(axes));
  const double momentum = n.number("momentum", 0.9);
  const Tensor y =
      (x - channels(average)) * channels(rsqrt(variance + epsilon_of(n))) * channels(n(1)) + channels(n(2));
  return results({astype(y, x.dtype()), astype(n(3) * momentum + average * (1 - momentum), n(3).dtype()),
                  astype(n(4) * momentum + variance * (1 - momentum), n(4).dtype())});
}

Tensor instance_normalization(const NodeCall& n) {
  return group_norm(n(0), n(0).shape(1), {.weight = n(1), .bias = n(2), .epsilon = epsilon_of(n)});
}

Tensor group_normalization(const NodeCall& n) {
  const Tensor& x = n(0);
  const Index groups = n.integer("num_groups"), channels = x.shape(1);
  Tensor scale = n(1), bias = n(2);
  if (n.opset() < 21 && groups > 0) {  // one number for each group
    scale = repeat(scale, channels / groups);
    bias = repeat(bias, channels / groups);
  }
  return group_norm(x, groups, {.weight = scale, .bias = bias, .epsilon = epsilon_of(n)});
}

OnnxValues layer_normalization(const NodeCall& n) {
  const Tensor& x = n(0);
  const std::vector<Index> axes = axes_between(normalize_axis(n.integer("axis", -1), x.rank(), "axis"), x.rank());
  const Shape lengths(std::span<const Index>(x.shape()).subspan(static_cast<std::size_t>(axes.front())));
  const auto spread = [&](const Tensor& v) { return astype(broadcast_to(v, lengths), x.dtype()); };
  // Scale and bias may also vary along other axes.
  const bool vary = n(1).rank() > std::ssize(axes) || (n.has(2) && n(2).rank() > std::ssize(axes));
  Tensor y = layer_norm(x, {.weight = vary ? Tensor() : spread(n(1)),
                            .bias = n.has(2) && !vary ? spread(n(2)) : Tensor(),
                            .epsilon = epsilon_of(n),
                            .axes = Axes(axes)});
  if (vary) y = astype(n.has(2) ? y * n(1) + n(2) : y * n(1), x.dtype());
  if (!n.wants(1) && !n.wants(2)) return results({y});
  const Tensor wide = astype(x, n.dtype("stash_type", float32));
  return results({y, mean(wide, Axes(axes), keepdims), rsqrt(var(wide, Axes(axes), keepdims) + epsilon_of(n))});
}

Tensor rms_normalization(const NodeCall& n) {
  const Tensor& x = n(0);
  const std::vector<Index> axes = axes_between(normalize_axis(n.integer("axis", -1), x.rank(), "axis"), x.rank());
  const Tensor wide = astype(x, n.dtype("stash_type", float32));
  const Tensor y = wide * rsqrt(mean(square(wide), Axes(axes), keepdims) + epsilon_of(n));
  return astype(y, x.dtype()) * n(1);
}

Tensor lp_normalization(const NodeCall& n) {
  const Tensor& x = n(0);
  const Index p = n.integer("p", 2), axis = n.integer("axis", -1);
  if (p != 1 && p != 2) n.refuse("p must be 1 or 2, not {}", p);
  const Tensor length = p == 1 ? sum(abs(x), axis, keepdims) : norm(x, axis, keepdims);
  return where(length == 0, zeros_like(x), x / length);
}

Tensor mean_variance_normalization(const NodeCall& n) {
  const Axes axes(n.integers("axes").value_or(std::vector<Index>{0, 2, 3}));
  const Tensor& x = n(0);
  const Tensor centred = x - mean(x, axes, keepdims);
  return centred / (sqrt(mean(square(centred), axes, keepdims)) + 1e-9);
}

// x / (bias + alpha m)^beta, where m is the mean square of the neighbouring channels.
Tensor local_response_normalization(const NodeCall& n) {
  const Tensor& x = n(0);
  const Index size = n.integer("size");
  const Tensor squares = moveaxis(square(x), 1, -1);
  const Tensor sums = sum_pool(squares, {size}, {.stride = 1, .padding = {{(size - 1) / 2, size / 2}}});
  const Tensor scale =
      n.number("bias", 1) + n.number("alpha", 1e-4) / static_cast<double>(size) * moveaxis(sums, -1, 1);
  return x / pow(scale, n.number("beta", 0.75));
}

constexpr OnnxOperator normalize_rows[] = {
    {"BatchNormalization", 7, batch_normalization},
    {"GroupNormalization", 18, group_normalization},
    {"InstanceNormalization", 6, instance_normalization},
    {"LRN", 1, local_response_normalization},
    {"LayerNormalization", 17, layer_normalization},
    {"LpNormalization", 1, lp_normalization},
    {"MeanVarianceNormalization", 9, mean_variance_normalization},
    {"RMSNormalization", 23, rms_normalization},
};

}  // namespace

std::span<const OnnxOperator> onnx_normalize() { return normalize_rows; }

}  // namespace stave_detail
