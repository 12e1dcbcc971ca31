// Where windows stand: what convolutions and pooling share. For the .cpp files of core/ops.
#pragma once

#include <stave/core/ops/convolution.h>

namespace stave_detail {

using namespace stave;

/// From the first element to the last one of so many, `dilation` apart. Throws ShapeError if no number holds that.
Index dilated(Index length, Index dilation, const char* function);
/// So many places has a window of `window` elements in `length`, `stride` apart.
constexpr Index places(Index length, Index window, Index stride) {
  return length < window ? 0 : (length - window) / stride + 1;
}

/// Zeros before and behind.
struct Pads {
  Shape low, high;
};
/// The padding of axes of these lengths, for windows of so many elements from first to last.
Pads pads_of(const Padding& padding, const Shape& lengths, const Shape& windows, const Shape& strides,
             const char* function);

/// Lengths, dilated.
Shape dilated(const Shape& lengths, const Shape& dilations, const char* function);

/// How many places windows have along each axis. Throws ShapeError if there is none.
Shape fitting_places(const Shape& lengths, const Shape& windows, const Shape& strides, const Pads& pads,
                     const char* function);

}  // namespace stave_detail
