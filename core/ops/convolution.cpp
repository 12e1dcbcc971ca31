// Convolutions: one bilinear operation with an axis of groups, so that both of its cotangents are
// the same operation on permuted views.
//
// In JAX's conv_general_dilated, the number of groups is an attribute (feature_group_count), and
// the cotangent of w needs a second one (batch_group_count). Here groups are an axis of both
// operands. Splitting channels into groups is a view, and so is exchanging summed axes with others.

#include <stave/core/ops/convolution.h>

#include <algorithm>

#include <stave/core/op/op.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/element_sets.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/layout_rules.h>
#include <stave/core/ops/window.h>
#include <stave/core/tensor/fail.h>

namespace stave_detail {

Index dilated(Index length, Index dilation, const char* function) {
  Index result = 0;
  if (length == 0) return 0;
  if (__builtin_mul_overflow(length - 1, dilation, &result) || result > Index{1} << 60)
    fail<ShapeError>("{}: length {}, dilated by {}, is too large", function, length, dilation);
  return result + 1;
}

Shape dilated(const Shape& lengths, const Shape& dilations, const char* function) {
  Shape result = lengths;
  for (std::size_t axis = 0; axis < result.size(); ++axis)
    result[axis] = dilated(lengths[axis], dilations[axis], function);
  return result;
}

Pads pads_of(const Padding& padding, const Shape& lengths, const Shape& windows, const Shape& strides,
             const char* function) {
  constexpr Index most = Index{1} << 60;
  if (!padding.is_same())
    return {padding.low().over(lengths.rank(), -most, function, "padding"),
            padding.high().over(lengths.rank(), -most, function, "padding")};
  Pads pads{lengths, lengths};
  for (std::size_t axis = 0; axis < lengths.size(); ++axis) {
    const Index results = (lengths[axis] + strides[axis] - 1) / strides[axis];
    const Index all = std::max<Index>((results - 1) * strides[axis] + windows[axis] - lengths[axis], 0);
    pads.low[axis] = all / 2;
    pads.high[axis] = all - all / 2;
  }
  return pads;
}

Shape window_positions(const Shape& lengths, const Shape& windows, const Shape& strides, const Pads& pads,
                       const char* function) {
  Shape result = lengths;
  for (std::size_t axis = 0; axis < lengths.size(); ++axis) {
    result[axis] = places(lengths[axis] + pads.low[axis] + pads.high[axis], windows[axis], strides[axis]);
    if (result[axis] == 0)
      fail<ShapeError>(
          "{}: a window of {} elements does not fit into spatial axis {}, which has {} and padding {} and {}", function,
          windows[axis], axis, lengths[axis], pads.low[axis], pads.high[axis]);
  }
  return result;
}

}  // namespace stave_detail

