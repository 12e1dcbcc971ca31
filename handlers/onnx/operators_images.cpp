// Images: sampling at computed positions, and boxes.
#include <stave/core/ops/images.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <stave/core/ops/contract.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/index.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/reduce.h>
#include <stave/handlers/onnx/operators.h>
#include <stave/handlers/onnx/resize.h>

namespace stave_detail {

namespace {

Tensor sampled(const NodeCall& n) {
  const std::string mode = n.text("mode", "linear"), padding = n.text("padding_mode", "zeros");
  GridSampleOptions options{.align_corners = n.integer("align_corners", 0) != 0};
  if (mode == "nearest") options.method = ResizeMethod::nearest;
  else if (mode == "cubic" || mode == "bicubic") options.method = ResizeMethod::cubic;
  else if (mode != "linear" && mode != "bilinear") n.refuse("there is no mode '{}'", mode);
  if (padding == "border") options.padding = GridPadding::border;
  else if (padding == "reflection") options.padding = GridPadding::reflection;
  else if (padding != "zeros") n.refuse("there is no padding_mode '{}'", padding);
  return grid_sample(n(0), n(1), options);
}

// The positions [batch, lengths..., axes] of a grid that theta [batch, axes, axes + 1] transforms.
Tensor affine_grid(const NodeCall& n) {
  const std::vector<Index> size = n.integers(1);
  if (size.size() < 3) fail<ShapeError>("the size {} has no spatial axes", fmt::join(size, ", "));
  const std::size_t axes = size.size() - 2;
  const bool corners = n.integer("align_corners", 0) != 0;
  std::vector<Tensor> coordinates;
  for (std::size_t i = axes; i-- > 0;) {  // the last axis comes first
    const Index length = size[i + 2];
    const double edge = corners ? 1 : 1 - 1 / static_cast<double>(length);
    coordinates.push_back(linspace(-edge, edge, length, float64));
  }
  const Shape lengths(std::span<const Index>(size).subspan(2));
  for (std::size_t i = 0; i < axes; ++i) {
    const auto axis = static_cast<Index>(axes - 1 - i);
    coordinates[i] = broadcast_to(vector_along(coordinates[i], axis, static_cast<int>(axes)), lengths);
  }
  coordinates.push_back(ones(lengths, float64));
  const Tensor points = reshape(stack(coordinates, -1), {lengths.elements(), axes + 1});
  const Tensor grid = matmul(astype(points, n(0).dtype()), matrix_transpose(n(0)));
  Shape shape{size[0]};
  for (const Index length : lengths) shape.push_back(length);
  shape.push_back(static_cast<Index>(axes));
  return reshape(grid, shape);
}

// For one axis of one box: the positions of samples, which of them lie within the image, and
// their neighbours with weights.
struct BoxSamples {
  std::vector<Index> low, high;
  std::vector<double> low_weight, high_weight;
  Index each = 1;  // samples in each bin

