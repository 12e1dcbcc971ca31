// Resizing, sampling and windows of images.

#include <stave/core/ops/images.h>

#include <algorithm>
#include <cmath>

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

bool takes_elements(ResizeMethod method) {
  return method == ResizeMethod::nearest || method == ResizeMethod::nearest_exact;
}

// The weights of the four neighbours of a position that is `t` after the second of them: Keys'
// cubic convolution, with p(s) = (a+2) s^3 - (a+3) s^2 + 1 for s <= 1 and
// q(s) = a s^3 - 5 a s^2 + 8 a s - 4 a for 1 < s < 2. Number is double or Tensor.
template <class Number>
std::vector<Number> cubic_weights(const Number& t) {
  constexpr double a = -0.75;
  const auto p = [](const Number& s) { return ((a + 2) * s - (a + 3)) * s * s + 1; };
  const auto q = [](const Number& s) { return ((a * s - 5 * a) * s + 8 * a) * s - 4 * a; };
  return {Number(q(t + 1)), Number(p(t)), Number(p(1 - t)), Number(q(2 - t))};
}

// ---- resize ---------------------------------------------------------------------------------

// The neighbours of each element of the result along one axis: a position and a weight for each.
struct Neighbours {
  std::vector<std::vector<Index>> positions;
  std::vector<std::vector<double>> weights;
};

Neighbours neighbours_along(Index length, Index count, double step, const ResizeOptions& options) {
  Neighbours found;
  const std::size_t terms = takes_elements(options.method) ? 1 : options.method == ResizeMethod::linear ? 2 : 4;
  found.positions.resize(terms);
  found.weights.resize(terms);
  for (Index i = 0; i < count; ++i) {
    const auto place = static_cast<double>(i);
    double position = options.method == ResizeMethod::nearest         ? place * step
                      : options.method == ResizeMethod::nearest_exact ? (place + 0.5) * step
                      : options.align_corners                         ? place * step
                                                                      : (place + 0.5) * step - 0.5;
    if (options.method == ResizeMethod::linear) position = std::max(position, 0.);
    const double below = std::floor(position), share = position - below;
    const std::vector<double> weights = terms == 1   ? std::vector<double>{1}
                                        : terms == 2 ? std::vector<double>{1 - share, share}
                                                     : cubic_weights(share);
    for (std::size_t k = 0; k < terms; ++k) {
      const Index neighbour = static_cast<Index>(below) + static_cast<Index>(k) - (terms == 4 ? 1 : 0);
      found.positions[k].push_back(std::clamp<Index>(neighbour, 0, length - 1));
      found.weights[k].push_back(weights[k]);
    }
  }
  return found;
}

Tensor resized_along(const Tensor& x, int axis, const Neighbours& neighbours) {
  const auto count = static_cast<Index>(neighbours.positions[0].size());
  const auto taken = [&](std::size_t k) { return take(x, from(neighbours.positions[k], x.device()), axis); };
  if (neighbours.positions.size() == 1) return taken(0);
  Shape line = repeated(x.rank(), 1);
  line[static_cast<std::size_t>(axis)] = count;
  Tensor total;
  for (std::size_t k = 0; k < neighbours.positions.size(); ++k) {
    const Tensor weights = astype(from(neighbours.weights[k], line, x.device()), x.dtype());
    total = add_tangents(std::move(total), scale(weights, taken(k)));
  }
  return total;
}

// Calls `resized` with x in the dtype of the computation.
template <class F>
Tensor in_resized_dtype(const Tensor& x, ResizeMethod method, F resized) {
  return takes_elements(method) ? resized(x) : in_floats(resized, x);
}

