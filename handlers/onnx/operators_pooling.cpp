// Pooling.
#include <stave/core/ops/pooling.h>

#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/index.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/reduce.h>
#include <stave/handlers/onnx/operators.h>
#include <stave/handlers/onnx/windows.h>

namespace stave_detail {

namespace {

OnnxWindows pooling_windows(const NodeCall& n) { return onnx_windows(n, n(0).shape(), onnx_kernel(n, Shape())); }

PoolOptions pool_options(const NodeCall& n, const OnnxWindows& w) {
  return {.stride = w.strides,
          .padding = w.padding(),
          .dilation = w.dilations,
          .ceil_mode = n.integer("ceil_mode", 0) != 0};
}

Tensor average_pool(const NodeCall& n) {
  const OnnxWindows w = pooling_windows(n);
  return avg_pool(n(0), w.kernel,
                  {.stride = w.strides,
                   .padding = w.padding(),
                   .dilation = w.dilations,
                   .count_include_pad = n.integer("count_include_pad", 0) != 0,
                   .ceil_mode = n.integer("ceil_mode", 0) != 0});
}

// The positions of the largest elements, in the flattened x.
Tensor positions_in_all(const NodeCall& n, const OnnxWindows& w) {
  const Tensor& x = n(0);
  Tensor at = as_int64(argmax_pool(x, w.kernel, pool_options(n, w)));
  const Index images = x.shape(0) * x.shape(1), pixels = images == 0 ? 0 : x.size() / images;
  if (n.integer("storage_order", 0) != 0) {  // column-major: the first spatial axis is the fastest
    Tensor columns = zeros_like(at);
    Index stride = 1, rows = pixels;
    for (Index axis = 2; axis < x.rank(); ++axis) {
      rows /= x.shape(axis);
      columns = columns + floor_divide(at, rows) % x.shape(axis) * stride;
      stride *= x.shape(axis);
    }
    at = columns;
  }
  Shape images_shape(std::vector<Index>(static_cast<std::size_t>(x.rank()), 1));
  images_shape[0] = x.shape(0);
  images_shape[1] = x.shape(1);
  return at + reshape(arange(0, images, 1, int64) * pixels, images_shape);
}

OnnxValues maximum_pool(const NodeCall& n) {
  const OnnxWindows w = pooling_windows(n);
  const Tensor y = max_pool(n(0), w.kernel, pool_options(n, w));
  return n.wants(1) ? results({y, positions_in_all(n, w)}) : results({y});
}

Tensor norm_pool(const NodeCall& n) {
  const OnnxWindows w = pooling_windows(n);
  const double p = static_cast<double>(n.integer("p", 2));
  return pow(sum_pool(pow(abs(n(0)), p), w.kernel, pool_options(n, w)), 1 / p);
}

// Applies a reduction to all spatial axes.
template <class Reduce>
Tensor over_space(const Tensor& x, Reduce reduce) {
  return reduce(x, Axes(axes_between(2, x.rank())));
}
Tensor global_average(const NodeCall& n) {
  return over_space(n(0), [](const Tensor& x, const Axes& axes) { return mean(x, axes, keepdims); });
}
Tensor global_maximum(const NodeCall& n) {
  return over_space(n(0), [](const Tensor& x, const Axes& axes) { return (max)(x, axes, keepdims); });
}
Tensor global_norm_pool(const NodeCall& n) {
  const double p = static_cast<double>(n.integer("p", 2));
  return over_space(n(0),
                    [&](const Tensor& x, const Axes& axes) { return pow(sum(pow(abs(x), p), axes, keepdims), 1 / p); });
}

// Puts elements at the positions that MaxPool found, and zeros elsewhere. The positions are those
// in the tensor that MaxPool pooled, whose shape is computed from the windows.
Tensor maximum_unpool(const NodeCall& n) {
  const Tensor &x = n(0), &at = n(1);
  const Shape kernel = onnx_kernel(n, Shape());
  const std::size_t axes = kernel.size();
  if (x.shape().size() != axes + 2) fail<ShapeError>("the window {} does not fit {}", kernel, x.shape());
  const Shape strides = onnx_per_axis(n, "strides", axes, 1), pads = onnx_per_axis(n, "pads", 2 * axes, 0);
  Shape pooled = x.shape();
  for (std::size_t i = 0; i < axes; ++i)
    pooled[i + 2] = (x.shape()[i + 2] - 1) * strides[i] - pads[i] - pads[i + axes] + kernel[i];
  const Tensor flat = scatter(zeros({pooled.elements()}, x.dtype()), reshape(at, {at.size(), 1}), reshape(x, -1));
  const Tensor y = reshape(flat, pooled);
  if (!n.has(2)) return y;
  const std::vector<Index> wanted = n.integers(2);
  if (wanted.size() != pooled.size()) fail<ShapeError>("output_shape has {} lengths for {}", wanted.size(), pooled);
  std::vector<std::pair<Index, Index>> widths;
  for (std::size_t i = 0; i < wanted.size(); ++i) widths.emplace_back(0, wanted[i] - pooled[i]);
  return pad(y, widths);
}

constexpr OnnxOperator pooling_rows[] = {
    {"AveragePool", 7, average_pool},
    {"GlobalAveragePool", 1, global_average},
    {"GlobalLpPool", 2, global_norm_pool},
    {"GlobalMaxPool", 1, global_maximum},
    {"LpPool", 2, norm_pool},
    {"MaxPool", 1, maximum_pool},
    {"MaxUnpool", 9, maximum_unpool},
};

}  // namespace

std::span<const OnnxOperator> onnx_pooling() { return pooling_rows; }

}  // namespace stave_detail
