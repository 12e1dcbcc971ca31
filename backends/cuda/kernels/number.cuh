// The numbers of matrices: float, double, and complex numbers of these. With the functions of this
// file, one source computes with real and with complex matrices.
#pragma once

#include <cmath>
#include <type_traits>

#include <stave/backends/cuda/host_device.h>
#include <stave/core/ops/complex_functions.h>
#include <stave/core/tensor/complex.h>

namespace stave_cuda {

using stave::ComplexElement;

/// The type of the real part of a number: the number's own type, if it is real.
template <class T>
struct RealPart {
  using Type = T;
};
template <class R>
struct RealPart<ComplexElement<R>> {
  using Type = R;
};
template <class T>
using RealOf = typename RealPart<T>::Type;
template <class T>
inline constexpr bool is_real = std::is_same_v<T, RealOf<T>>;

/// The number in double precision.
template <class T>
using WideOf = std::conditional_t<is_real<T>, double, ComplexElement<double>>;

// ---- arithmetic of complex numbers --------------------------------------------------------------

template <class R>
STAVE_BOTH ComplexElement<R> operator*(ComplexElement<R> z, std::type_identity_t<R> factor) {
  return {z.re * factor, z.im * factor};
}
template <class R>
STAVE_BOTH ComplexElement<R> operator/(ComplexElement<R> z, std::type_identity_t<R> divisor) {
  return {z.re / divisor, z.im / divisor};
}
template <class R>
STAVE_BOTH ComplexElement<R> operator/(ComplexElement<R> a, ComplexElement<R> b) {
  return stave_detail::divided(a, b);
}
template <class R>
STAVE_BOTH ComplexElement<R>& operator+=(ComplexElement<R>& a, ComplexElement<R> b) {
  return a = a + b;
}
template <class R>
STAVE_BOTH ComplexElement<R>& operator-=(ComplexElement<R>& a, ComplexElement<R> b) {
  return a = a - b;
}
template <class R>
STAVE_BOTH ComplexElement<R>& operator*=(ComplexElement<R>& z, std::type_identity_t<R> factor) {
  return z = z * factor;
}

// ---- functions of real numbers ------------------------------------------------------------------

STAVE_BOTH inline float root(float x) { return ::sqrtf(x); }
STAVE_BOTH inline double root(double x) { return ::sqrt(x); }
STAVE_BOTH inline float length_of(float x, float y) { return ::hypotf(x, y); }
STAVE_BOTH inline double length_of(double x, double y) { return ::hypot(x, y); }

// ---- functions of both --------------------------------------------------------------------------

STAVE_BOTH inline float conjugate(float x) { return x; }
STAVE_BOTH inline double conjugate(double x) { return x; }
template <class R>
STAVE_BOTH ComplexElement<R> conjugate(ComplexElement<R> z) {
  return {z.re, -z.im};
}

STAVE_BOTH inline float real_part(float x) { return x; }
STAVE_BOTH inline double real_part(double x) { return x; }
template <class R>
STAVE_BOTH R real_part(ComplexElement<R> z) {
  return z.re;
}
STAVE_BOTH inline float imaginary_part(float) { return 0; }
STAVE_BOTH inline double imaginary_part(double) { return 0; }
template <class R>
STAVE_BOTH R imaginary_part(ComplexElement<R> z) {
  return z.im;
}

/// Returns the absolute value.
STAVE_BOTH inline float size(float x) { return ::fabsf(x); }
STAVE_BOTH inline double size(double x) { return ::fabs(x); }
template <class R>
STAVE_BOTH R size(ComplexElement<R> z) {
  return length_of(z.re, z.im);
}
/// Returns the square of the absolute value.
STAVE_BOTH inline float squared_size(float x) { return x * x; }
STAVE_BOTH inline double squared_size(double x) { return x * x; }
template <class R>
STAVE_BOTH R squared_size(ComplexElement<R> z) {
  return z.re * z.re + z.im * z.im;
}
/// Returns the sum of the absolute values of the parts, by which LAPACK chooses pivots.
template <class T>
STAVE_BOTH RealOf<T> sum_of_sizes(T x) {
  if constexpr (is_real<T>) return size(x);
  else return size(x.re) + size(x.im);
}
/// Returns the larger of the absolute values of the parts.
template <class T>
STAVE_BOTH RealOf<T> larger_size(T x) {
  if constexpr (is_real<T>) return size(x);
  else return size(x.re) > size(x.im) ? size(x.re) : size(x.im);
}
/// Returns 0 if the number is finite, and NaN otherwise.
template <class T>
STAVE_BOTH RealOf<T> times_zero(T x) {
  if constexpr (is_real<T>) return x * 0;
  else return x.re * 0 + x.im * 0;
}

STAVE_BOTH inline float by_power_of_two(float x, int n) { return ::ldexpf(x, n); }
STAVE_BOTH inline double by_power_of_two(double x, int n) { return ::ldexp(x, n); }
template <class R>
STAVE_BOTH ComplexElement<R> by_power_of_two(ComplexElement<R> z, int n) {
  return {by_power_of_two(z.re, n), by_power_of_two(z.im, n)};
}

template <class T>
STAVE_BOTH T not_a_number() {
  constexpr auto nan = static_cast<RealOf<T>>(NAN);
  if constexpr (is_real<T>) return nan;
  else return {nan, nan};
}

/// Returns (a + conj(b)) / 2, without overflow.
template <class T>
STAVE_BOTH T hermitian_mean(T a, T b) {
  return a * RealOf<T>(0.5) + conjugate(b) * RealOf<T>(0.5);
}

/// The parts of numbers in memory. A complex number has two, side by side.
template <class T>
inline constexpr int parts_per = is_real<T> ? 1 : 2;
template <class T>
STAVE_BOTH RealOf<T>* parts_of(T* x) {
  return reinterpret_cast<RealOf<T>*>(x);
}

template <class T>
STAVE_BOTH void exchange(T& a, T& b) {
  const T t = a;
  a = b;
  b = t;
}

}  // namespace stave_cuda