// Resizes the last axes to these lengths, with the distances `steps` between positions of x.
Tensor resized_to(const char* function, const Tensor& x, const Shape& lengths, const std::vector<double>& steps,
                  const ResizeOptions& options) {
  return in_resized_dtype(x, options.method, [&](Tensor t) {
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      const int axis = t.rank() - lengths.rank() + static_cast<int>(i);
      const Index length = t.shape(axis), count = lengths[i];
      if (length < 1 || count < 1)
        fail<ShapeError>("{}: axis {} of length {} cannot get length {}", function, axis, length, count);
      const bool is_aligned = options.align_corners && !takes_elements(options.method);
      const double step =
          is_aligned ? (count > 1 ? static_cast<double>(length - 1) / static_cast<double>(count - 1) : 0) : steps[i];
      const bool is_unchanged = length == count && (is_aligned || steps[i] == 1);
      if (!is_unchanged) t = resized_along(t, axis, neighbours_along(length, count, step, options));
    }
    return t;
  });
}

void check_spatial_axes(const char* function, const Tensor& x, std::size_t axes) {
  if (axes == 0 || x.shape().size() < axes)
    fail<ShapeError>("{}: {} spatial axes do not fit shape {}", function, axes, x.shape());
}

}  // namespace

Tensor resize(const Tensor& x, const Shape& lengths, ResizeOptions options) {
  return named(
      "resize",
      [&] {
        check_spatial_axes("resize", x, lengths.size());
        std::vector<double> steps;
        for (std::size_t i = 0; i < lengths.size(); ++i) {
          const auto length = static_cast<double>(x.shape()[x.shape().size() - lengths.size() + i]);
          steps.push_back(length / static_cast<double>(lengths[i]));
        }
        return resized_to("resize", x, lengths, steps, options);
      },
      x);
}

Tensor resize_by(const Tensor& x, const std::vector<double>& factors, ResizeOptions options) {
  return named(
      "resize_by",
      [&] {
        check_spatial_axes("resize_by", x, factors.size());
        Shape lengths;
        std::vector<double> steps;
        for (std::size_t i = 0; i < factors.size(); ++i) {
          if (!(factors[i] > 0) || std::isinf(factors[i])) fail<Error>("resize_by: {} is no factor", factors[i]);
          const auto length = static_cast<double>(x.shape()[x.shape().size() - factors.size() + i]);
          lengths.push_back(static_cast<Index>(std::floor(length * factors[i])));
          steps.push_back(1 / factors[i]);
        }
        return resized_to("resize_by", x, lengths, steps, options);
      },
      x);
}

// ---- grid_sample ----------------------------------------------------------------------------

