// Normalisation.

#include <stave/core/ops/normalize.h>

#include <algorithm>

#include <stave/core/fail.h>
#include <stave/core/op.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/layout.h>

namespace stave {

using namespace stave_detail;

namespace {

void check_epsilon(double epsilon, const char* function) {
  if (!(epsilon >= 0)) fail<Error>("{}: epsilon {} is less than 0", function, epsilon);
}

Shape lengths_of(const Shape& shape, const Shape& axes) {
  Shape lengths;
  for (Index axis : axes) lengths.push_back(shape[static_cast<std::size_t>(axis)]);
  return lengths;
}

// A parameter of the lengths of `axes`, as it meets an x of this shape; an undefined one stays.
Tensor beside(const Tensor& parameter, const Shape& shape, const Shape& axes, const char* function, const char* name) {
  if (!parameter.defined()) return parameter;
  if (const Shape lengths = lengths_of(shape, axes); parameter.shape() != lengths)
    fail<ShapeError>("{}: {} has shape {}: for axes {} of {} it must have {}", function, name, parameter.shape(), axes,
                     shape, lengths);
  Shape placed;
  for (int axis = 0; axis < shape.rank(); ++axis)
    placed.push_back(std::find(axes.begin(), axes.end(), axis) == axes.end() ? 1
                                                                             : shape[static_cast<std::size_t>(axis)]);
  return reshape(parameter, placed);
}

Tensor affine(Tensor y, const Tensor& weight, const Tensor& bias) {
  if (weight.defined()) y = std::move(y) * weight;
  if (bias.defined()) y = std::move(y) + bias;
  return y;
}

// sqrt(mean_square + epsilon). What is divided by a root of 0 is 0 and stays so: without epsilon, too, its derivative is finite.
Tensor root(const Tensor& mean_square, double epsilon) {
  return sqrt(epsilon > 0 ? mean_square + epsilon : where(mean_square > 0, mean_square, 1));
}

Tensor standardized(const Tensor& x, const Shape& axes, double epsilon) {
  Tensor centred = x - mean(x, axes, keepdims);
  const Tensor deviation = root(mean(square(centred), axes, keepdims), epsilon);
  return std::move(centred) / deviation;
}

// The axis of channels of x [examples, channels, ...] or [examples, ..., channels].
int channels_of(const Tensor& x, bool last, const char* function) {
  if (x.rank() < 2)
    fail<ShapeError>("{}: x has shape {}: an axis of examples and one of channels are needed", function, x.shape());
  return last ? x.rank() - 1 : 1;
}

Shape axes_but(int axis, int rank) {
  Shape axes;
  for (int other = 0; other < rank; ++other)
    if (other != axis) axes.push_back(other);
  return axes;
}

}  // namespace

Tensor layer_norm(const Tensor& x, LayerNormOptions options) {
  check_epsilon(options.epsilon, "layer_norm");
  return named(
      "layer_norm",
      [&] {
        const Shape axes = options.axes.normalize(x.rank(), "layer_norm");
        const auto of_floats = [&](const Tensor& y, const Tensor& weight, const Tensor& bias) {
          return affine(standardized(y, axes, options.epsilon), weight, bias);
        };
        return in_floats(of_floats, x, beside(options.weight, x.shape(), axes, "layer_norm", "weight"),
                         beside(options.bias, x.shape(), axes, "layer_norm", "bias"));
      },
      x);
}

Tensor rms_norm(const Tensor& x, RmsNormOptions options) {
  check_epsilon(options.epsilon, "rms_norm");
  return named(
      "rms_norm",
      [&] {
        const Shape axes = options.axes.normalize(x.rank(), "rms_norm");
        const auto of_floats = [&](const Tensor& y, const Tensor& weight) {
          return affine(y / root(mean(square(y), axes, keepdims), options.epsilon), weight, Tensor());
        };
        return in_floats(of_floats, x, beside(options.weight, x.shape(), axes, "rms_norm", "weight"));
      },
      x);
}

Tensor group_norm(const Tensor& x, Index groups, GroupNormOptions options) {
  check_epsilon(options.epsilon, "group_norm");
  return named(
      "group_norm",
      [&] {
        const int axis = channels_of(x, options.channels_last, "group_norm");
        const Index channels = x.shape(axis);
        if (groups < 1 || channels % groups != 0)
          fail<ShapeError>("group_norm: {} channels do not make {} groups of equal size", channels, groups);
        // The axis of channels becomes one of groups and one of the channels in them.
        Shape grouped = x.shape();
        grouped[static_cast<std::size_t>(axis)] = groups;
        grouped.insert(grouped.begin() + axis + 1, channels / groups);
        Shape axes = axes_but(axis, x.rank() + 1);
        axes.erase(axes.begin());
        const auto of_floats = [&](const Tensor& y, const Tensor& weight, const Tensor& bias) {
          return affine(reshape(standardized(reshape(y, grouped), axes, options.epsilon), y.shape()), weight, bias);
        };
        return in_floats(of_floats, x, beside(options.weight, x.shape(), axis, "group_norm", "weight"),
                         beside(options.bias, x.shape(), axis, "group_norm", "bias"));
      },
      x);
}

namespace {

// Each channel of x by mean and variance, which lie beside it; rounded once to the dtype of x, weight and bias together.
Tensor by_statistics(const Tensor& x, const Tensor& mean, const Tensor& variance, int axis,
                     const BatchNormOptions& options, const char* function) {
  const auto of_floats = [&](const Tensor& y, const Tensor& weight, const Tensor& bias) {
    return affine((y - mean) / root(variance, options.epsilon), weight, bias);
  };
  return in_floats(of_floats, x, beside(options.weight, x.shape(), axis, function, "weight"),
                   beside(options.bias, x.shape(), axis, function, "bias"));
}

Dtype computed_in(const Tensor& x, const BatchNormOptions& options) {
  return stave_detail::computed_in(common_float(x, options.weight, options.bias));
}

}  // namespace

std::pair<Tensor, BatchStatistics> batch_norm(const Tensor& x, const BatchStatistics& running,
                                              BatchNormOptions options) {
  check_epsilon(options.epsilon, "batch_norm");
  return named(
      "batch_norm",
      [&] {
        const int axis = channels_of(x, options.channels_last, "batch_norm");
        const Shape axes = axes_but(axis, x.rank());
        const Index count = lengths_of(x.shape(), axes).elements();
        if (count < 2)
          fail<ShapeError>("batch_norm: x {} has {} values for each channel: without two nothing varies", x.shape(),
                           count);
        for (const Tensor& statistic : {running.mean, running.variance})
          static_cast<void>(beside(statistic, x.shape(), axis, "batch_norm", "a running statistic"));
        const Tensor values = astype(x, computed_in(x, options)), average = mean(values, axes, keepdims);
        const Tensor variance = mean(square(values - average), axes, keepdims);
        const auto renewed = [&](const Tensor& old, const Tensor& now) {
          const auto of_floats = [&](const Tensor& before) {
            return (1 - options.momentum) * before +
                   options.momentum * astype(reshape(now, old.shape()), before.dtype());
          };
          return in_floats(of_floats, old);
        };
        const double n = static_cast<double>(count);
        return std::pair(
            by_statistics(x, average, variance, axis, options, "batch_norm"),
            BatchStatistics{renewed(running.mean, average), renewed(running.variance, variance * (n / (n - 1)))});
      },
      x, running.mean, running.variance);
}

Tensor batch_norm_inference(const Tensor& x, const BatchStatistics& running, BatchNormOptions options) {
  check_epsilon(options.epsilon, "batch_norm_inference");
  return named(
      "batch_norm_inference",
      [&] {
        const int axis = channels_of(x, options.channels_last, "batch_norm_inference");
        const auto placed = [&](const Tensor& statistic) {
          return astype(beside(statistic, x.shape(), axis, "batch_norm_inference", "a running statistic"),
                        computed_in(x, options));
        };
        return by_statistics(x, placed(running.mean), placed(running.variance), axis, options, "batch_norm_inference");
      },
      x, running.mean, running.variance);
}

Tensor normalize(const Tensor& x, NormalizeOptions options) {
  check_epsilon(options.epsilon, "normalize");
  return named(
      "normalize",
      [&] {
        return in_floats(
            [&](const Tensor& y) {
              const Tensor length = norm(y, options.axes, keepdims);
              return y / (options.epsilon > 0 ? maximum(length, options.epsilon) : where(length > 0, length, 1));
            },
            x);
      },
      x);
}

}  // namespace stave
