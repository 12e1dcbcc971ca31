// Functions of images, and of signals with any number of spatial axes: resizing, sampling at
// computed positions, and windows as columns of a matrix. All are composed of other operations.
//
//   resize(x, {64, 64}, {.method = ResizeMethod::linear})    x [batch..., channels, lengths...]
//   grid_sample(x, grid)                                     grid [batch..., out..., axes]
//
// Sixteen-bit floats are computed in float32 and rounded once.
#pragma once

#include <vector>

#include <stave/core/ops/convolution.h>

namespace stave {

/// How elements between the positions of x are computed.
enum class ResizeMethod {
  nearest,        ///< the element at floor(position), as PyTorch's "nearest"
  nearest_exact,  ///< the element whose centre is nearest, as PyTorch's "nearest-exact"
  linear,         ///< linear along each axis: bilinear for images, trilinear for volumes
  cubic           ///< cubic convolution along each axis with a = -3/4 (Keys 1981): bicubic
};
struct ResizeOptions {
  [[no_unique_address]] ByName by_name{};
  ResizeMethod method = ResizeMethod::nearest;
  /// If true, the centres of the first and last elements keep their positions; if false, their
  /// outer edges do. Only linear and cubic use it.
  bool align_corners = false;
};
/// x resized to the given lengths of its last axes: PyTorch's interpolate with size=lengths. Beyond
/// its ends x continues with its first and last elements. The methods nearest and nearest_exact
/// keep the dtype; linear and cubic give floats. x is not smoothed where it shrinks: see
/// adaptive_avg_pool. Throws ShapeError for lengths that are not positive, and for empty axes.
Tensor resize(const Tensor& x, const Shape& lengths, ResizeOptions options = {});
/// x resized by a factor for each of its last axes: PyTorch's interpolate with
/// scale_factor=factors, which gives floor(length * factor) elements at distances of exactly 1 /
/// factor.
Tensor resize_by(const Tensor& x, const std::vector<double>& factors, ResizeOptions options = {});

/// The elements that grid_sample reads beyond the ends of x.
enum class GridPadding {
  zeros,      ///< zeros
  border,     ///< the nearest element
  reflection  ///< the elements in reverse order, again and again
};
struct GridSampleOptions {
  [[no_unique_address]] ByName by_name{};
  ResizeMethod method = ResizeMethod::linear;  ///< nearest means the nearest element, ties to even
  GridPadding padding = GridPadding::zeros;
  /// True: -1 and 1 are the centres of the first and last elements; false: their outer edges.
  bool align_corners = false;
};
/// x [batch..., channels, lengths...] at the positions grid [batch..., out..., axes]: the result is
/// [batch..., channels, out...]. A position is `axes` numbers in [-1, 1], the one along the last
/// axis first. This is PyTorch's grid_sample, with any number of spatial axes. Derivatives are
/// those with respect to x and grid; at a clamped position the derivative with respect to grid is
/// 0. Throws ShapeError if shapes do not fit.
Tensor grid_sample(const Tensor& x, const Tensor& grid, GridSampleOptions options = {});

struct UnfoldOptions {
  [[no_unique_address]] ByName by_name{};
  PerAxis stride = 1;
  PerAxis padding = 0;
  PerAxis dilation = 1;
};
/// The windows of x [batch..., channels, lengths...] as columns [batch..., channels * w, windows],
/// where w is the number of elements of a window: PyTorch's unfold, with one axis of lengths for
/// each entry of `window`. A single number means two axes. Throws ShapeError if the window does not
/// fit.
Tensor unfold(const Tensor& x, const PerAxis& window, UnfoldOptions options = {});
/// The transpose of unfold: windows [batch..., channels * w, windows] added up to an array
/// [batch..., channels, lengths...]. This is PyTorch's fold.
Tensor fold(const Tensor& columns, const Shape& lengths, const PerAxis& window, UnfoldOptions options = {});

}  // namespace stave
