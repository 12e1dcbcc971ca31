// Floats at which functions are tested: special cases, moderate values, and values of any exponent.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

namespace stave_test {

/// Floats at which functions have special cases.
template <class T>
std::vector<T> special_values() {
  using L = std::numeric_limits<T>;
  std::vector<T> x;
  for (T v : {T(0),
              L::denorm_min(),
              L::min() / 2,
              L::min(),
              L::epsilon(),
              T(1e-10),
              T(0.5),
              T(0.999999),
              T(1),
              T(1.000001),
              T(1.5),
              T(2),
              T(2.5),
              T(3),
              T(8.5),
              T(20),
              T(87),
              T(88.5),
              T(88.72),
              T(88.7228),
              T(89),
              T(103.9),
              T(104),
              T(126),
              T(700),
              T(709.5),
              T(709.7827),
              T(709.78271289),
              T(710),
              T(745),
              T(1e5),
              T(1e7),
              T(0x1p22) + T(0.5),
              T(1e14),
              T(1e20),
              T(1e30),
              L::max() / 16,
              L::max() / 2,
              L::max(),
              L::infinity(),
              L::quiet_NaN()})
    x.insert(x.end(), {v, -v, std::nextafter(v, T(0)), std::nextafter(v, L::infinity())});
  return x;
}

/// `count` floats in [low, high] and, if `everywhere`, also the special values and `count` floats
/// of any exponent.
template <class T>
std::vector<T> sampled(std::mt19937_64& random, double low, double high, int count, bool everywhere) {
  std::vector<T> x;
  if (everywhere) x = special_values<T>();
  std::uniform_real_distribution<double> moderate(low, high);
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  for (int i = 0; i < count; ++i) {
    x.push_back(static_cast<T>(moderate(random)));
    if (!everywhere) continue;
    const auto bits = static_cast<Bits>(random());
    T any;
    std::memcpy(&any, &bits, sizeof any);
    x.push_back(any);
  }
  return x;
}

}  // namespace stave_test
