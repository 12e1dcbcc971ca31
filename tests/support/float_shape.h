// The numbers of floating dtypes, and rounding to them: a reference by arithmetic, which uses none
// of the library's conversions.
#pragma once

#include <algorithm>
#include <cmath>

#include <stave/core/tensor/dtype.h>

namespace stave_test {

/// A floating dtype: its significant bits, the exponent of its least normal number, and the
/// exponent of the first power of 2 that is too large.
struct FloatShape {
  int digits, least, end;
};
constexpr FloatShape float_shape(stave::Dtype dtype) {
  switch (dtype) {
    case stave::float64: return {53, -1022, 1024};
    case stave::float32: return {24, -126, 128};
    case stave::float16: return {11, -14, 16};
    default: return {8, -126, 128};  // bfloat16
  }
}

/// Returns the distance from 1 to the next number; 0 for integers.
inline double epsilon_of(stave::Dtype dtype) {
  return is_float(dtype) ? std::ldexp(1., 1 - float_shape(dtype).digits) : 0;
}

/// Returns the nearest number of such a dtype, where ties round to even.
inline long double nearest(long double value, const FloatShape& shape) {
  if (!std::isfinite(value) || value == 0) return value;
  const int last = std::max(std::ilogb(value), shape.least) - (shape.digits - 1);
  const long double result = std::ldexp(std::nearbyint(std::ldexp(value, -last)), last);
  return std::abs(result) >= std::ldexp(1.0L, shape.end) ? std::copysign(HUGE_VALL, value) : result;
}

}  // namespace stave_test
