// Rounding of results, as a reference for all dtypes.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include <stave/core/tensor/dtype.h>

#include "float_shape.h"

namespace stave_test {

template <class T>
constexpr FloatShape shape_of = float_shape(stave::dtype_of<T>());
template <class T>
const double epsilon = epsilon_of(stave::dtype_of<T>());

/// x rounded to T.
template <class T>
T rounded(long double x) {
  if constexpr (std::is_integral_v<T>) return static_cast<T>(x);
  else return T(static_cast<stave::Computed<T>>(nearest(x, shape_of<T>)));
}

/// Returns true if a and b have the same bits, or if both are NaN.
template <class T>
bool same(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return std::memcmp(&a, &b, sizeof a) == 0;
  } else {
    const auto x = static_cast<stave::Computed<T>>(a), y = static_cast<stave::Computed<T>>(b);
    return x == y ? std::signbit(x) == std::signbit(y) : x != x && y != y;
  }
}

/// Like `same`, but if `ulps` is not 0, finite floats may differ by that many ulp of b
/// or of `terms`, whichever is larger. `terms` is the size of the terms whose difference b is.
template <class T>
bool close(T a, T b, double ulps, double terms) {
  if constexpr (!std::is_integral_v<T>) {
    const auto x = static_cast<double>(a), y = static_cast<double>(b);
    const double least = std::ldexp(epsilon<T>, shape_of<T>.least);
    if (ulps != 0 && std::isfinite(x) && std::isfinite(y))
      return std::abs(x - y) <= ulps * std::max(epsilon<T> * std::max(std::abs(y), terms), least);
  }
  return same(a, b);
}

}  // namespace stave_test
