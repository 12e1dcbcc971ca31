// Pooling. sum_pool and avg_pool are convolutions with ones. max_pool takes the elements at the
// positions that argmax_pool returns. On the CPU max_pool is an operation of its own, which needs
// no positions; its derivatives compute them by argmax_pool.

#include <stave/core/ops/pooling.h>

#include <algorithm>

#include <stave/core/op/op.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/index.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/layout_rules.h>
#include <stave/core/ops/reduce.h>
#include <stave/core/ops/window.h>
#include <stave/core/tensor/fail.h>

namespace stave {

using namespace stave_detail;

namespace {

// ---- argmax_pool ----------------------------------------------------------------------------

// Returns whether there is a position along an axis at which the window contains only padding.
bool is_padding_only(Index length, Index window, Index dilation, Index stride, Index low, Index results) {
  for (Index place = 0; place < results; ++place) {
    const Index first = place * stride - low, last = first + (window - 1) * dilation;
    if (first >= length || last < 0) return true;
    const Index at = first >= 0 ? first : first + (-first + dilation - 1) / dilation * dilation;
    if (at >= length || at > last) return true;
  }
  return false;
}
void check_windows_reach_input(const Shape& lengths, const Shape& windows, const Shape& dilations, const Shape& strides,
                               const Pads& pads, const Shape& results, const char* function) {
  for (std::size_t axis = 0; axis < lengths.size(); ++axis)
    if (is_padding_only(lengths[axis], windows[axis], dilations[axis], strides[axis], pads.low[axis], results[axis]))
      fail<ShapeError>(
          "{}: padding {} and {} of spatial axis {}, which has length {}, is so wide that a window of {} can lie "
          "entirely in the padding",
          function, pads.low[axis], pads.high[axis], axis, lengths[axis], windows[axis]);
}

// Returns the shape of the result, with one element for each window.
Shape pooled_shape(const Call& call) {
  const Tensor& x = call.input(0);
  const char* const operation = call.op().name;
  const auto& a = call.as<PoolAttributes>();
  const std::size_t axes = a.windows.size();
  bool fits = axes >= 1 && axes <= 3 && x.shape().size() >= axes && a.strides.size() == axes && a.low.size() == axes &&
              a.high.size() == axes && a.dilations.size() == axes;
  for (std::size_t axis = 0; fits && axis < axes; ++axis)
    fits = a.windows[axis] >= 1 && a.strides[axis] >= 1 && a.dilations[axis] >= 1;
  if (!fits) fail<ShapeError>("{}: {} does not fit x {}, of 1 to 3 spatial axes", operation, a.str(), x.shape());
  const Shape lengths = last_axes(x.shape(), axes);
  const Pads pads{a.low, a.high};
  const Shape results =
      window_positions(lengths, dilated(a.windows, a.dilations, operation), a.strides, pads, operation);
  check_windows_reach_input(lengths, a.windows, a.dilations, a.strides, pads, results, operation);
  Shape shape = joined({without_last(x.shape(), axes), results});
  naming(operation, [&] { return shape.elements(); });  // Throws if there are too many elements.
  return shape;
}

// Returns x with its spatial axes merged: [leading..., the elements of a plane].
Tensor planes_of(const Tensor& x, std::size_t axes) {
  return reshape(x, joined({without_last(x.shape(), axes), Shape{last_axes(x.shape(), axes).elements()}}));
}

// Returns the elements of x at `places`, which are positions in each plane (the spatial axes, in
// row-major order). The result has the shape of `places`.
Tensor elements_at(const Tensor& x, const Tensor& places, std::size_t axes) {
  return reshape(take_along_axis(planes_of(x, axes), planes_of(places, axes), -1), places.shape());
}

Tensor jvp_max_pool(const JvpContext& c) {
  const Tensor places = apply(op_argmax_pool, {c.in(0)}, c.call.attributes_ptr());
  return elements_at(c.tangents[0], places, c.as<PoolAttributes>().windows.size());
}

// The cotangent of each maximum is added at its position in x.
Tensor vjp_max_pool(const VjpContext& c, int) {
  const std::size_t axes = c.as<PoolAttributes>().windows.size();
  const Tensor places = planes_of(apply(op_argmax_pool, {c.in(0)}, AttributesPtr(c.attributes)), axes);
  const Tensor back =
      apply(op_scatter_add, {planes_of(c.zeros(0), axes), expand_dims(places, -1), planes_of(c.ct(), axes)},
            make_intrusive<GatherAttributes>(places.rank() - 1, false));
  return reshape(back, c.shape(0));
}

}  // namespace

constinit const Op op_max_pool{
    .id = OpId::max_pool,
    .name = "max_pool",
    .infer =
        [](const Call& call, SmallVector<Abstract, 1>& outputs) {
          outputs.push_back({pooled_shape(call), call.input(0).dtype()});
        },
    .reads = {0b1},
    .jvp = [](const JvpContext& c) -> Outputs { return jvp_max_pool(c); },
    .vjp = vjp_max_pool,
    .batch = batch_in_front,
};

constinit const Op op_argmax_pool{
    .id = OpId::argmax_pool,
    .name = "argmax_pool",
    .infer =
        [](const Call& call, SmallVector<Abstract, 1>& outputs) {
          const std::size_t axes = call.as<PoolAttributes>().windows.size();
          Shape shape = pooled_shape(call);
          outputs.push_back({std::move(shape), positions_dtype(last_axes(call.input(0).shape(), axes).elements())});
        },
    .derivative = Derivative::zero,
    .batch = batch_in_front,
};

// ---- pooling.h ------------------------------------------------------------------------------

namespace {

// The input of a pooling function, with its spatial axes last, and the positions of its windows.
struct Windows {
  const char* function;
  bool channels_last;
  Tensor x;
  Shape lengths, windows, strides, dilations;
  Pads pads;
  Shape beyond;  // how far the last window extends beyond the padded x, with ceil_mode
  Shape results;

