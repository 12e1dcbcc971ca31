// The rounding of results, as a reference for all dtypes.
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

/// Whether they are the same; floats, if `ulps` is not 0, within so many, of terms of what size they are a difference of.
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