namespace {

// Returns the positions, reflected at `low` and `high` until they are between them.
Tensor reflected(const Tensor& position, double low, double high) {
  const double span = high - low;
  if (span == 0) return zeros_like(position) + low;
  const Tensor within = remainder(position - low, 2 * span);
  return low + where(within > span, 2 * span - within, within);
}

Tensor padded_position(const Tensor& position, Index length, const GridSampleOptions& options) {
  const auto last = static_cast<double>(length - 1);
  const auto clamped = [&](const Tensor& p) { return where(p > 0, where(p < last, p, last), 0); };
  if (options.padding == GridPadding::border) return clamped(position);
  if (options.padding == GridPadding::reflection)
    return clamped(options.align_corners ? reflected(position, 0, last) : reflected(position, -0.5, last + 0.5));
  return position;
}

// The neighbours of positions along one axis: whole numbers as floats, and weights.
struct GridNeighbours {
  std::vector<Tensor> positions, weights;
};

GridNeighbours grid_neighbours(const Tensor& number, Index length, const GridSampleOptions& options) {
  const auto size = static_cast<double>(length);
  Tensor position = options.align_corners ? (number + 1) * ((size - 1) / 2) : ((number + 1) * size - 1) * 0.5;
  // Cubic convolution pads by moving the neighbours, the other methods by moving the position.
  if (options.method != ResizeMethod::cubic) position = padded_position(position, length, options);
  if (takes_elements(options.method)) {
    const Tensor nearest = round(position);
    return {{nearest}, {ones_like(nearest)}};
  }
  const Tensor below = floor(position), share = position - below;
  if (options.method == ResizeMethod::linear) return {{below, below + 1}, {1 - share, share}};
  GridNeighbours found{{}, cubic_weights(share)};
  for (int k = -1; k <= 2; ++k) found.positions.push_back(padded_position(below + k, length, options));
  return found;
}

// The sum over all combinations of neighbours, one along each axis.
Tensor sampled(const Tensor& x, const std::vector<GridNeighbours>& axes, const Shape& lengths) {
  const Tensor flat =
      reshape(x, joined({Shape(std::span<const Index>(x.shape().begin(), x.shape().end() - lengths.size())),
                         Shape{lengths.elements()}}));
  const Dtype dtype = positions_dtype(lengths.elements());
  Tensor total;
  const auto add_from = [&](auto&& self, std::size_t axis, const Tensor& index, const Tensor& inside,
                            const Tensor& weight) -> void {
    if (axis == axes.size()) {
      // The channels share the positions: [batch..., 1, out].
      const Tensor place = expand_dims(where(inside, index, 0), Shape{-2});
      const Tensor value = take_along_axis(flat, place, -1);
      const Tensor part = scale(expand_dims(where(inside, weight, 0), Shape{-2}), value);
      total = add_tangents(std::move(total), part);
      return;
    }
    for (std::size_t k = 0; k < axes[axis].positions.size(); ++k) {
      const Tensor& p = axes[axis].positions[k];
      const Tensor here = logical_and(p >= 0, p <= static_cast<double>(lengths[axis] - 1));
      const Tensor place = astype(where(here, p, 0), dtype), w = axes[axis].weights[k];
      if (axis == 0) self(self, 1, place, here, w);
      else self(self, axis + 1, index * lengths[axis] + place, logical_and(inside, here), weight * w);
    }
  };
  add_from(add_from, 0, {}, {}, {});
  return total;
}

}  // namespace

Tensor grid_sample(const Tensor& x, const Tensor& grid, GridSampleOptions options) {
  return named(
      "grid_sample",
      [&] {
        const Index axes = grid.rank() > 0 ? grid.shape(-1) : 0;
        const Index batch = x.rank() - 1 - axes;
        if (axes < 1 || batch < 0 || grid.rank() < batch + 1 ||
            !std::equal(x.shape().begin(), x.shape().begin() + batch, grid.shape().begin()))
          fail<ShapeError>(
              "grid_sample: x {} must be [batch..., channels, lengths...] and grid {} [batch..., out..., "
              "axes], with one number for each axis of lengths",
              x.shape(), grid.shape());
        const Shape lengths(std::span<const Index>(x.shape().end() - axes, x.shape().end()));
        if (lengths.elements() == 0) fail<ShapeError>("grid_sample: x {} has no elements", x.shape());
        const Shape leading(std::span<const Index>(x.shape().begin(), x.shape().begin() + batch));
        const Shape out(std::span<const Index>(grid.shape().begin() + batch, grid.shape().end() - 1));
        return in_floats(
            [&](const Tensor& values, const Tensor& positions) {
              const Tensor flat = reshape(positions, joined({leading, Shape{out.elements(), axes}}));
              std::vector<GridNeighbours> neighbours;
              for (Index axis = 0; axis < axes; ++axis) {
                const Tensor number = squeeze(entries(flat, flat.rank() - 1, axes - 1 - axis, 1), -1);
                neighbours.push_back(grid_neighbours(number, lengths[static_cast<std::size_t>(axis)], options));
              }
              return reshape(sampled(values, neighbours, lengths), joined({leading, Shape{x.shape(batch)}, out}));
            },
            x, grid);
      },
      x, grid);
}

// ---- unfold and fold ------------------------------------------------------------------------

namespace {

// Windows of arrays with the given lengths of their spatial axes.
struct FoldedWindows {
  Shape lengths, windows, strides, pads, dilations, padded, places;

