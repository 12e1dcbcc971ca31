// A unit in which squares neither overflow nor vanish. For the .cpp files of core/ops.
#pragma once

#include <stave/core/tensor/tensor.h>

namespace stave_detail {

using namespace stave;

/// A power of two near the largest |x| over the axes, which stay with length 1: no less than one
/// near `least`, nor than what has a reciprocal; 1 where the largest is infinite or NaN, and, if
/// `least` is 0, where it is 0. Quotients by it are exact, but for what is denormal. It has no
/// derivative: what is computed in units of it and multiplied by it again is the same in every
/// unit.
Tensor unit_of(const Tensor& x, const Shape& axes, double least = 0);

}  // namespace stave_detail