namespace stave {

using namespace stave_detail;

Shape PerAxis::over(int axes, Index least, const char* function, const char* what) const {
  constexpr Index most = Index{1} << 60;
  Shape result = list_;
  if (for_all_ && !list_.empty()) result.resize(static_cast<std::size_t>(axes), list_[0]);
  if (result.rank() != axes)
    fail<ShapeError>("{}: {} {} has {} numbers for {} spatial axes", function, what, list_, list_.size(), axes);
  for (Index number : result)
    if (number < least || number > most)
      fail<ShapeError>("{}: {} {} must not be {} than {}", function, what, number, number < least ? "less" : "more",
                       number < least ? least : most);
  return result;
}

Padding::Padding(std::initializer_list<std::pair<Index, Index>> each) : low_(0), high_(0) {
  Shape low, high;
  for (const auto& [before, behind] : each) {
    low.push_back(before);
    high.push_back(behind);
  }
  low_ = std::move(low);
  high_ = std::move(high);
}

namespace {

// The first spatial axis comes after three axes, in x [n, groups, c, ...], w [groups, o, c, ...]
// and the result [n, groups, o, ...].
constexpr std::size_t first_spatial = 3;

Shape spatial(const Shape& shape) { return Shape(std::span(shape.begin(), shape.end()).subspan(first_spatial)); }

Tensor convolution(const Tensor& x, const Tensor& w, Shape strides, Pads pads, Shape dilations, Shape input_dilations) {
  return apply(op_convolution, {x, w},
               make_intrusive<ConvolutionAttributes>(std::move(strides), std::move(pads.low), std::move(pads.high),
                                                     std::move(dilations), std::move(input_dilations)));
}

void infer_convolution(const Call& call, SmallVector<Abstract, 1>& outputs) {
  const Tensor &x = call.input(0), &w = call.input(1);
  const auto& c = call.as<ConvolutionAttributes>();
  if (x.dtype() != w.dtype())
    fail<DtypeError>("convolution: dtypes {} and {} differ: convert with astype", x.dtype(), w.dtype());
  if (x.dtype() == bool_) fail<DtypeError>("convolution: bool has no products to sum: convert to int32 with astype");
  const std::size_t axes = c.strides.size();
  const bool fits = axes >= 1 && axes <= 3 && x.shape().size() == axes + first_spatial &&
                    w.shape().size() == axes + first_spatial && c.low.size() == axes && c.high.size() == axes &&
                    c.dilations.size() == axes && c.input_dilations.size() == axes;
  if (!fits || x.shape()[1] != w.shape()[0] || x.shape()[2] != w.shape()[2])
    fail<ShapeError>(
        "convolution: x {} and w {} must be [n, groups, c, lengths...] and [groups, o, c, windows...], with 1 to 3 "
        "spatial axes, as many as {} has",
        x.shape(), w.shape(), c.strides);
  Shape shape{x.shape()[0], x.shape()[1], w.shape()[1]};
  for (std::size_t axis = 0; axis < axes; ++axis) {
    const Index window = w.shape()[first_spatial + axis];
    if (window < 1 || c.strides[axis] < 1 || c.dilations[axis] < 1 || c.input_dilations[axis] < 1)
      fail<ShapeError>("convolution: windows {}, {} must be 1 or more", spatial(w.shape()), c.str());
    const Index length = dilated(x.shape()[first_spatial + axis], c.input_dilations[axis], "convolution");
    shape.push_back(places(length + c.low[axis] + c.high[axis], dilated(window, c.dilations[axis], "convolution"),
                           c.strides[axis]));
  }
  // Throws if there are too many elements.
  naming("convolution", [&] { return shape.elements(); });
  outputs.push_back({std::move(shape), x.dtype()});
}

Tensor flipped(const Tensor& w) {
  Shape axes;
  for (int axis = first_spatial; axis < w.rank(); ++axis) axes.push_back(axis);
  return flip(w, axes);
}

// Returns x with its first three axes in another order.
Tensor reordered(const Tensor& x, Index first, Index second, Index third) {
  Shape axes{first, second, third};
  for (int axis = first_spatial; axis < x.rank(); ++axis) axes.push_back(axis);
  return permute_dims(x, axes);
}

// Let L, K and P be the lengths of x, w and the result, each dilated (P by the stride).
// Then L + low + high - K is P - 1 plus the number of elements that the last window does not reach.
//
// The cotangent of x is ct, dilated by the stride, convolved with the reversed w whose channel axes
// are exchanged. Its low padding is K - 1 - low.
//
// The cotangent of w is x convolved with ct in place of w. The elements of ct are applied to x at
// distances of the stride. The roles of n and c are exchanged, so that n is summed.
//
// (JAX's _conv_general_dilated_transpose_lhs and _rhs, lax/convolution.py)
Tensor vjp_convolution(const VjpContext& c, int input) {
  const Shape &x = c.shape(0), &w = c.shape(1);
  const auto& a = c.as<ConvolutionAttributes>();
  const Shape lengths = dilated(spatial(x), a.input_dilations, "convolution");
  const Shape windows = dilated(spatial(w), a.dilations, "convolution");
  const Shape places = spatial(c.ct().shape()), results = dilated(places, a.strides, "convolution");
  // Without results ct is empty and cannot serve as a window.
  if (input == 1 && places.elements() == 0) return c.zeros(1);
  Pads pads{a.low, a.low};
  for (std::size_t axis = 0; axis < lengths.size(); ++axis) {
    if (input == 0) pads.low[axis] = windows[axis] - 1 - a.low[axis];
    pads.high[axis] = input == 0 ? lengths[axis] + windows[axis] - 1 - results[axis] - pads.low[axis]
                                 : results[axis] - lengths[axis] + windows[axis] - 1 - a.low[axis];
  }
  if (input == 0)
    return convolution(c.ct(), flipped(reordered(c.in(1), 0, 2, 1)), a.input_dilations, pads, a.dilations, a.strides);
  const Tensor to_w = convolution(reordered(c.in(0), 2, 1, 0), reordered(c.ct(), 1, 2, 0), a.dilations, pads, a.strides,
                                  a.input_dilations);
  return reordered(to_w, 1, 2, 0);
}

// Returns x with axes i and i + 1 merged into one.
Tensor merged(const Tensor& x, std::size_t i) {
  Shape shape = x.shape();
  shape[i] *= shape[i + 1];
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(i) + 1);
  return reshape(x, shape);
}

// Returns x with axis i split into two axes, the first of which has length `count`.
Tensor split(const Tensor& x, std::size_t i, Index count) {
  Shape shape = x.shape();
  shape[i] = count == 0 ? 0 : shape[i] / count;
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(i), count);
  return reshape(x, shape);
}

