// Convolutions.
#include <stave/core/ops/convolution.h>

#include <stave/core/ops/contract.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/images.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/window.h>
#include <stave/handlers/onnx/operators.h>
#include <stave/handlers/onnx/windows.h>

namespace stave_detail {

Shape onnx_per_axis(const NodeCall& n, std::string_view name, std::size_t axes, Index otherwise) {
  const auto given = n.integers(name);
  if (!given) return Shape(std::vector<Index>(axes, otherwise));
  if (given->size() != axes) fail<ShapeError>("the attribute '{}' has {} numbers for {}", name, given->size(), axes);
  return Shape(*given);
}

Shape onnx_kernel(const NodeCall& n, const Shape& otherwise) {
  const auto given = n.integers("kernel_shape");
  return given ? Shape(*given) : otherwise;
}

Tensor per_channel(const Tensor& x, int rank) { return vector_along(x, 0, rank - 1); }

namespace {

Shape spatial(const Shape& x) {
  if (x.size() < 3) fail<ShapeError>("{} has no spatial axes after a batch and channels", x);
  return Shape(std::span<const Index>(x).subspan(2));
}

}  // namespace

OnnxWindows onnx_windows(const NodeCall& n, const Shape& x, const Shape& kernel) {
  const Shape lengths = spatial(x);
  const std::size_t axes = lengths.size();
  if (kernel.size() != axes) fail<ShapeError>("the window {} does not fit {}", kernel, x);
  OnnxWindows w{kernel, onnx_per_axis(n, "strides", axes, 1), onnx_per_axis(n, "dilations", axes, 1),
                Shape(std::vector<Index>(axes, 0)), Shape(std::vector<Index>(axes, 0))};
  for (const Index stride : w.strides)
    if (stride < 1) fail<ShapeError>("strides must be positive, not {}", w.strides);
  const std::string mode = n.text("auto_pad", "NOTSET");
  if (mode == "NOTSET" || mode.empty()) {
    const Shape pads = onnx_per_axis(n, "pads", 2 * axes, 0);
    for (std::size_t i = 0; i < axes; ++i) {
      w.low[i] = pads[i];
      w.high[i] = pads[i + axes];
    }
  } else if (mode == "SAME_UPPER" || mode == "SAME_LOWER") {
    Pads pads = pads_of(Padding::same, lengths, dilated(kernel, w.dilations, "onnx"), w.strides, "onnx");
    if (mode == "SAME_LOWER") std::swap(pads.low, pads.high);
    w.low = pads.low;
    w.high = pads.high;
  } else if (mode != "VALID") {
    n.refuse("there is no auto_pad '{}'", mode);
  }
  return w;
}

Tensor onnx_conv(const NodeCall& n, const Tensor& x, const Tensor& w) {
  const OnnxWindows windows = onnx_windows(n, x.shape(), spatial(w.shape()));
  return conv(x, w,
              {.stride = windows.strides,
               .padding = windows.padding(),
               .dilation = windows.dilations,
               .groups = n.integer("group", 1)});
}

namespace {

Tensor convolved(const NodeCall& n) {
  const Tensor y = onnx_conv(n, n(0), n(1));
  return n.has(2) ? y + per_channel(n(2), y.rank()) : y;
}

Tensor convolved_transpose(const NodeCall& n) {
  const Tensor &x = n(0), &w = n(1);
  const Shape kernel = spatial(w.shape()), lengths = spatial(x.shape());
  const std::size_t axes = kernel.size();
  const Shape strides = onnx_per_axis(n, "strides", axes, 1), dilations = onnx_per_axis(n, "dilations", axes, 1),
              beyond = onnx_per_axis(n, "output_padding", axes, 0);
  const std::string mode = n.text("auto_pad", "NOTSET");
  const auto wanted = n.integers("output_shape");
  Shape low(std::vector<Index>(axes, 0)), high = low;
  for (std::size_t i = 0; i < axes; ++i) {
    const Index full = strides[i] * (lengths[i] - 1) + beyond[i] + (kernel[i] - 1) * dilations[i] + 1;
    if (wanted || mode.starts_with("SAME")) {
      if (wanted && wanted->size() != axes)
        fail<ShapeError>("output_shape has {} lengths for {}", wanted->size(), axes);
      const Index pads = full - (wanted ? (*wanted)[i] : lengths[i] * strides[i]);
      const Index half = pads >> 1;  // rounded down: the result may also be longer
      low[i] = mode == "SAME_UPPER" ? half : pads - half;
      high[i] = pads - low[i];
    } else if (mode != "VALID") {
      const Shape pads = onnx_per_axis(n, "pads", 2 * axes, 0);
      low[i] = pads[i];
      high[i] = pads[i + axes];
    }
    high[i] -= beyond[i];  // more elements at the end, as many as strides allow and more
  }
  const Tensor y = conv_transpose(
      x, w, {.stride = strides, .padding = Padding(low, high), .dilation = dilations, .groups = n.integer("group", 1)});
  return n.has(2) ? y + per_channel(n(2), y.rank()) : y;
}

// A depthwise convolution along time, of the elements so far: `state` holds those before.
OnnxValues causal_conv(const NodeCall& n) {
  const Tensor &x = n(0), &w = n(1);
  if (x.rank() != 3 || w.rank() != 3)
    fail<ShapeError>("input and weight must have rank 3, not {} and {}", x.shape(), w.shape());
  const Index before = w.shape(2) - 1;
  const Tensor state = n.has(3) ? n(3) : zeros({x.shape(0), x.shape(1), before}, x.dtype());
  const Tensor all = concat({state, x}, 2);
  Tensor y = conv(all, w, {.groups = x.shape(1)});
  if (n.has(2)) y = y + per_channel(n(2), 3);
  const std::string activation = n.text("activation", "none");
  if (activation == "silu" || activation == "swish") y = silu(y);
  else if (activation != "none") n.refuse("there is no activation '{}'", activation);
  return results({y, all(ellipsis, slice(all.shape(2) - before, none))});
}

// Each window of x samples at positions with offsets, and is multiplied by w.
Tensor deformed_conv(const NodeCall& n) {
  const Tensor &x = n(0), &w = n(1), &offset = n(2);
  if (x.rank() != 4) n.refuse("it is supported for images [batch, channels, height, width], not {}", x.shape());
  const Index batch = x.shape(0), channels = x.shape(1), height = x.shape(2), width = x.shape(3), out = w.shape(0),
              kh = w.shape(2), kw = w.shape(3), oh = offset.shape(2), ow = offset.shape(3),
              groups = n.integer("group", 1), offsets = n.integer("offset_group", 1);
  const OnnxWindows windows = onnx_windows(n, x.shape(), Shape{kh, kw});
  const Dtype dtype = x.dtype();
  if (offsets < 1 || channels % offsets != 0 || groups < 1 || channels % groups != 0 || out % groups != 0)
    fail<ShapeError>("{} channels do not divide into {} groups and {} groups of offsets", channels, groups, offsets);
  // The positions [batch, offsets, kh, kw, oh, ow] along each axis, in units of grid_sample.
  const auto positions = [&](int axis, Index out_length, Index k, Index length) {
    const auto i = static_cast<std::size_t>(axis);
    const Tensor start = arange(0, out_length, 1, dtype) * windows.strides[i] - windows.low[i];
    const Tensor step = arange(0, k, 1, dtype) * windows.dilations[i];
    const Tensor o = reshape(offset, {batch, offsets, kh, kw, 2, oh, ow})(slice(), slice(), slice(), slice(), axis);
    const Tensor p = o + (axis == 0 ? reshape(start, {oh, 1}) + reshape(step, {kh, 1, 1, 1})
                                    : reshape(start, {1, ow}) + reshape(step, {kw, 1, 1}));
    return length > 1 ? p / (static_cast<double>(length - 1) / 2) - 1 : p;
  };
  const Tensor grid = reshape(stack({positions(1, ow, kw, width), positions(0, oh, kh, height)}, -1),
                              {batch * offsets, kh * kw * oh, ow, 2});
  Tensor samples =
      grid_sample(reshape(x, {batch * offsets, channels / offsets, height, width}), grid, {.align_corners = true});
  samples = reshape(samples, {batch, offsets, channels / offsets, kh * kw, oh, ow});
  if (n.has(4)) samples = samples * reshape(n(4), {batch, offsets, 1, kh * kw, oh, ow});
  samples = reshape(samples, {batch, groups, channels / groups * kh * kw, oh * ow});
  const Tensor y =
      reshape(matmul(reshape(w, {groups, out / groups, channels / groups * kh * kw}), samples), {batch, out, oh, ow});
  return n.has(3) ? y + per_channel(n(3), 4) : y;
}

Tensor columns_to_image(const NodeCall& n) {
  const Tensor& columns = n(0);
  const std::vector<Index> image = n.integers(1), block = n.integers(2);
  const std::size_t axes = image.size();
  const Shape pads = onnx_per_axis(n, "pads", 2 * axes, 0);
  // The image with its padding, which is cut off afterwards.
  Shape padded(image);
  for (std::size_t i = 0; i < axes; ++i) padded[i] += pads[i] + pads[i + axes];
  Tensor y = fold(columns, padded, Shape(block),
                  {.stride = onnx_per_axis(n, "strides", axes, 1), .dilation = onnx_per_axis(n, "dilations", axes, 1)});
  std::vector<std::pair<Index, Index>> widths(static_cast<std::size_t>(y.rank()));
  for (std::size_t i = 0; i < axes; ++i) widths[i + 2] = {-pads[i], -pads[i + axes]};
  return pad(y, widths);
}

constexpr OnnxOperator convolution_rows[] = {
    {"CausalConvWithState", 27, causal_conv},  {"Col2Im", 18, columns_to_image},  {"Conv", 1, convolved},
    {"ConvTranspose", 1, convolved_transpose}, {"DeformConv", 19, deformed_conv},
};

}  // namespace

std::span<const OnnxOperator> onnx_convolution() { return convolution_rows; }

}  // namespace stave_detail
