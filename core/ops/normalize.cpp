// Normalisation: layer_norm and its gradient as operations on rows, and the functions composed
// of other operations.

#include <stave/core/ops/normalize.h>

#include <algorithm>

#include <stave/core/op/define.h>
#include <stave/core/op/op.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/unit.h>
#include <stave/core/tensor/fail.h>

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

// Returns a parameter (a weight or a bias) in a shape that broadcasts with an x of shape `shape`.
// The parameter's own shape must be the lengths of `axes`. An undefined parameter stays undefined.
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

// Returns sqrt(mean_square + epsilon), or 1 where this root is 0. There all values whose squares
// have this mean are 0. So their quotients by the root are 0, and derivatives are finite even
// without epsilon.
Tensor root(const Tensor& mean_square, const Operand& epsilon) {
  const Tensor sum = mean_square + epsilon;
  return sqrt(where(sum == 0, 1, sum));
}

// x divided by sqrt(mean(x^2) + epsilon). x is first divided by a unit (unit.h), so that squares
// neither overflow nor underflow and epsilon does not overflow. If epsilon is denormal in this
// unit, it is negligible beside the squares.
struct Scaled {
  Tensor unit, values, mean_square, root;

  Scaled(const Tensor& x, const Shape& axes, double epsilon)
      : unit(unit_of(x, axes, std::sqrt(epsilon))), values(x / unit), mean_square(mean(square(values), axes, keepdims)),
        root(stave::root(mean_square, epsilon / unit / unit)) {}
  Tensor normalized() const { return values / root; }
};

Tensor centred(const Tensor& x, const Shape& axes) { return x - mean(x, axes, keepdims); }
Tensor standardized(const Tensor& x, const Shape& axes, double epsilon) {
  return Scaled(centred(x, axes), axes, epsilon).normalized();
}

// ---- layer_norm of rows ---------------------------------------------------------------------

// Returns x summed over all axes but the last one and the first `kept` ones.
Tensor over_rows(const Tensor& x, int kept = 0) {
  Shape axes;
  for (int axis = kept; axis + 1 < x.rank(); ++axis) axes.push_back(axis);
  return axes.empty() ? x : sum(x, axes);
}
Tensor row_mean(const Tensor& x) { return mean(x, -1, keepdims); }

// The derivatives of normalised rows h = (x - mean) r, where r is 1 / sqrt(variance + epsilon).
// With the symmetric linear map
//   D(u) = r (u - mean(u) - h mean(h u)),
// dh = D(dx), and D also maps the cotangent of h to that of x. The derivative of D(u) with respect
// to x in a direction d is
//   B(u, d) = -r (mean(h d) D(u) + mean(h u) D(d) + h mean(d D(u))).
// sum(a B(u, d)) is symmetric in a, u and d.
struct NormalRows {
  Tensor h, r;

  NormalRows(const Tensor& x, double epsilon) {
    const Shape last = x.rank() - 1;
    const Scaled scaled(centred(x, last), last, epsilon);
    h = scaled.normalized();
    r = 1 / scaled.root / scaled.unit;
  }
  Tensor d(const Tensor& u) const { return scale(u - row_mean(u) - scale(h, row_mean(scale(h, u))), r); }
  Tensor b(const Tensor& u, const Tensor& direction) const {
    const Tensor du = d(u);
    return scale(-(scale(row_mean(scale(h, direction)), du) + scale(row_mean(scale(h, u)), d(direction)) +
                   scale(h, row_mean(scale(direction, du)))),
                 r);
  }
};

// Checks x [..., n] and two more operands: weight [n], and a third one of shape `last`.
void check_rows(const Call& call, const Shape& last) {
  const Tensor &x = call.input(0), &weight = call.input(1), &third = call.input(2);
  const char* const operation = call.op().name;
  if (x.dtype() != float32 && x.dtype() != float64)
    fail<DtypeError>("{}: {} is neither float32 nor float64: convert with astype", operation, x.dtype());
  if (weight.dtype() != x.dtype() || third.dtype() != x.dtype())
    fail<DtypeError>("{}: x is {}, other operands {} and {}: convert with astype", operation, x.dtype(), weight.dtype(),
                     third.dtype());
  if (x.rank() < 1 || weight.shape() != Shape(x.shape(-1)) || third.shape() != last)
    fail<ShapeError>("{}: operands {}, {} and {} do not fit", operation, x.shape(), weight.shape(), third.shape());
}
Shape row_shape(const Tensor& x) { return x.rank() < 1 ? Shape() : Shape(x.shape(-1)); }