  FoldedWindows(const char* function, const Shape& lengths_, const PerAxis& window, const UnfoldOptions& options)
      : lengths(lengths_) {
    const int axes = lengths.rank();
    windows = window.over(axes, 1, function, "window");
    strides = options.stride.over(axes, 1, function, "stride");
    pads = options.padding.over(axes, 0, function, "padding");
    dilations = options.dilation.over(axes, 1, function, "dilation");
    places = window_positions(lengths, dilated(windows, dilations, function), strides, {pads, pads}, function);
    for (std::size_t i = 0; i < lengths.size(); ++i) padded.push_back(lengths[i] + 2 * pads[i]);
  }
  // Calls f with the position of each element of a window in the padded array, in row-major order.
  template <class F>
  void for_each_element(F f) const {
    Shape element = repeated(windows.rank(), 0);
    for (Index left = windows.elements(); left > 0; --left) {
      Shape start = element;
      for (std::size_t i = 0; i < start.size(); ++i) start[i] *= dilations[i];
      f(start);
      for (std::size_t i = element.size(); i-- > 0;) {
        if (++element[i] < windows[i]) break;
        element[i] = 0;
      }
    }
  }
};

Shape axes_before(const Tensor& x, int axes) {
  return Shape(std::span<const Index>(x.shape().begin(), x.shape().end() - axes));
}

}  // namespace

Tensor unfold(const Tensor& x, const PerAxis& window, UnfoldOptions options) {
  return named(
      "unfold",
      [&] {
        const int axes = window.axes() ? window.axes() : 2;
        if (x.rank() < axes + 1)
          fail<ShapeError>("unfold: x {} must have channels and {} spatial axes", x.shape(), axes);
        const Shape leading = axes_before(x, axes);
        const FoldedWindows w("unfold", Shape(std::span<const Index>(x.shape().end() - axes, x.shape().end())), window,
                              options);
        std::vector<std::pair<Index, Index>> widths(leading.size());
        for (Index padding : w.pads) widths.emplace_back(padding, padding);
        const Tensor padded = pad(x, widths);
        std::vector<Tensor> elements;
        w.for_each_element([&](const Shape& start) {
          const Shape none = repeated(leading.rank(), 0), ones_ = repeated(leading.rank(), 1);
          elements.push_back(
              slice_of(padded, joined({none, start}), joined({leading, w.places}), joined({ones_, w.strides})));
        });
        Shape columns = leading;
        columns.back() *= w.windows.elements();
        columns.push_back(w.places.elements());
        return reshape(stack(elements, leading.rank()), columns);
      },
      x);
}

Tensor fold(const Tensor& columns, const Shape& lengths, const PerAxis& window, UnfoldOptions options) {
  return named(
      "fold",
      [&] {
        if (lengths.size() == 0 || (window.axes() && window.axes() != lengths.rank()))
          fail<ShapeError>("fold: lengths {} and the window must have one entry for each spatial axis", lengths);
        const FoldedWindows w("fold", lengths, window, options);
        const Index elements = w.windows.elements();
        if (columns.rank() < 2 || columns.shape(-2) % elements != 0 || columns.shape(-1) != w.places.elements())
          fail<ShapeError>("fold: columns {} must be [batch..., channels * {}, {}] for lengths {}", columns.shape(),
                           elements, w.places.elements(), lengths);
        Shape leading = axes_before(columns, 2);
        leading.push_back(columns.shape(-2) / elements);
        const Tensor values = widened(columns);
        const Tensor windows = reshape(values, joined({leading, Shape{elements}, w.places}));
        const Shape none = repeated(leading.rank(), 0), ones_ = repeated(leading.rank(), 1);
        Tensor total;
        Index element = 0;
        w.for_each_element([&](const Shape& start) {
          const Tensor part = squeeze(entries(windows, leading.rank(), element++, 1), leading.rank());
          total = add_tangents(std::move(total), pad_into(part, joined({leading, w.padded}), joined({none, start}),
                                                          joined({ones_, w.strides}), 0));
        });
        return slice_of(total, joined({none, w.pads}), joined({leading, lengths}),
                        joined({ones_, repeated(lengths.rank(), 1)}));
      },
      columns);
}

}  // namespace stave