// If only x has lanes, they are merged into its axis n. If only w has lanes, they are merged into
// its axis o. If both have lanes, they are merged into the axes of groups. Each case is one
// convolution.
Outputs batch_convolution(const BatchContext& c) {
  const auto all = [&](const Tensor& x, const Tensor& w) { return apply(op_convolution, {x, w}, c.attributes()); };
  if (c.size == 0) {
    Shape shape = c.call.abstract_outputs()[0].shape;
    shape.insert(shape.begin(), 0);
    return zeros(shape, c.in(0).dtype(), c.in(0).device());
  }
  if (!c.batched[1]) return split(all(merged(c.in(0), 0), c.in(1)), 0, c.size);
  if (!c.batched[0]) return moveaxis(split(all(c.in(0), merged(moveaxis(c.in(1), 0, 1), 1)), 2, c.size), 2, 0);
  return moveaxis(split(all(merged(moveaxis(c.in(0), 0, 1), 1), merged(c.in(1), 0)), 1, c.size), 1, 0);
}

// Returns, for each window, the union of the element sets (element_sets.h) of x in it: [n, groups,
// 1, places...].
Tensor sets_of_windows(const DependsContext& c) {
  const auto& of = c.as<ConvolutionAttributes>();
  const Shape windows = spatial(c.call.input(1).shape()), places = spatial(c.output().shape);
  Tensor x = c.sets.unite_over(c.set(0), Shape(2));
  Shape shape = x.shape(), starts = repeated(x.rank(), 0), steps = repeated(x.rank(), 1);
  std::vector<std::pair<Index, Index>> widths(x.shape().size(), {0, 0});
  for (std::size_t axis = 0; axis < windows.size(); ++axis) {
    Index& length = shape[first_spatial + axis];
    length = dilated(length, steps[first_spatial + axis] = of.input_dilations[axis], "convolution");
    widths[first_spatial + axis] = {of.low[axis], of.high[axis]};
  }
  x = pad(pad_into(x, std::move(shape), std::move(starts), std::move(steps), 0), widths);
  std::vector<Tensor> parts;  // for each place in a window, the elements there of all windows
  for (Index place = 0; place < windows.elements(); ++place) {
    std::vector<Tensor::Subscript> at(first_spatial, slice());
    Index rest = place;
    for (std::size_t axis = windows.size(); axis-- > 0; rest /= windows[axis]) {
      const Index start = rest % windows[axis] * of.dilations[axis];
      at.insert(at.begin() + first_spatial,
                slice(start, start + (places[axis] - 1) * of.strides[axis] + 1, of.strides[axis]));
    }
    parts.push_back(x(at));
  }
  return squeeze(c.sets.unite_over(stack(parts, -1), Shape(x.rank())), -1);
}