Tensor rows_normalized(const Tensor& x, const Tensor& weight, const Tensor& bias, AttributesPtr attributes) {
  return apply(op_layer_norm, {x, weight, bias}, std::move(attributes));
}
Outputs gradient_of_rows(const Tensor& x, const Tensor& weight, const Tensor& ct, AttributesPtr attributes) {
  return perform(Call(op_layer_norm_gradient, {x, weight, ct}, std::move(attributes)));
}
Tensor ones_of(const Tensor& x) { return ones({x.shape(-1)}, x.dtype(), x.device()); }
Tensor zeros_of(const Tensor& x) { return zeros({x.shape(-1)}, x.dtype(), x.device()); }

// Returns a parameter [lanes, n] in a shape that broadcasts with [lanes, ..., n].
Tensor in_lanes(const Tensor& parameter, const Tensor& x) {
  Shape shape(std::vector<Index>(static_cast<std::size_t>(x.rank()), 1));
  shape.front() = parameter.shape(0);
  shape.back() = parameter.shape(-1);
  return reshape(parameter, shape);
}

Outputs jvp_layer_norm(const JvpContext& c) {
  const NormalRows rows(c.in(0), c.as<NormAttributes>().epsilon);
  Tensor dy;
  if (c.has(0)) dy = scale(rows.d(c.tangents[0]), c.in(1));
  if (c.has(1)) dy = add_tangents(std::move(dy), scale(rows.h, c.tangents[1]));
  if (c.has(2)) dy = add_tangents(std::move(dy), broadcast_to(c.tangents[2], c.out().shape()));
  return dy;
}

// If only x has lanes, the rows of all lanes are normalised together.
Outputs batch_layer_norm(const BatchContext& c) {
  if (!c.batched[1] && !c.batched[2]) return rows_normalized(c.in(0), c.in(1), c.in(2), c.attributes());
  const Tensor x = c.batched_in(0), h = rows_normalized(x, ones_of(x), zeros_of(x), c.attributes());
  const auto beside = [&](std::size_t i) { return c.batched[i] ? in_lanes(c.in(i), x) : c.in(i); };
  return h * beside(1) + beside(2);
}

// The gradients of weight and bias are sums over rows, which each lane computes for itself.
Outputs batch_layer_norm_gradient(const BatchContext& c) {
  const Tensor x = c.batched_in(0), ct = c.batched_in(2);
  const Tensor h = rows_normalized(x, ones_of(x), zeros_of(x), c.attributes());
  const Tensor u = scale(ct, c.batched[1] ? in_lanes(c.in(1), x) : c.in(1));
  return Outputs{gradient_of_rows(x, ones_of(x), u, c.attributes())[0], over_rows(scale(ct, h), 1), over_rows(ct, 1)};
}

Outputs jvp_layer_norm_gradient(const JvpContext& c) {
  const Tensor &x = c.in(0), &weight = c.in(1), &ct = c.in(2);
  const NormalRows rows(x, c.as<NormAttributes>().epsilon);
  Tensor du, dx, dweight, dbias;
  if (c.has(1)) du = scale(ct, c.tangents[1]);
  if (c.has(2)) du = add_tangents(std::move(du), scale(c.tangents[2], weight));
  if (du.defined()) dx = rows.d(du);
  if (c.has(0)) {
    dx = add_tangents(std::move(dx), rows.b(scale(ct, weight), c.tangents[0]));
    dweight = over_rows(scale(ct, rows.d(c.tangents[0])));
  }
  if (c.has(2)) {
    dweight = add_tangents(std::move(dweight), over_rows(scale(c.tangents[2], rows.h)));
    dbias = over_rows(c.tangents[2]);
  }
  return Outputs{dx, dweight, dbias};
}

Tensor vjp_layer_norm_gradient(const VjpContext& c, int input) {
  const Tensor &x = c.in(0), &weight = c.in(1), &ct = c.in(2);
  const NormalRows rows(x, c.as<NormAttributes>().epsilon);
  const Tensor u = scale(ct, weight);
  Tensor result;
  const auto add = [&](const Tensor& term) { result = add_tangents(std::move(result), term); };
  if (c.ct(0).defined()) {
    if (input == 0) add(rows.b(u, c.ct(0)));
    else add(input == 1 ? over_rows(scale(ct, rows.d(c.ct(0)))) : scale(rows.d(c.ct(0)), weight));
  }
  if (c.ct(1).defined() && input != 1) add(input == 0 ? rows.d(scale(ct, c.ct(1))) : scale(rows.h, c.ct(1)));
  if (c.ct(2).defined() && input == 2) add(broadcast_to(c.ct(2), ct.shape()));
  return result.defined() ? result : c.zeros(static_cast<std::size_t>(input));
}

