// The attributes of operators with windows: convolutions and pooling.
#pragma once

#include <stave/core/ops/convolution.h>
#include <stave/handlers/onnx/node.h>

namespace stave_detail {

struct OnnxWindows {
  Shape kernel, strides, dilations, low, high;  // for each spatial axis

  Padding padding() const { return {low, high}; }
};

/// Reads the attributes of a node whose windows of lengths `kernel` move over the axes of x after
/// the second. auto_pad becomes padding.
OnnxWindows onnx_windows(const NodeCall& n, const Shape& x, const Shape& kernel);
/// The attribute kernel_shape, or `otherwise`.
Shape onnx_kernel(const NodeCall& n, const Shape& otherwise);
/// A list of integers for each of `axes` axes.
Shape onnx_per_axis(const NodeCall& n, std::string_view name, std::size_t axes, Index otherwise);
/// A vector [channels] with axes of length 1 after it, to be combined with [batch, channels, ...].
Tensor per_channel(const Tensor& x, int rank);
/// The convolution of x and w with the node's attributes.
Tensor onnx_conv(const NodeCall& n, const Tensor& x, const Tensor& w);

}  // namespace stave_detail