  template <class Options>
  Windows(const char* function, const Tensor& x_, const PerAxis& window, const Options& options)
      : function(function), channels_last(options.channels_last) {
    const int axes = window.axes() ? window.axes() : require_defined(x_, function).rank() - 2;
    if (axes < 1 || axes > 3)
      fail<ShapeError>("{}: x {} has {} spatial axes: only 1, 2 or 3 can be pooled", function, x_.shape(), axes);
    if (require_defined(x_, function).rank() < axes + channels_last)
      fail<ShapeError>("{}: x {} does not have the {} spatial axes of the window{}", function, x_.shape(), axes,
                       channels_last ? " and one of channels" : "");
    x = channels_last ? moveaxis(x_, -1, x_.rank() - axes - 1) : x_;
    lengths = last_axes(x.shape(), static_cast<std::size_t>(axes));
    windows = window.over(axes, 1, function, "window");
    strides = options.stride.empty() ? windows : options.stride.over(axes, 1, function, "stride");
    dilations = options.dilation.over(axes, 1, function, "dilation");
    const Shape wide = dilated(windows, dilations, function);
    pads = pads_of(options.padding, lengths, wide, strides, function);
    beyond = repeated(axes, 0);
    if (options.ceil_mode) extend(wide);
    results = window_positions(lengths, wide, strides, pads, function);
  }
  // Adds padding for one more window along each axis that the windows do not cover to the end,
  // unless that window would begin after x.
  void extend(const Shape& wide) {
    for (std::size_t axis = 0; axis < lengths.size(); ++axis) {
      const Index before = lengths[axis] + pads.low[axis], all = before + pads.high[axis];
      if (all < wide[axis]) continue;
      const Index start = ((all - wide[axis]) / strides[axis] + 1) * strides[axis];
      if ((all - wide[axis]) % strides[axis] == 0 || start >= before) continue;
      beyond[axis] = start + wide[axis] - all;
      pads.high[axis] += beyond[axis];
    }
  }
  bool extends() const { return beyond != repeated(beyond.rank(), 0); }
  std::size_t axes() const { return lengths.size(); }
  bool padded() const {
    const auto none = [](Index pad) { return pad <= 0; };
    return !std::all_of(pads.low.begin(), pads.low.end(), none) ||
           !std::all_of(pads.high.begin(), pads.high.end(), none);
  }
  Tensor in_order(const Tensor& y) const {
    return channels_last ? moveaxis(y, y.rank() - static_cast<int>(axes()) - 1, -1) : y;
  }
};

// Returns the sums of windows along `count` spatial axes, starting at `first`.
Tensor summed(const Tensor& x, const Windows& w, std::size_t first, std::size_t count) {
  const Shape lengths = last_axes(x.shape(), w.axes());
  Shape windows = lengths, strides = lengths, low = lengths, high = lengths, dilations = lengths, ones_ = lengths;
  for (std::size_t axis = 0; axis < w.axes(); ++axis) {
    const bool along = axis >= first && axis < first + count;
    windows[axis] = along ? w.windows[axis] : 1;
    strides[axis] = along ? w.strides[axis] : 1;
    dilations[axis] = along ? w.dilations[axis] : 1;
    low[axis] = along ? w.pads.low[axis] : 0;
    high[axis] = along ? w.pads.high[axis] : 0;
    ones_[axis] = 1;
  }
  const Shape others = without_last(x.shape(), w.axes());
  const Tensor planes = reshape(x, joined({Shape{others.elements(), 1, 1}, lengths}));
  const Tensor kernel = ones(joined({Shape{1, 1, 1}, windows}), x.dtype(), x.device());
  const Tensor y = apply(op_convolution, {planes, kernel},
                         make_intrusive<ConvolutionAttributes>(strides, low, high, dilations, ones_));
  return reshape(y, joined({others, last_axes(y.shape(), w.axes())}));
}

// Returns the sums of windows. A large window of lengths a, b, c is summed axis by axis, which
// takes a + b + c additions per result instead of a * b * c.
Tensor window_sums(const Tensor& x, const Windows& w) {
  if (!w.padded() && w.windows == w.lengths) {
    Shape axes;
    for (std::size_t axis = w.axes(); axis > 0; --axis) axes.push_back(-static_cast<Index>(axis));
    return sum(x, axes, keepdims);
  }
  constexpr Index few = 16;
  Index terms = 1;
  for (Index window : w.windows) terms *= std::min(window, 2 * few);
  if (terms <= few) return summed(x, w, 0, w.axes());
  Tensor y = is_half_float(x.dtype()) ? astype(x, float32) : x;
  for (std::size_t axis = w.axes(); axis-- > 0;) y = summed(y, w, axis, 1);
  return astype(y, x.dtype());
}

}  // namespace

Tensor sum_pool(const Tensor& x, const PerAxis& window, const PoolOptions& options) {
  return named(
      "sum_pool",
      [&] {
        const Windows w("sum_pool", x, window, options);
        return w.in_order(window_sums(widened(w.x), w));
      },
      x);
}

namespace {

// Returns whether windows have different numbers of elements that count for the mean.
bool has_unequal_counts(const Windows& w, const AvgPoolOptions& options) {
  return w.extends() || (!options.count_include_pad && w.padded());
}

// Returns the number of elements of each window that count for the mean: those of x, and unless
// count_include_pad is false those of the padding. Elements beyond the padding never count.
Tensor counts_of(const Windows& w, const AvgPoolOptions& options, const Tensor& values) {
  if (!options.count_include_pad) {
    check_windows_reach_input(w.lengths, w.windows, w.dilations, w.strides, w.pads, w.results, "avg_pool");
    return window_sums(ones(w.lengths, values.dtype(), values.device()), w);
  }
  Windows counted = w;
  for (std::size_t axis = 0; axis < w.axes(); ++axis) {
    counted.lengths[axis] += w.pads.low[axis] + w.pads.high[axis] - w.beyond[axis];
    counted.pads.low[axis] = 0;
    counted.pads.high[axis] = w.beyond[axis];
  }
  return window_sums(ones(counted.lengths, values.dtype(), values.device()), counted);
}

}  // namespace

Tensor avg_pool(const Tensor& x, const PerAxis& window, const AvgPoolOptions& options) {
  return named(
      "avg_pool",
      [&] {
        const Windows w("avg_pool", x, window, options);
        const Tensor number = floating(w.x), values = astype(number, stave_detail::computed_in(number.dtype()));
        const Tensor sums = window_sums(values, w);
        const Tensor means = options.divisor_override         ? sums / *options.divisor_override
                             : has_unequal_counts(w, options) ? sums / counts_of(w, options, values)
                                                              : sums / static_cast<double>(w.windows.elements());
        return w.in_order(is_half_float(x.dtype()) ? astype(means, x.dtype()) : means);
      },
      x);
}

namespace {

AttributesPtr attributes_of(const Windows& w) {
  return make_intrusive<PoolAttributes>(w.windows, w.strides, w.pads.low, w.pads.high, w.dilations);
}

}  // namespace

Tensor argmax_pool(const Tensor& x, const PerAxis& window, const PoolOptions& options) {
  return named(
      "argmax_pool",
      [&] {
        const Windows w("argmax_pool", x, window, options);
        return w.in_order(apply(op_argmax_pool, {w.x}, attributes_of(w)));
      },
      x);
}

Tensor max_pool(const Tensor& x, const PerAxis& window, const PoolOptions& options) {
  return named(
      "max_pool",
      [&] {
        const Windows w("max_pool", x, window, options);
        if (x.device() == cpu) return w.in_order(apply(op_max_pool, {w.x}, attributes_of(w)));
        return w.in_order(elements_at(w.x, apply(op_argmax_pool, {w.x}, attributes_of(w)), w.axes()));
      },
      x);
}

}  // namespace stave
