// Pooling: sums, means and maxima of windows, for each channel by itself.
//
//   max_pool(x, {3, 3}, {.stride = 2, .padding = 1})    of x [batch..., channels, lengths...]
//   avg_pool(x, 2)                                      every axis but the first two, in steps of 2
//
// The spatial axes are the last ones. Their number is the length of the list of windows; if the
// window is a single number, all axes but the batch and the channels are spatial. All axes before
// the spatial ones are pooled independently. Windows are `stride` apart, by default side by side.
#pragma once

#include <optional>

#include <stave/core/ops/convolution.h>

namespace stave {

struct PoolOptions {
  [[no_unique_address]] ByName by_name{};
  PerAxis stride = {};  // empty: the lengths of the window
  Padding padding = 0;
  PerAxis dilation = 1;
  bool channels_last = false;  // whether x is [batch..., lengths..., channels]
  // Whether the last window may extend beyond the padded x, so that the number of windows is
  // rounded up. It must begin within x or the padding before x. What lies beyond counts as padding.
  bool ceil_mode = false;
};
/// The sum of each window, with the dtypes of sum. It is computed as a convolution with ones.
/// Throws ShapeError if the window does not fit.
Tensor sum_pool(const Tensor& x, const PerAxis& window, const PoolOptions& options = {});

struct AvgPoolOptions {
  [[no_unique_address]] ByName by_name{};
  PerAxis stride = {};  // empty: the lengths of the window
  Padding padding = 0;
  PerAxis dilation = 1;
  bool count_include_pad = true;  // if false, elements of the padding do not count for the mean
  bool channels_last = false;
  bool ceil_mode = false;  // as in PoolOptions; elements beyond the padding never count
  // The divisor of sums; the default is the number of elements.
  std::optional<double> divisor_override{};
};
/// The mean of each window, in floats. Throws ShapeError if the window does not fit,
/// or if it contains no element of x that could be counted.
Tensor avg_pool(const Tensor& x, const PerAxis& window, const AvgPoolOptions& options = {});

/// The position of the largest element of each window, in the spatial axes of x,
/// counted in row-major order. It is int32, or int64 where int32 does not hold all positions.
/// NaN is the largest, and of equal elements the first is chosen. The derivative is 0. Padding is
/// never chosen: throws ShapeError if the window does not fit or contains no element of x.
Tensor argmax_pool(const Tensor& x, const PerAxis& window, const PoolOptions& options = {});
/// The largest element of each window: the element at the position that argmax_pool returns.
/// So the derivative goes to the first of equal elements, while `max` shares it among them. The
/// reasons are that windows overlap, and that networks were trained with this derivative. This is
/// torch.nn.functional.max_pool2d. Derivatives of any order are computed by gather and scatter_add.
Tensor max_pool(const Tensor& x, const PerAxis& window, const PoolOptions& options = {});

/// The means (largest elements) of windows that divide x [batch..., channels, lengths...] into
/// `lengths` parts: part i of m along an axis of length n has the elements floor(i n / m), ...,
/// ceil((i + 1) n / m) - 1. Where m does not divide n, some neighbouring parts overlap. There are
/// as many spatial axes as lengths; a length of -1 keeps that of x. This is PyTorch's
/// adaptive_avg_pool2d (adaptive_max_pool2d). Derivatives of the largest element are those of
/// max_pool. Throws ShapeError for empty axes and for lengths that are not positive.
Tensor adaptive_avg_pool(const Tensor& x, const Shape& lengths);
Tensor adaptive_max_pool(const Tensor& x, const Shape& lengths);

}  // namespace stave
