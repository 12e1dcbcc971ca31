// unit_of: a divisor of values whose squares would otherwise overflow or underflow. For the .cpp
// files of core/ops.
#pragma once

#include <stave/core/tensor/tensor.h>

namespace stave_detail {

using namespace stave;

/// Returns a power of two near the largest |x| over the axes, which stay with length 1.
/// It is at least a power of two near `least`, and large enough to have a reciprocal.
/// It is 1 where the largest |x| is infinite or NaN. If `least` is 0, it is also 1 where the
/// largest |x| is 0.
///
/// Division by this unit is exact, except for denormal results. The unit has no derivative: a
/// result that is computed from x / unit and multiplied by the unit does not depend on the unit.
Tensor unit_of(const Tensor& x, const Shape& axes, double least = 0);

}  // namespace stave_detail