Outputs depends_convolution(const DependsContext& c) {
  const Shape& shape = c.output().shape;
  if (shape.elements() == 0) return Tensor();
  Tensor all;
  if (c.has(0)) all = sets_of_windows(c);
  if (c.has(1)) {  // [groups, o, c, windows...]
    Shape axes, channels = repeated(shape.rank(), 1);
    for (Index axis = 2; axis < shape.rank(); ++axis) axes.push_back(axis);
    channels[1] = shape[1], channels[2] = shape[2];
    all = c.sets.unite(all, reshape(c.sets.unite_over(c.set(1), axes), channels));
  }
  return all;
}

}  // namespace

constinit const Op op_convolution{
    .id = OpId::convolution,
    .name = "convolution",
    .infer = infer_convolution,
    .derivative = Derivative::bilinear,
    .vjp = vjp_convolution,
    .batch = batch_convolution,
    .depends = depends_convolution,
    .flops =
        [](const Attributes*, std::span<const Shape> inputs, const Shape& output) {
          const Shape& weights = inputs[1];  // [groups, o, c, windows...]
          const Index out = weights[0] * weights[1];
          return out ? 2 * static_cast<std::uint64_t>(output.elements() * (weights.elements() / out)) : 0;
        },
};

// ---- convolution.h --------------------------------------------------------------------------

namespace {

// The operands of a convolution, with channels before the spatial axes and the batch of x as one
// axis.
struct Operands {
  const char* function;
  int axes;  // the number of spatial axes
  Index groups;
  bool channels_last;
  Shape batch;
  Tensor x, w;  // [n, channels, lengths...], [a, b, windows...]
  Shape lengths, windows;

  Operands(const char* function, const Tensor& x_, const Tensor& w_, Index groups, bool channels_last)
      : function(function), axes(require_defined(w_, function, 1).rank() - 2), groups(groups),
        channels_last(channels_last) {
    if (axes < 1 || axes > 3)
      fail<ShapeError>("{}: w {} has rank {}: it must have 3, 4 or 5, for 1, 2 or 3 spatial axes", function, w_.shape(),
                       w_.rank());
    if (require_defined(x_, function, 0).rank() < axes + 1)
      fail<ShapeError>("{}: x {} needs an axis of channels and {} spatial axes, as w {} has", function, x_.shape(),
                       axes, w_.shape());
    if (groups < 1) fail<ShapeError>("{}: {} groups", function, groups);
    const Dtype dtype = multiplied_in(promote(x_.dtype(), w_.dtype()));
    const int leading = x_.rank() - axes - 1;
    x = astype(channels_last ? moveaxis(x_, -1, leading) : x_, dtype);
    w = astype(channels_last ? moveaxis(w_, {-1, -2}, {0, 1}) : w_, dtype);
    const std::span<const Index> all(x.shape());
    batch = Shape(all.first(static_cast<std::size_t>(leading)));
    lengths = Shape(all.subspan(static_cast<std::size_t>(leading) + 1));
    windows = Shape(std::span<const Index>(w.shape()).subspan(2));
    for (Index window : windows)
      if (window == 0) fail<ShapeError>("{}: w {} has an empty window", function, w_.shape());
    x = reshape(x, joined({Shape{batch.elements(), x.shape()[batch.size()]}, lengths}));
  }
  Index channels() const { return x.shape()[1]; }
  // Returns x [n, channels, ...] as [n, groups, channels of one group, ...].
  Tensor grouped_x() const { return split(x, 1, groups); }
  // Returns w [a, b, ...] as [groups, a of one group, b, ...].
  Tensor grouped_w() const { return split(w, 0, groups); }
  // Returns a result [n, groups, o, places...] in the layout of the user's x.
  Tensor result(const Tensor& y) const {
    const Shape places = spatial(y.shape());
    const Tensor all = reshape(y, joined({batch, Shape{y.shape()[1] * y.shape()[2]}, places}));
    return channels_last ? moveaxis(all, batch.rank(), -1) : all;
  }
};

}  // namespace

