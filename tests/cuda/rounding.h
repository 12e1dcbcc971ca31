// The rounding of results, as a reference for all dtypes.
#pragma once

#include <cmath>
#include <cstring>
#include <type_traits>

#include <stave/core/dtype.h>

#include "float_shape.h"

namespace stave_test {

template <class T>
constexpr FloatShape shape_of = float_shape(stave::dtype_of<T>());
template <class T>
const double epsilon = epsilon_of(stave::dtype_of<T>());

/// x as a T.
template <class T>
T rounded(long double x) {
  if constexpr (std::is_integral_v<T>) return static_cast<T>(x);
  else return T(static_cast<stave::Computed<T>>(nearest(x, shape_of<T>)));
}

/// Bit for bit, or both NaN.
template <class T>
bool same(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return std::memcmp(&a, &b, sizeof a) == 0;
  } else {
    const auto x = static_cast<stave::Computed<T>>(a), y = static_cast<stave::Computed<T>>(b);
    return x == y ? std::signbit(x) == std::signbit(y) : x != x && y != y;
  }
}

}  // namespace stave_test