  BoxSamples(double begin, double end, Index bins, Index ratio, Index length, bool whole) {
    double extent = end - begin;
    if (!whole) extent = std::max(extent, 1.);
    const double bin = extent / static_cast<double>(bins);
    const double samples = ratio > 0 ? static_cast<double>(ratio) : std::ceil(bin);
    if (!std::isfinite(bin) || std::abs(samples) > 100'000)
      fail<ShapeError>("a box from {} to {} is too large", begin, end);
    each = static_cast<Index>(samples);
    check_host_numbers({bins, std::max<Index>(each, 1)});
    const double last = static_cast<double>(length - 1);
    for (Index p = 0; p < bins; ++p)
      for (Index i = 0; i < each; ++i) {
        const double x =
            begin + (static_cast<double>(p) + (static_cast<double>(i) + 0.5) / static_cast<double>(each)) * bin;
        const bool inside = x >= -1 && x <= static_cast<double>(length);
        const double at = std::clamp(x, 0., last), floor_of = std::floor(at);
        low.push_back(static_cast<Index>(floor_of));
        high.push_back(std::min(static_cast<Index>(floor_of) + 1, length - 1));
        high_weight.push_back(inside ? at - floor_of : 0);
        low_weight.push_back(inside ? 1 - (at - floor_of) : 0);
      }
  }
};

// The means or maxima of samples in the bins of boxes, whose coordinates are read on the host.
Tensor roi_align(const NodeCall& n) {
  const Tensor& x = n(0);
  const std::vector<double> rois = n.numbers(1);
  const std::vector<Index> images = n.integers(2);
  const Index rows = n.integer("output_height", 1), columns = n.integer("output_width", 1),
              ratio = n.integer("sampling_ratio", 0);
  const double scale = n.number("spatial_scale", 1);
  const bool half = n.opset() >= 16 && n.text("coordinate_transformation_mode", "half_pixel") == "half_pixel";
  const bool maxima = n.text("mode", "avg") == "max";
  if (x.rank() != 4 || rois.size() != 4 * images.size() || rows < 1 || columns < 1)
    fail<ShapeError>("{} images and {} numbers of boxes do not fit {}", images.size(), rois.size(), x.shape());
  std::vector<Tensor> all;
  for (std::size_t i = 0; i < images.size(); ++i) {
    const auto edge = [&](std::size_t k) { return rois[4 * i + k] * scale - (half ? 0.5 : 0); };
    const BoxSamples v(edge(1), edge(3), rows, ratio, x.shape(2), half),
        h(edge(0), edge(2), columns, ratio, x.shape(3), half);
    const Tensor image = x[images[i]];
    const auto corner = [&](bool low_v, bool low_h) {
      const Tensor w =
          expand_dims(from(low_v ? v.low_weight : v.high_weight), -1) * from(low_h ? h.low_weight : h.high_weight);
      return take(take(image, from(low_v ? v.low : v.high), 1), from(low_h ? h.low : h.high), 2) * astype(w, x.dtype());
    };
    const Tensor a = corner(true, true), b = corner(true, false), c = corner(false, true), d = corner(false, false);
    // ONNX defines the maximum of a bin over the weighted corners, not over interpolated samples.
    const Tensor samples = maxima ? maximum(maximum(a, b), maximum(c, d)) : a + b + c + d;
    const Tensor bins = reshape(samples, {x.shape(1), rows, v.each, columns, h.each});
    all.push_back(maxima ? (max)(bins, {2, 4}) : mean(bins, {2, 4}));
  }
  return all.empty() ? zeros({0, x.shape(1), rows, columns}, x.dtype()) : stack(all);
}

// The maxima of the bins of boxes with whole coordinates.
Tensor max_roi_pool(const NodeCall& n) {
  const Tensor& x = n(0);
  const std::vector<double> rois = n.fixed_numbers(1);
  const std::vector<Index> shape = n.integers("pooled_shape").value_or(std::vector<Index>());
  const double scale = n.number("spatial_scale", 1);
  if (x.rank() != 4 || shape.size() != 2 || rois.size() % 5 != 0 || shape[0] < 1 || shape[1] < 1)
    fail<ShapeError>("{} numbers of boxes do not fit {}", rois.size(), x.shape());
  check_host_numbers({static_cast<Index>(rois.size()), shape[0], shape[1]});
  std::vector<Tensor> all;
  for (std::size_t i = 0; i < rois.size(); i += 5) {
    const auto edge = [&](std::size_t k) { return static_cast<Index>(std::round(rois[i + k] * scale)); };
    const auto bounds = [](Index begin, Index end, Index bins, Index bin, Index length) {
      const double size = static_cast<double>(std::max<Index>(end - begin + 1, 1)) / static_cast<double>(bins);
      const auto at = [&](double p) { return std::clamp<Index>(static_cast<Index>(p) + begin, 0, length); };
      return std::pair(at(std::floor(static_cast<double>(bin) * size)),
                       at(std::ceil(static_cast<double>(bin + 1) * size)));
    };
    std::vector<Tensor> bins;
    for (Index r = 0; r < shape[0]; ++r)
      for (Index c = 0; c < shape[1]; ++c) {
        const auto [top, bottom] = bounds(edge(2), edge(4), shape[0], r, x.shape(2));
        const auto [left, right] = bounds(edge(1), edge(3), shape[1], c, x.shape(3));
        const Tensor part = x(static_cast<Index>(rois[i]), slice(), slice(top, bottom), slice(left, right));
        bins.push_back(part.size() > 0 ? (max)(part, {1, 2}) : zeros({x.shape(1)}, x.dtype()));
      }
    all.push_back(reshape(stack(bins, -1), {x.shape(1), shape[0], shape[1]}));
  }
  return all.empty() ? zeros({0, x.shape(1), shape[0], shape[1]}, x.dtype()) : stack(all);
}

struct Box {
  double top, left, bottom, right;
  double area() const { return (bottom - top) * (right - left); }
};

double overlap(const Box& a, const Box& b) {
  const double height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top),
               width = std::min(a.right, b.right) - std::max(a.left, b.left);
  if (height <= 0 || width <= 0) return 0;
  return height * width / (a.area() + b.area() - height * width);
}

// Takes boxes in the order of their scores, except those that overlap one that was taken. Scores
// and boxes are read on the host; positions have no derivative.
Tensor non_max_suppression(const NodeCall& n) {
  const std::vector<double> boxes = n.fixed_numbers(0), scores = n.fixed_numbers(1);
  const Index most = n.has(2) ? n.integer(2) : 0;
  const double threshold = n.has(3) ? n.fixed_number(3) : 0,
               least = n.has(4) ? n.fixed_number(4) : -std::numeric_limits<double>::infinity();
  const bool centres = n.integer("center_point_box", 0) != 0;
  if (n(1).rank() != 3 || n(0).rank() != 3 || n(0).shape(2) != 4 || n(0).shape(0) != n(1).shape(0) ||
      n(0).shape(1) != n(1).shape(2))
    fail<ShapeError>("boxes {} do not fit scores {}", n(0).shape(), n(1).shape());
  const auto batches = static_cast<std::size_t>(n(1).shape(0)), classes = static_cast<std::size_t>(n(1).shape(1)),
             count = static_cast<std::size_t>(n(1).shape(2));
  std::vector<Index> selected;
  for (std::size_t batch = 0; batch < batches; ++batch) {
    std::vector<Box> all;
    for (std::size_t i = 0; i < count; ++i) {
      const double* const p = boxes.data() + 4 * (batch * count + i);
      if (centres) all.push_back({p[1] - p[3] / 2, p[0] - p[2] / 2, p[1] + p[3] / 2, p[0] + p[2] / 2});
      else all.push_back({std::min(p[0], p[2]), std::min(p[1], p[3]), std::max(p[0], p[2]), std::max(p[1], p[3])});
    }
    for (std::size_t c = 0; c < classes; ++c) {
      const double* const score = scores.data() + (batch * classes + c) * count;
      std::vector<std::size_t> order(count), taken;
      std::iota(order.begin(), order.end(), std::size_t{0});
      // A NaN is no score: it comes last.
      const auto rank = [&](std::size_t k) {
        return std::isnan(score[k]) ? -std::numeric_limits<double>::infinity() : score[k];
      };
      std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return rank(a) > rank(b); });
      for (const std::size_t i : order) {
        if (static_cast<Index>(taken.size()) >= most || !(score[i] > least)) break;
        if (std::all_of(taken.begin(), taken.end(),
                        [&](std::size_t j) { return overlap(all[i], all[j]) <= threshold; }))
          taken.push_back(i);
      }
      for (const std::size_t i : taken)
        for (const std::size_t entry : {batch, c, i}) selected.push_back(static_cast<Index>(entry));
    }
  }
  return from(selected, {selected.size() / 3, 3});
}

constexpr OnnxOperator images_rows[] = {
    {"AffineGrid", 20, affine_grid}, {"GridSample", 16, sampled},
    {"MaxRoiPool", 1, max_roi_pool}, {"NonMaxSuppression", 10, non_max_suppression},
    {"Resize", 10, onnx_resize},     {"RoiAlign", 10, roi_align},
    {"Upsample", 7, onnx_resize},
};

}  // namespace

std::span<const OnnxOperator> onnx_images() { return images_rows; }

}  // namespace stave_detail
