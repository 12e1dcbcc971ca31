// The rounding of results, as a reference for all dtypes.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include <stave/core/dtype.h>

namespace stave_test {

/// What a float type can hold: significant bits, and the exponents of its smallest and largest normal numbers.
template <class T>
struct FloatFormat {
  static constexpr int digits = std::numeric_limits<T>::digits, least = std::numeric_limits<T>::min_exponent - 1,
                       greatest = std::numeric_limits<T>::max_exponent - 1;
};
template <>
struct FloatFormat<stave::Float16> {
  static constexpr int digits = 11, least = -14, greatest = 15;
};
template <>
struct FloatFormat<stave::BFloat16> {
  static constexpr int digits = 8, least = -126, greatest = 127;
};

template <class T>
const double epsilon_of = std::ldexp(1., 1 - FloatFormat<T>::digits);

/// x as a T: the nearest, from the middle the even one. Of 16 bits by arithmetic, without a look at how they convert.
template <class T>
T rounded(long double x) {
  using Format = FloatFormat<T>;
  if constexpr (!stave::is_half<T>) {
    return static_cast<T>(x);
  } else {
    if (std::isfinite(x) && x != 0) {
      const int exponent = std::max(std::ilogb(x), Format::least);
      const long double unit = std::ldexp(1.0L, exponent - Format::digits + 1);
      x = std::nearbyint(x / unit) * unit;
      if (std::abs(x) >= std::ldexp(1.0L, Format::greatest + 1)) x = std::copysign(HUGE_VALL, x);
    }
    return T(static_cast<float>(x));
  }
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