Tensor conv(const Tensor& x, const Tensor& w, const ConvOptions& options) {
  return named(
      "conv",
      [&] {
        const Operands o("conv", x, w, options.groups, options.channels_last);
        const Index out = o.w.shape()[0], taken = o.w.shape()[1];
        if (o.channels() != taken * o.groups)
          fail<ShapeError>("conv: x {} has {} channels, w {} is for {}: {} in each of {} groups", x.shape(),
                           o.channels(), w.shape(), taken * o.groups, taken, o.groups);
        if (out % o.groups != 0)
          fail<ShapeError>("conv: the {} results of w {} do not make {} groups of equal size", out, w.shape(),
                           o.groups);
        const Shape strides = options.stride.over(o.axes, 1, "conv", "stride");
        const Shape dilations = options.dilation.over(o.axes, 1, "conv", "dilation");
        const Shape input_dilations = options.input_dilation.over(o.axes, 1, "conv", "input_dilation");
        const Shape lengths = dilated(o.lengths, input_dilations, "conv"),
                    windows = dilated(o.windows, dilations, "conv");
        const Pads pads = pads_of(options.padding, lengths, windows, strides, "conv");
        window_positions(lengths, windows, strides, pads, "conv");
        return o.result(convolution(o.grouped_x(), o.grouped_w(), strides, pads, dilations, input_dilations));
      },
      x, w);
}

// The computation is that of vjp_convolution for x, with lengths that the caller chooses.
Tensor conv_transpose(const Tensor& x, const Tensor& w, const ConvTransposeOptions& options) {
  constexpr const char* function = "conv_transpose";
  return named(
      function,
      [&] {
        const Operands o(function, x, w, options.groups, options.channels_last);
        if (o.channels() != o.w.shape()[0])
          fail<ShapeError>("{}: x {} has {} channels, w {} is for {}", function, x.shape(), o.channels(), w.shape(),
                           o.w.shape()[0]);
        if (o.channels() % o.groups != 0)
          fail<ShapeError>("{}: the {} channels of x {} do not make {} groups of equal size", function, o.channels(),
                           x.shape(), o.groups);
        const Shape strides = options.stride.over(o.axes, 1, function, "stride");
        const Shape dilations = options.dilation.over(o.axes, 1, function, "dilation");
        const Shape more = options.output_padding.over(o.axes, 0, function, "output_padding");
        const Shape windows = dilated(o.windows, dilations, function);
        const Shape lengths = dilated(o.lengths, strides, function);
        Pads pads = options.padding.is_same() ? Pads{windows, windows}
                                              : pads_of(options.padding, lengths, windows, strides, function);
        Shape ones = strides;
        for (std::size_t axis = 0; axis < lengths.size(); ++axis) {
          if (more[axis] >= std::max(strides[axis], dilations[axis]))
            fail<ShapeError>("{}: output_padding {} must be less than stride {} or dilation {}", function, more[axis],
                             strides[axis], dilations[axis]);
          if (options.padding.is_same()) {  // conv's padding of `length * stride` elements
            const Index all = windows[axis] - strides[axis];
            pads.low[axis] = std::max<Index>(all, 0) / 2;
            pads.high[axis] = all - pads.low[axis];
          }
          pads.low[axis] = windows[axis] - 1 - pads.low[axis];
          pads.high[axis] = windows[axis] - 1 - pads.high[axis] + more[axis];
          ones[axis] = 1;
          if (lengths[axis] == 0 || lengths[axis] + pads.low[axis] + pads.high[axis] < windows[axis])
            fail<ShapeError>(
                "{}: nothing is left of spatial axis {}, which has length {} and a window of {} elements: "
                "there is too much padding",
                function, axis, o.lengths[axis], windows[axis]);
        }
        const Tensor kernel = flipped(reordered(o.grouped_w(), 0, 2, 1));
        return o.result(convolution(o.grouped_x(), kernel, ones, pads, dilations, strides));
      },
      x, w);
}

}  // namespace stave
