// Pooling: sums, means and maxima of windows, each channel by itself.
//
//   max_pool(x, {3, 3}, {.stride = 2, .padding = 1})    of x [batch..., channels, lengths...]
//   avg_pool(x, 2)                                      every axis but the first two, in steps of 2
//
// A list of windows says how many spatial axes there are, the last ones; of one number they are all but batch and channels. What
// stands before them is pooled one by one. Windows stand `stride` apart, or side by side.
#pragma once

#include <stave/core/ops/convolution.h>

namespace stave {

struct PoolOptions {
  [[no_unique_address]] ByName by_name{};
  PerAxis stride = {};  // none: the window
  Padding padding = 0;
  PerAxis dilation = 1;
  bool channels_last = false;  // x is [batch..., lengths..., channels]
};
/// The sum of each window; dtypes as those of sum. A convolution with ones. Throws ShapeError where the window does not fit.
Tensor sum_pool(const Tensor& x, const PerAxis& window, const PoolOptions& options = {});

struct AvgPoolOptions {
  [[no_unique_address]] ByName by_name{};
  PerAxis stride = {};  // none: the window
  Padding padding = 0;
  PerAxis dilation = 1;
  bool count_include_pad = true;  // else: the mean of x's own elements
  bool channels_last = false;
};
/// The mean of each window, in floats. Throws ShapeError where the window does not fit, or has nothing of x to count.
Tensor avg_pool(const Tensor& x, const PerAxis& window, const AvgPoolOptions& options = {});

/// Where the largest element of each window stands: its position in the spatial axes of x, counted in row-major order. int32, or
/// int64 where that does not hold them all. NaN is the largest; of equal ones the first. Zero derivative. Padding is never chosen:
/// throws ShapeError where the window does not fit, or has nothing of x to choose from.
Tensor argmax_pool(const Tensor& x, const PerAxis& window, const PoolOptions& options = {});
/// What stands there. So the derivative goes to the first of equal ones, where max shares it: windows overlap, and it is what
/// networks were trained with. (torch.nn.functional.max_pool2d; derivatives of any order by gather and scatter_add)
Tensor max_pool(const Tensor& x, const PerAxis& window, const PoolOptions& options = {});

}  // namespace stave