// Returns whether the axes are the last ones, so that they can be merged into one axis of rows.
bool are_last(const Shape& axes, int rank) {
  return !axes.empty() && axes.front() == rank - static_cast<Index>(axes.size());
}

// Returns the axis of channels of x [examples, channels, ...] or [examples, ..., channels].
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

constinit const Op op_layer_norm{
    .id = OpId::layer_norm,
    .name = "layer_norm",
    .infer =
        [](const Call& call, SmallVector<Abstract, 1>& outputs) {
          check_rows(call, row_shape(call.input(0)));
          outputs.push_back(abstract(call.input(0)));
        },
    .reads = {0b011, 0b011},
    .jvp = jvp_layer_norm,
    .vjp =
        [](const VjpContext& c, int input) {
          return c.once([&] {
            return gradient_of_rows(c.in(0), c.in(1), c.ct(), AttributesPtr(c.attributes));
          })[static_cast<std::size_t>(input)];
        },
    .batch = batch_layer_norm,
};

constinit const Op op_layer_norm_gradient{
    .id = OpId::layer_norm_gradient,
    .name = "layer_norm_gradient",
    .infer =
        [](const Call& call, SmallVector<Abstract, 1>& outputs) {
          check_rows(call, call.input(0).shape());
          outputs.push_back(abstract(call.input(0)));
          outputs.push_back(abstract(call.input(1)));
          outputs.push_back(abstract(call.input(1)));
        },
    .reads = {0b111, 0b111},
    .jvp = jvp_layer_norm_gradient,
    .vjp = vjp_layer_norm_gradient,
    .batch = batch_layer_norm_gradient,
};

Tensor layer_norm(const Tensor& x, LayerNormOptions options) {
  check_epsilon(options.epsilon, "layer_norm");
  return named(
      "layer_norm",
      [&] {
        const Shape axes = options.axes.normalize(x.rank(), "layer_norm");
        const Index length = lengths_of(x.shape(), axes).elements();
        const auto of_floats = [&](const Tensor& y, const Tensor& weight, const Tensor& bias) {
          if (y.device() != cpu || !are_last(axes, y.rank()))
            return affine(standardized(y, axes, options.epsilon), weight, bias);
          Shape shape(std::span<const Index>(y.shape().begin(), y.shape().size() - axes.size()));
          shape.push_back(length);
          const Tensor rows = reshape(y, shape);
          return reshape(rows_normalized(rows, weight.defined() ? reshape(weight, {length}) : ones_of(rows),
                                         bias.defined() ? reshape(bias, {length}) : zeros_of(rows),
                                         make_intrusive<NormAttributes>(options.epsilon)),
                         y.shape());
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
          return affine(Scaled(y, axes, options.epsilon).normalized(), weight, Tensor());
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
        // The axis of channels is split into an axis of groups and one of the channels in a group.
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

// Returns normalized(x), multiplied by the weight and shifted by the bias of each channel.
// The result is rounded once to the common dtype of x, weight and bias.
template <class F>
Tensor by_channel(const Tensor& x, int axis, const BatchNormOptions& options, const char* function, F normalized) {
  const auto of_floats = [&](const Tensor& y, const Tensor& weight, const Tensor& bias) {
    return affine(normalized(y), weight, bias);
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
        const Scaled scaled(values - average, axes, options.epsilon);
        const Tensor variance = scaled.mean_square * scaled.unit * scaled.unit;
        const auto renewed = [&](const Tensor& old, const Tensor& now) {
          const auto of_floats = [&](const Tensor& before) {
            return (1 - options.momentum) * before +
                   options.momentum * astype(reshape(now, old.shape()), before.dtype());
          };
          return in_floats(of_floats, old);
        };
        const double n = static_cast<double>(count);
        return std::pair(
            by_channel(x, axis, options, "batch_norm", [&](const Tensor&) { return scaled.normalized(); }),
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
        return by_channel(x, axis, options, "batch_norm_inference", [&](const Tensor& y) {
          return (y - placed(running.mean)) / sqrt(placed(running.variance) + options.epsilon);
        });
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
              const Shape axes = options.axes.normalize(y.rank(), "normalize");
              const Tensor unit = unit_of(y, axes, options.epsilon), values = y / unit;
              const Tensor length = maximum(norm(values, axes, keepdims), options.epsilon / unit);
              return values / where(length == 0, 1, length);
            },
            x);
      },
      x);
}

}  // namespace stave
