// Resizing: each axis by itself, as a weighted sum of neighbouring elements. Positions and weights
// are computed on the host.
#include <algorithm>
#include <cmath>
#include <numeric>

#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/index.h>
#include <stave/core/ops/layout.h>
#include <stave/handlers/onnx/resize.h>

namespace stave_detail {

namespace {

double cubic(double x, double a) {
  x = std::abs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

// How one axis is resized.
struct ResizedAxis {
  Index from, to;
  double scale;               // of lengths, by which positions are computed
  double begin = 0, end = 1;  // the part of the axis that tf_crop_and_resize takes

  // The position of element i of the result in the axis. Source: the definition of Resize in ONNX.
  double position(const NodeCall& n, const std::string& mode, Index i) const {
    const double x = static_cast<double>(i), length = static_cast<double>(from), scaled = scale * length;
    if (mode == "half_pixel") return (x + 0.5) / scale - 0.5;
    if (mode == "half_pixel_symmetric")
      return length / 2 * (1 - static_cast<double>(to) / scaled) + (x + 0.5) / scale - 0.5;
    if (mode == "pytorch_half_pixel") return scaled == 1 ? -0.5 : (x + 0.5) / scale - 0.5;
    if (mode == "align_corners") return scaled == 1 ? 0 : x * (length - 1) / (scaled - 1);
    if (mode == "asymmetric") return x / scale;
    if (mode == "tf_crop_and_resize") {
      const double part =
          scaled == 1 ? (end - begin) * (length - 1) / 2 : x * (end - begin) * (length - 1) / (scaled - 1);
      return part + begin * (length - 1);
    }
    n.refuse("there is no coordinate_transformation_mode '{}'", mode);
  }
};

double nearest(const NodeCall& n, const std::string& mode, double position) {
  if (mode == "round_prefer_floor") return std::ceil(position - 0.5);
  if (mode == "round_prefer_ceil") return std::floor(position + 0.5);
  if (mode == "floor") return std::floor(position);
  if (mode == "ceil") return std::ceil(position);
  n.refuse("there is no nearest_mode '{}'", mode);
}

// The neighbours of each element of the result, and their weights.
struct Neighbours {
  std::size_t each = 1;
  std::vector<Index> places;
  std::vector<double> weights;
  std::vector<bool> outside;  // elements of the result beyond the ends of the axis
};

Neighbours neighbours(const NodeCall& n, const ResizedAxis& axis, const std::string& method) {
  const std::string mode = n.text("coordinate_transformation_mode", n.opset() < 11 ? "asymmetric" : "half_pixel"),
                    rounding = n.text("nearest_mode", n.opset() < 11 ? "floor" : "round_prefer_floor");
  const bool exclude = n.integer("exclude_outside", 0) != 0, is_nearest = method == "nearest",
             is_cubic = method == "cubic";
  if (!is_nearest && !is_cubic && method != "linear") n.refuse("there is no mode '{}'", method);
  // With antialias, a shrinking axis is smoothed by wider windows.
  const double squeeze = n.integer("antialias", 0) != 0 ? std::min(axis.scale, 1.) : 1,
               a = n.number("cubic_coeff_a", -0.75);
  const double half = is_cubic ? 2 : 1;
  const double reach = half / squeeze;
  if (!is_nearest && !(reach <= 50'000))
    fail<ShapeError>("an axis of {} elements cannot be resized to {}", axis.from, axis.to);
  const Index first = is_nearest ? 0 : static_cast<Index>(std::floor(-reach)) + 1;
  Neighbours all;
  all.each = is_nearest ? 1 : static_cast<std::size_t>(2 - 2 * first);
  check_host_numbers({axis.to, static_cast<Index>(all.each)});
  for (Index i = 0; i < axis.to; ++i) {
    const double position = axis.position(n, mode, i);
    all.outside.push_back(mode == "tf_crop_and_resize" &&
                          (position < 0 || position > static_cast<double>(axis.from - 1)));
    const auto clamped = [&](double place) {
      return static_cast<Index>(std::clamp(place, 0., static_cast<double>(axis.from - 1)));
    };
    if (is_nearest) {
      all.places.push_back(clamped(nearest(n, rounding, position)));
      all.weights.push_back(1);
      continue;
    }
    const double base = std::ceil(position) - 1, ratio = position - base;  // in (0, 1]
    std::vector<double> weights;
    for (std::size_t k = 0; k < all.each; ++k) {
      const double offset = static_cast<double>(first) + static_cast<double>(k), place = base + offset;
      const double distance = (offset - ratio) * squeeze;
      const double weight = is_cubic ? cubic(distance, a) : std::max(0., 1 - std::abs(distance));
      weights.push_back(exclude && (place < 0 || place > static_cast<double>(axis.from - 1)) ? 0 : weight);
      all.places.push_back(clamped(place));
    }
    const double total = std::accumulate(weights.begin(), weights.end(), 0.);
    for (const double weight : weights) all.weights.push_back(total == 0 ? 0 : weight / total);
  }
  return all;
}

Index length_of(double x) {
  if (!(x >= 0 && x < 0x1p53)) fail<ShapeError>("an axis cannot be resized to {} elements", x);
  return static_cast<Index>(std::floor(x));
}

Tensor resized_axis(const NodeCall& n, const Tensor& x, int axis, const ResizedAxis& how, const std::string& method) {
  if (how.from < 1) fail<ShapeError>("an axis of length 0 cannot be resized");
  const Neighbours all = neighbours(n, how, method);
  Tensor y;
  for (std::size_t k = 0; k < all.each; ++k) {
    std::vector<Index> places;
    std::vector<double> weights;
    for (std::size_t i = k; i < all.places.size(); i += all.each) {
      places.push_back(all.places[i]);
      weights.push_back(all.weights[i]);
    }
    Tensor part = take(x, from(places), axis);
    if (all.each > 1) part = part * astype(vector_along(from(weights), axis, x.rank()), x.dtype());
    y = y.defined() ? y + part : part;
  }
  if (std::find(all.outside.begin(), all.outside.end(), true) == all.outside.end()) return y;
  return where(vector_along(from(all.outside), axis, x.rank()), full_like(y, n.number("extrapolation_value", 0)), y);
}

}  // namespace

Tensor onnx_resize(const NodeCall& n) {
  const Tensor& x = n(0);
  const std::string method = n.text("mode", "nearest");
  const std::size_t scales_input = n.opset() < 11 ? 1 : 2;
  const auto scales = [&] { return n.opset() < 9 ? n.numbers("scales") : n.fixed_numbers(scales_input); };
  const auto axes = n.integers("axes").value_or(axes_between(0, x.rank()));
  const auto count_is = [&](std::size_t found, std::size_t wanted) {
    if (found != wanted) fail<ShapeError>("there are {} numbers for {} axes", found, axes.size());
  };
  const bool by_size = n.has(3) && n(3).size() > 0;
  const std::vector<double> numbers = by_size ? std::vector<double>() : scales();
  const std::vector<Index> sizes = by_size ? n.integers(3) : std::vector<Index>();
  count_is(by_size ? sizes.size() : numbers.size(), axes.size());
  std::vector<ResizedAxis> how;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const Index length = x.shape(axes[i]);
    if (by_size) how.push_back({length, sizes[i], static_cast<double>(sizes[i]) / static_cast<double>(length)});
    else how.push_back({length, length_of(numbers[i] * static_cast<double>(length)), numbers[i]});
    if (how.back().to < 0) fail<ShapeError>("an axis of {} elements cannot be resized to {}", length, how.back().to);
  }
  const std::string policy = n.text("keep_aspect_ratio_policy", "stretch");
  if (by_size && policy != "stretch") {
    if (policy != "not_larger" && policy != "not_smaller")
      n.refuse("there is no keep_aspect_ratio_policy '{}'", policy);
    const auto [least, most] =
        std::minmax_element(how.begin(), how.end(), [](const auto& a, const auto& b) { return a.scale < b.scale; });
    const double scale = policy == "not_larger" ? least->scale : most->scale;
    for (ResizedAxis& axis : how) axis = {axis.from, length_of(scale * static_cast<double>(axis.from) + 0.5), scale};
  }
  if (n.opset() >= 11 && n.has(1) && n(1).size() > 0) {
    const std::vector<double> parts = n.fixed_numbers(1);
    count_is(parts.size(), 2 * axes.size());
    for (std::size_t i = 0; i < axes.size(); ++i) {
      how[i].begin = parts[i];
      how[i].end = parts[i + axes.size()];
    }
  }
  const bool by_floats = method == "nearest" || is_float(x.dtype());
  Tensor y = by_floats ? x : astype(x, float32);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const bool same = how[i].from == how[i].to && how[i].scale == 1 && how[i].begin == 0 && how[i].end == 1;
    if (!same) y = resized_axis(n, y, normalize_axis(axes[i], x.rank(), "axes"), how[i], method);
  }
  return by_floats ? y : saturated(y, x.dtype());
}

}  // namespace stave_detail
