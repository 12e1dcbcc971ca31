// Dual numbers: forward mode for any type of numbers, by one variable at a time.
#pragma once

#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

namespace gradbench_plain {

/// A number and its derivative by one variable.
template <class T>
struct Dual {
  T value = 0., slope = 0.;

  Dual() = default;
  Dual(const T& v, const T& s = 0.) : value(v), slope(s) {}  // NOLINT: implicit, as for double
  Dual& operator+=(const Dual& b) { return *this = *this + b; }
  Dual& operator-=(const Dual& b) { return *this = *this - b; }

  friend Dual operator-(const Dual& a) { return {-a.value, -a.slope}; }
  friend Dual operator+(const Dual& a, const Dual& b) { return {a.value + b.value, a.slope + b.slope}; }
  friend Dual operator-(const Dual& a, const Dual& b) { return {a.value - b.value, a.slope - b.slope}; }
  friend Dual operator*(const Dual& a, const Dual& b) {
    return {a.value * b.value, a.slope * b.value + a.value * b.slope};
  }
  friend Dual operator/(const Dual& a, const Dual& b) {
    return {a.value / b.value, (a.slope - a.value / b.value * b.slope) / b.value};
  }
  friend bool operator<(const Dual& a, const Dual& b) { return a.value < b.value; }
  friend bool operator>(const Dual& a, const Dual& b) { return a.value > b.value; }
  friend bool operator<=(const Dual& a, const Dual& b) { return a.value <= b.value; }

  friend Dual exp(const Dual& x) {
    using std::exp;
    return {exp(x.value), exp(x.value) * x.slope};
  }
  friend Dual log(const Dual& x) {
    using std::log;
    return {log(x.value), x.slope / x.value};
  }
  friend Dual sqrt(const Dual& x) {
    using std::sqrt;
    const T value = sqrt(x.value);
    return {value, x.slope / (2. * value)};
  }
  friend Dual sin(const Dual& x) {
    using std::cos, std::sin;
    return {sin(x.value), cos(x.value) * x.slope};
  }
  friend Dual cos(const Dual& x) {
    using std::cos, std::sin;
    return {cos(x.value), -sin(x.value) * x.slope};
  }
  friend Dual tanh(const Dual& x) {
    using std::tanh;
    const T value = tanh(x.value);
    return {value, (1. - value * value) * x.slope};
  }
};

}  // namespace gradbench_plain
