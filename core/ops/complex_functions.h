// Functions of complex numbers that the kernels of all backends share. complex64 is computed in
// double precision and rounded once.
//
// A function with the parameter type Z is composed of exp, log, pow and sqrt of Z, which are found
// by ADL: std::complex<double> on the CPU, stave_cuda::ComplexDouble on a device. The arithmetic of
// Z follows Annex G of C99, so a product or quotient with an infinite operand is infinite.
#pragma once

#include <cmath>
#include <limits>

#include <stave/core/ops/elementwise_ops.h>
#include <stave/core/tensor/complex.h>

namespace stave_detail {

// ---- real numbers -------------------------------------------------------------------------------

template <class T>
STAVE_HOST_DEVICE constexpr bool is_infinite_number(T x) {
  return x == std::numeric_limits<T>::infinity() || x == -std::numeric_limits<T>::infinity();
}
template <class T>
STAVE_HOST_DEVICE constexpr bool is_finite_number(T x) {
  return x - x == 0;
}

/// Returns x^2 + 2x + y^2, which is |z|^2 - 1 for z = 1 + x + iy. It is accurate also where the
/// terms cancel: products and sums are exact pairs of doubles.
STAVE_HOST_DEVICE inline double squared_radius_minus_one(double x, double y) {
  const double square = x * x, square_rest = std::fma(x, x, -square);
  const double other = y * y, other_rest = std::fma(y, y, -other);
  const auto sum = [](double a, double b, double& rest) {
    const double total = a + b, added = total - a;
    rest += (a - (total - added)) + (b - added);
    return total;
  };
  double rest = square_rest + other_rest;
  const double pair = sum(square, other, rest);
  return sum(2 * x, pair, rest) + rest;
}

// ---- functions in double ------------------------------------------------------------------------

template <class Z>
STAVE_HOST_DEVICE Z complex_log1p(Z z) {
  const double x = z.real(), y = z.imag();
  if (!(std::abs(x) < 1 && std::abs(y) < 1)) return log(1.0 + z);
  return Z(0.5 * std::log1p(squared_radius_minus_one(x, y)), std::atan2(y, 1 + x));
}

/// The real part is expm1(x) cos(y) - 2 sin(y / 2)^2.
template <class Z>
STAVE_HOST_DEVICE Z complex_expm1(Z z) {
  const double x = z.real(), y = z.imag();
  if (!is_finite_number(x) || !is_finite_number(y)) return exp(z) - 1.0;
  if (y == 0) return Z(std::expm1(x), y);
  const double half = std::sin(y / 2);
  return Z(std::expm1(x) * std::cos(y) - 2 * half * half, std::exp(x) * std::sin(y));
}

template <class Z>
STAVE_HOST_DEVICE Z complex_exp2(Z z) {
  // The sum of these two is log(2).
  constexpr double log_2 = 0.6931471805599453, log_2_rest = 2.3190468138462996e-17;
  const double x = z.real(), y = z.imag();
  if (!is_finite_number(x) || !is_finite_number(y)) return exp(Z(x, y * log_2));
  if (y == 0) return Z(std::exp2(x), y);
  const double angle = y * log_2, rest = std::fma(y, log_2, -angle) + y * log_2_rest;
  const double c = std::cos(angle), s = std::sin(angle);
  const double root = std::exp2(x / 2);  // multiplied twice: 2^x may overflow although a part of
                                         // the result does not
  return root * (root * Z(c - rest * s, s + rest * c));
}

template <class Z>
STAVE_HOST_DEVICE Z complex_log2(Z z) {
  const Z natural = log(z);
  return Z(natural.real() * 1.4426950408889634, natural.imag() * 1.4426950408889634);
}
template <class Z>
STAVE_HOST_DEVICE Z complex_log10(Z z) {
  const Z natural = log(z);
  return Z(natural.real() * 0.4342944819032518, natural.imag() * 0.4342944819032518);
}

// The next three functions use an exponential that does not overflow.

/// 1 / (1 + e^-z)
template <class Z>
STAVE_HOST_DEVICE Z complex_sigmoid(Z z) {
  if (z.real() >= 0) return 1.0 / (1.0 + exp(-z));
  const Z e = exp(z);
  return e / (1.0 + e);
}
template <class Z>
STAVE_HOST_DEVICE Z complex_logistic_density(Z z) {
  const Z e = exp(z.real() >= 0 ? -z : z), sum = 1.0 + e;
  return e / (sum * sum);
}
template <class Z>
STAVE_HOST_DEVICE Z complex_sech_squared(Z z) {
  const Z e = exp(z.real() >= 0 ? -2.0 * z : 2.0 * z), sum = 1.0 + e;
  return 4.0 * (e / (sum * sum));
}

/// Small integer powers are products, as in NumPy: they are exact where the products are.
template <class Z>
STAVE_HOST_DEVICE Z complex_pow(Z a, Z b) {
  const auto is_zero = [](Z z) { return z.real() == 0 && z.imag() == 0; };
  if (is_zero(b)) return Z(1, 0);
  if (is_zero(a)) {
    if (b.real() > 0) return Z(0, 0);
    constexpr double nan = std::numeric_limits<double>::quiet_NaN();
    return Z(nan, nan);
  }
  constexpr double most = 100;
  if (b.imag() == 0 && std::abs(b.real()) <= most && b.real() == std::trunc(b.real())) {
    Z power(1, 0), factor = a;
    for (int n = static_cast<int>(std::abs(b.real())); n > 0; n /= 2) {
      if (n % 2) power = power * factor;
      if (n > 1) factor = factor * factor;
    }
    return b.real() < 0 ? 1.0 / power : power;
  }
  return pow(a, b);
}
/// b a^(b - 1), and 0 for b = 0
template <class Z>
STAVE_HOST_DEVICE Z complex_power_rule(Z a, Z b) {
  if (b.real() == 0 && b.imag() == 0) return Z(0, 0);
  return b * complex_pow(a, b - 1.0);
}

// ---- arithmetic of elements ---------------------------------------------------------------------

template <class T>
STAVE_HOST_DEVICE bool is_zero(stave::ComplexElement<T> z) {
  return z.re == 0 && z.im == 0;
}
template <class T>
STAVE_HOST_DEVICE bool is_infinite(stave::ComplexElement<T> z) {
  return is_infinite_number(z.re) || is_infinite_number(z.im);
}
template <class T>
STAVE_HOST_DEVICE bool is_finite(stave::ComplexElement<T> z) {
  return is_finite_number(z.re) && is_finite_number(z.im);
}
/// Infinite parts become 1 or -1, and finite ones become 0.
template <class T>
STAVE_HOST_DEVICE stave::ComplexElement<T> direction_of_infinite(stave::ComplexElement<T> z) {
  return {std::copysign(T(is_infinite_number(z.re)), z.re), std::copysign(T(is_infinite_number(z.im)), z.im)};
}

/// Returns a / b by Smith's method ("Algorithm 116: Complex division", 1962), which neither
/// overflows nor underflows in the squares of the parts. As in Annex G of C99, a number divided by
/// 0 is infinite, and so is an infinite number divided by a finite one; a finite number divided by
/// an infinite one is 0.
template <class T>
STAVE_HOST_DEVICE stave::ComplexElement<T> divided(stave::ComplexElement<T> a, stave::ComplexElement<T> b) {
  if (is_infinite(b) && is_finite(a)) {
    const stave::ComplexElement<T> d = direction_of_infinite(b);
    return {T(0) * (a.re * d.re + a.im * d.im), T(0) * (a.im * d.re - a.re * d.im)};
  }
  if (is_infinite(a) && is_finite(b) && !is_zero(b)) {
    const stave::ComplexElement<T> d = direction_of_infinite(a);
    const T infinity = std::numeric_limits<T>::infinity();
    return {infinity * (d.re * b.re + d.im * b.im), infinity * (d.im * b.re - d.re * b.im)};
  }
  if (std::abs(b.re) >= std::abs(b.im)) {
    if (b.re == 0) return {a.re / std::abs(b.re), a.im / std::abs(b.re)};
    const T ratio = b.im / b.re, whole = b.re + b.im * ratio;
    return {(a.re + a.im * ratio) / whole, (a.im - a.re * ratio) / whole};
  }
  const T ratio = b.re / b.im, whole = b.re * ratio + b.im;
  return {(a.re * ratio + a.im) / whole, (a.im * ratio - a.re) / whole};
}
/// a b, and 0 if a or b is 0, also for infinities and NaN
template <class T>
STAVE_HOST_DEVICE stave::ComplexElement<T> scaled(stave::ComplexElement<T> a, stave::ComplexElement<T> b) {
  return is_zero(a) || is_zero(b) ? stave::ComplexElement<T>(0, 0) : a * b;
}
/// a / b, and 0 if a is 0 or b is infinite
template <class T>
STAVE_HOST_DEVICE stave::ComplexElement<T> scaled_by_inverse(stave::ComplexElement<T> a, stave::ComplexElement<T> b) {
  return is_zero(a) || is_infinite(b) ? stave::ComplexElement<T>(0, 0) : divided(a, b);
}

}  // namespace stave_detail
