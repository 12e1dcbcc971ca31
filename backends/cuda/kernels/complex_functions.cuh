// The functions of complex numbers in double precision, which a device's standard library does not
// have. Their special values are those of Annex G of C99, and so those of the CPU's library.
//
// The functions come in pairs: with i conj(z) = y + ix, written swapped(z) here, sin z is
// swapped(sinh(swapped(z))), and so are tan, asin and atan of tanh, asinh and atanh.
#pragma once

#include <cmath>
#include <limits>

#include <stave/backends/cuda/host_device.h>
#include <stave/core/ops/complex_functions.h>

namespace stave_cuda {

/// The number type of the functions. Its products and quotients follow Annex G, whereas those of
/// ComplexElement are plain.
struct ComplexDouble {
  double re, im;
  STAVE_BOTH ComplexDouble(double re_, double im_) : re(re_), im(im_) {}
  template <class T>
  STAVE_BOTH explicit ComplexDouble(stave::ComplexElement<T> z) : re(z.re), im(z.im) {}
  STAVE_BOTH double real() const { return re; }
  STAVE_BOTH double imag() const { return im; }

  friend STAVE_BOTH ComplexDouble operator-(ComplexDouble a) { return {-a.re, -a.im}; }
  friend STAVE_BOTH ComplexDouble operator+(double a, ComplexDouble b) { return {a + b.re, b.im}; }
  friend STAVE_BOTH ComplexDouble operator-(ComplexDouble a, double b) { return {a.re - b, a.im}; }
  friend STAVE_BOTH ComplexDouble operator*(double a, ComplexDouble b) { return {a * b.re, a * b.im}; }
};

// Functions are not inlined: the time of a call is small compared to theirs, and copies in each
// kernel would dominate the compile time of device code.

namespace complex_parts {

using stave_detail::is_finite_number, stave_detail::is_infinite_number;
inline constexpr double infinity = std::numeric_limits<double>::infinity();
inline constexpr double nan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double epsilon = 0x1p-52;
inline constexpr double log_2 = 0.6931471805599453;
inline constexpr double half_pi = 1.5707963267948966, half_pi_rest = 6.123233995736766e-17;

STAVE_BOTH inline double larger(double a, double b) { return a > b ? a : b; }
STAVE_BOTH inline ComplexDouble swapped(ComplexDouble z) { return {z.im, z.re}; }
STAVE_BOTH inline bool has_nan(ComplexDouble z) { return z.re != z.re || z.im != z.im; }

/// Returns scale e^x (c, s), where e^x may be infinite though a part of the result is not.
STAVE_BOTH inline ComplexDouble exponential(double x, double c, double s, double scale) {
  constexpr double step = 709, factor = 0x1.d422d2be5dc9bp+1022;  // e^709
  for (int i = 0; i < 2 && x > step; ++i) {
    x -= step;
    c *= factor;
    s *= factor;
  }
  const double e = std::exp(x);
  return {e * (c * scale), e * (s * scale)};
}

}  // namespace complex_parts

// ---- arithmetic ---------------------------------------------------------------------------------

STAVE_BOTH STAVE_OUTLINE inline ComplexDouble operator/(ComplexDouble a, ComplexDouble b) {
  using Element = stave::ComplexElement<double>;
  return ComplexDouble(stave_detail::divided(Element(a.re, a.im), Element(b.re, b.im)));
}
STAVE_BOTH inline ComplexDouble operator/(double a, ComplexDouble b) { return ComplexDouble(a, 0) / b; }

/// Returns the product of numbers of which one is infinite, with the infinite operand as a
/// direction.
STAVE_BOTH STAVE_OUTLINE inline ComplexDouble infinite_product(ComplexDouble a, ComplexDouble b) {
  using namespace complex_parts;
  const auto boxed = [](ComplexDouble& z, ComplexDouble& other) {
    if (!is_infinite_number(z.re) && !is_infinite_number(z.im)) return;
    z = {std::copysign(is_infinite_number(z.re) ? 1. : 0., z.re),
         std::copysign(is_infinite_number(z.im) ? 1. : 0., z.im)};
    if (other.re != other.re) other.re = std::copysign(0., other.re);
    if (other.im != other.im) other.im = std::copysign(0., other.im);
  };
  boxed(a, b);
  boxed(b, a);
  return {infinity * (a.re * b.re - a.im * b.im), infinity * (a.re * b.im + a.im * b.re)};
}
STAVE_BOTH inline ComplexDouble operator*(ComplexDouble a, ComplexDouble b) {
  using stave_detail::is_infinite_number;
  const double re = a.re * b.re - a.im * b.im, im = a.re * b.im + a.im * b.re;
  const bool is_infinite =
      is_infinite_number(a.re) || is_infinite_number(a.im) || is_infinite_number(b.re) || is_infinite_number(b.im);
  if (re != re && im != im && is_infinite) return infinite_product(a, b);
  return {re, im};
}

// ---- exponential and logarithm ------------------------------------------------------------------

STAVE_BOTH STAVE_OUTLINE inline ComplexDouble exp(ComplexDouble z) {
  using namespace complex_parts;
  if (z.im == 0) return {std::exp(z.re), z.im};
  if (is_finite_number(z.im)) return exponential(z.re, std::cos(z.im), std::sin(z.im), 1);
  if (z.re == infinity) return {infinity, nan};
  if (z.re == -infinity) return {0, std::copysign(0., z.im)};
  return {nan, nan};
}

/// Returns log|z|. Near |z| = 1 it is computed from |z|^2 - 1, and for numbers near the ends of the
/// range from a multiple of z.
STAVE_BOTH inline double log_of_length(ComplexDouble z) {
  using namespace complex_parts;
  if (is_infinite_number(z.re) || is_infinite_number(z.im)) return infinity;
  if (has_nan(z)) return nan;
  const double x = std::abs(z.re), y = std::abs(z.im), big = larger(x, y), small = x < y ? x : y;
  if (big == 0) return -infinity;
  if (big >= 0.5 && big <= 2) return 0.5 * std::log1p(stave_detail::squared_radius_minus_one(big - 1, small));
  if (big > 0x1p1000) return std::log(std::hypot(x / 2, y / 2)) + log_2;
  if (big < 0x1p-900) return std::log(std::hypot(x * 0x1p200, y * 0x1p200)) - 200 * log_2;
  return std::log(std::hypot(x, y));
}
STAVE_BOTH STAVE_OUTLINE inline ComplexDouble log(ComplexDouble z) {
  return {log_of_length(z), std::atan2(z.im, z.re)};
}

STAVE_BOTH STAVE_OUTLINE inline ComplexDouble pow(ComplexDouble a, ComplexDouble b) { return exp(b * log(a)); }

/// The root is sqrt((|z| + |x|) / 2) and y / 2 divided by it (Kahan 1987, "Branch cuts for complex
/// elementary functions, or much ado about nothing's sign bit").
STAVE_BOTH STAVE_OUTLINE inline ComplexDouble sqrt(ComplexDouble z) {
  using namespace complex_parts;
  double x = z.re, y = z.im;
  if (is_infinite_number(y)) return {infinity, y};
  if (x == infinity) return {x, y != y ? y : std::copysign(0., y)};
  if (x == -infinity) return {y != y ? y : 0, std::copysign(infinity, y)};
  if (has_nan(z)) return {nan, nan};
  if (x == 0 && y == 0) return {0, y};
  const double big = larger(std::abs(x), std::abs(y));
  double scale = 1;
  if (big > 0x1p1020) x /= 4, y /= 4, scale = 2;
  if (big < 0x1p-900) x *= 0x1p200, y *= 0x1p200, scale = 0x1p-100;
  const double root = std::sqrt((std::abs(x) + std::hypot(x, y)) / 2), other = y / (2 * root);
  if (x >= 0) return {scale * root, scale * other};
  return {scale * std::abs(other), std::copysign(scale * root, y)};
}

// ---- hyperbolic and trigonometric functions -----------------------------------------------------

STAVE_BOTH STAVE_OUTLINE inline ComplexDouble sinh(ComplexDouble z) {
  using namespace complex_parts;
  const double x = z.re, y = z.im;
  if (y == 0) return {std::sinh(x), y};
  if (!is_finite_number(y)) return {x == 0 ? x : is_infinite_number(x) ? infinity : nan, nan};
  const double c = std::cos(y), s = std::sin(y);
  if (!(std::abs(x) > 709)) return {std::sinh(x) * c, std::cosh(x) * s};
  const ComplexDouble large = exponential(std::abs(x), c, s, 0.5);
  return {std::copysign(1., x) * large.re, large.im};
}
STAVE_BOTH STAVE_OUTLINE inline ComplexDouble cosh(ComplexDouble z) {
  using namespace complex_parts;
  const double x = z.re, y = z.im;
  if (y == 0) return {std::cosh(x), x != x ? y : std::copysign(1., x) * y};
  if (!is_finite_number(y)) return {is_infinite_number(x) ? infinity : nan, x == 0 ? 0 : nan};
  const double c = std::cos(y), s = std::sin(y);
  if (!(std::abs(x) > 709)) return {std::cosh(x) * c, std::sinh(x) * s};
  const ComplexDouble large = exponential(std::abs(x), c, s, 0.5);
  return {large.re, std::copysign(1., x) * large.im};
}
/// With t = tan y, s = sinh x and b = 1 + t^2, tanh z is (b s sqrt(1 + s^2) + i t) / (1 + b s^2)
/// (Kahan 1987).
STAVE_BOTH STAVE_OUTLINE inline ComplexDouble tanh(ComplexDouble z) {
  using namespace complex_parts;
  const double x = z.re, y = z.im;
  if (x != x) return {x, y == 0 ? y : nan};
  if (is_infinite_number(x))
    return {std::copysign(1., x), std::copysign(0., is_finite_number(y) ? std::sin(y) * std::cos(y) : y)};
  if (!is_finite_number(y)) return {x == 0 ? x : nan, nan};
  if (std::abs(x) >= 22) return {std::copysign(1., x), 4 * std::sin(y) * std::cos(y) * std::exp(-2 * std::abs(x))};
  const double t = std::tan(y), s = std::sinh(x), b = 1 + t * t, denominator = 1 + b * s * s;
  return {b * std::sqrt(1 + s * s) * s / denominator, t / denominator};
}
STAVE_BOTH inline ComplexDouble sin(ComplexDouble z) {
  using complex_parts::swapped;
  return swapped(sinh(swapped(z)));
}
STAVE_BOTH inline ComplexDouble cos(ComplexDouble z) { return cosh(ComplexDouble(-z.im, z.re)); }
STAVE_BOTH inline ComplexDouble tan(ComplexDouble z) {
  using complex_parts::swapped;
  return swapped(tanh(swapped(z)));
}

// ---- their inverses -----------------------------------------------------------------------------

namespace complex_parts {

/// Returns (sqrt(a^2 + b^2) - b) / 2, given `length` = sqrt(a^2 + b^2), without cancellation.
STAVE_BOTH inline double half_excess(double a, double b, double length) {
  if (b < 0) return (length - b) / 2;
  if (b == 0) return a / 2;
  return a * a / (length + b) / 2;
}

/// The parts of asinh(x + iy) for x, y >= 0: `real` is the real part, and the imaginary part is
/// asin(sine), or atan2(y, cosine) if has_cosine is set.
struct InverseSine {
  double real, sine = 0, y, cosine = 0;
  bool has_cosine = true;
};
/// Hull, Fairgrieve and Tang 1997, "Implementing the complex arcsine and arccosine functions using
/// exception handling": with r and s the distances of z from -i and i, and a = (r + s) / 2, the
/// real part is log(a + sqrt(a^2 - 1)), and the imaginary part has the sine y / a. Where these
/// cancel, a - 1 and a - y are computed as sums of positive terms.
STAVE_BOTH STAVE_OUTLINE inline InverseSine inverse_sine(double x, double y) {
  const double r = std::hypot(x, y + 1), s = std::hypot(x, y - 1), a = larger((r + s) / 2, 1);
  InverseSine result{};
  result.y = y;
  result.has_cosine = true;
  const bool is_near_one = x < epsilon * std::abs(y - 1);  // so near that a - 1 is lost
  if (a >= 10) {
    result.real = std::log(a + std::sqrt(a * a - 1));
  } else if (y == 1 && x < epsilon * epsilon / 128) {
    result.real = std::sqrt(x);
  } else if (!is_near_one) {
    const double above = half_excess(x, 1 + y, r) + half_excess(x, 1 - y, s);
    result.real = std::log1p(above + std::sqrt(above * (a + 1)));
  } else if (y < 1) {
    result.real = x / std::sqrt((1 - y) * (1 + y));
  } else {
    result.real = std::log1p((y - 1) + std::sqrt((y - 1) * (y + 1)));
  }
  if (y < 0x1p-509) {  // y / a could underflow
    result.cosine = a * (2 / epsilon);
    result.y = y * (2 / epsilon);
    return result;
  }
  result.sine = y / a;
  if (result.sine <= 0.6417) {
    result.has_cosine = false;
  } else if (y == 1 && x < epsilon / 128) {
    result.cosine = std::sqrt(x) * std::sqrt((a + y) / 2);
  } else if (!is_near_one) {
    const double above = half_excess(x, y + 1, r) + half_excess(x, y - 1, s);
    result.cosine = std::sqrt(above * (a + y));
  } else if (y > 1) {
    result.cosine = x * (4 / epsilon / epsilon) * y / std::sqrt((y + 1) * (y - 1));
    result.y = y * (4 / epsilon / epsilon);
  } else {
    result.cosine = std::sqrt((1 - y) * (1 + y));
  }
  return result;
}
// Above 1 / epsilon, the inverse functions are logarithms of 2 z. Below `tiny` they are z,
// and acos is pi / 2 - z.
constexpr double tiny = 0x1.3p-27;
STAVE_BOTH inline bool is_huge(ComplexDouble z) { return std::abs(z.re) > 1 / epsilon || std::abs(z.im) > 1 / epsilon; }
STAVE_BOTH inline bool is_tiny(ComplexDouble z) { return std::abs(z.re) < tiny && std::abs(z.im) < tiny; }

}  // namespace complex_parts

STAVE_BOTH STAVE_OUTLINE inline ComplexDouble asinh(ComplexDouble z) {
  using namespace complex_parts;
  if (has_nan(z)) {
    if (is_infinite_number(z.re)) return {z.re, nan};
    if (is_infinite_number(z.im)) return {infinity, nan};
    return {nan, z.im == 0 ? z.im : nan};
  }
  const double x = std::abs(z.re), y = std::abs(z.im);
  double re = x, im = y;
  if (is_huge(z)) {
    re = log_of_length(z) + log_2;
    im = std::atan2(y, x);
  } else if (!is_tiny(z)) {
    const InverseSine parts = inverse_sine(x, y);
    re = parts.real;
    im = parts.has_cosine ? std::atan2(parts.y, parts.cosine) : std::asin(parts.sine);
  }
  return {std::copysign(re, z.re), std::copysign(im, z.im)};
}
STAVE_BOTH STAVE_OUTLINE inline ComplexDouble acos(ComplexDouble z) {
  using namespace complex_parts;
  if (has_nan(z)) {
    if (is_infinite_number(z.re)) return {nan, -infinity};
    if (is_infinite_number(z.im)) return {nan, -z.im};
    if (z.re == 0) return {half_pi, nan};
    return {nan, nan};
  }
  const double x = std::abs(z.re), y = std::abs(z.im);
  double re = half_pi - (z.re - half_pi_rest), im = y;
  if (is_huge(z)) {
    re = std::atan2(y, z.re);
    im = log_of_length(z) + log_2;
  } else if (z.re == 1 && y == 0) {
    re = im = 0;
  } else if (!is_tiny(z)) {
    const InverseSine parts = inverse_sine(y, x);
    im = parts.real;
    re = parts.has_cosine ? std::atan2(parts.cosine, std::copysign(parts.y, z.re))
                          : std::acos(std::copysign(parts.sine, z.re));
  }
  return {re, std::copysign(im, -z.im)};
}
STAVE_BOTH inline ComplexDouble acosh(ComplexDouble z) {
  using namespace complex_parts;
  const ComplexDouble turned = acos(z);
  if (has_nan(turned)) return {std::abs(turned.im), turned.re};
  return {std::abs(turned.im), std::copysign(turned.re, z.im)};
}
/// The real part is log1p(4 x / ((x - 1)^2 + y^2)) / 4, and the imaginary part is half the angle of
/// (1 - x)(1 + x) - y^2 + 2 i y (Kahan 1987).
STAVE_BOTH STAVE_OUTLINE inline ComplexDouble atanh(ComplexDouble z) {
  using namespace complex_parts;
  const double x = std::abs(z.re), y = std::abs(z.im);
  if (y == 0 && x <= 1) return {std::atanh(z.re), z.im};
  if (x == 0) return {z.re, std::atan(z.im)};
  if (has_nan(z)) {
    if (is_infinite_number(z.re)) return {std::copysign(0., z.re), nan};
    if (is_infinite_number(z.im)) return {std::copysign(0., z.re), std::copysign(half_pi, z.im)};
    return {nan, nan};
  }
  double re = x, im = y;
  if (is_huge(z)) {  // 1 / z
    const double big = larger(x, y), other = x < y ? x : y, ratio = is_infinite_number(big) ? 0 : other / big;
    re = (x < y ? ratio : 1) / big / (1 + ratio * ratio);
    im = half_pi;
  } else if (!is_tiny(z)) {
    if (x == 1 && y < epsilon) re = (log_2 - std::log(y)) / 2;
    else re = std::log1p(4 * x / ((x - 1) * (x - 1) + (y < 0x1p-511 ? 0 : y * y))) / 4;
    if (x == 1) im = std::atan2(2., -y) / 2;
    else im = std::atan2(2 * y, (1 - x) * (1 + x) - (y < epsilon ? 0 : y * y)) / 2;
  }
  return {std::copysign(re, z.re), std::copysign(im, z.im)};
}
STAVE_BOTH inline ComplexDouble asin(ComplexDouble z) {
  using complex_parts::swapped;
  return swapped(asinh(swapped(z)));
}
STAVE_BOTH inline ComplexDouble atan(ComplexDouble z) {
  using complex_parts::swapped;
  return swapped(atanh(swapped(z)));
}

}  // namespace stave_cuda
