// Positions of windows, for convolutions and pooling. For .cpp files of core/ops and handlers/onnx.
#pragma once

#include <stave/core/ops/convolution.h>

namespace stave_detail {

using namespace stave;

/// Returns the distance from the first to the last of `length` elements that are `dilation` apart,
/// plus 1. Throws ShapeError if the result is too large.
Index dilated(Index length, Index dilation, const char* function);
/// Returns how many positions, `stride` apart, a window of `window` elements has within `length`
/// elements.
constexpr Index places(Index length, Index window, Index stride) {
  return length < window ? 0 : (length - window) / stride + 1;
}

/// The numbers of elements of padding before (low) and after (high) each axis. Negative numbers
/// remove elements.
struct Pads {
  Shape low, high;
};
/// Returns the padding of axes with these lengths, for (dilated) windows with these lengths.
Pads pads_of(const Padding& padding, const Shape& lengths, const Shape& windows, const Shape& strides,
             const char* function);

/// Returns dilated(length, dilation, function) for each axis.
Shape dilated(const Shape& lengths, const Shape& dilations, const char* function);

/// Returns the number of positions of windows along each axis. Throws ShapeError if there is none.
Shape window_positions(const Shape& lengths, const Shape& windows, const Shape& strides, const Pads& pads,
                       const char* function);

}  // namespace stave_detail
