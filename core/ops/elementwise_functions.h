// Elementwise functions of NumPy and PyTorch that are composed of the operations of elementwise.h.
// Operands broadcast and dtypes are promoted as there.
#pragma once

#include <cmath>
#include <optional>
#include <utility>

#include <stave/core/tensor/options.h>
#include <stave/core/tensor/tensor.h>

namespace stave {

using std::fmax, std::fmin, std::ldexp, std::frexp, std::modf;

/// x itself, as NumPy's unary plus. Bools become int32.
Tensor positive(const Tensor& x);
/// The larger (smaller) of two numbers, or the other number if one of them is NaN. Ties share the
/// derivative equally.
Tensor fmax(Operand a, Operand b);
Tensor fmin(Operand a, Operand b);
/// 0 where x < 0, 1 where x > 0, `at_zero` where x is 0, and NaN where x is NaN. The derivative
/// with respect to x is 0.
Tensor heaviside(Operand x, Operand at_zero);
/// The quotient floor_divide(a, b) and the remainder remainder(a, b), as Python's divmod.
std::pair<Tensor, Tensor> divmod(Operand a, Operand b);
/// a^b, computed in float64, or complex128 if an operand is complex.
Tensor float_power(Operand a, Operand b);
/// The greatest common divisor of two integers, which is not negative; 0 if both are 0. Euclid's
/// algorithm takes one step for each 0.7 bits of the dtype. Throws DtypeError for other dtypes
/// than integers.
Tensor gcd(Operand a, Operand b);
/// The least common multiple |a b| / gcd(a, b) of two integers; 0 if one of them is 0.
Tensor lcm(Operand a, Operand b);

/// x 2^exponent, rounded once, for integer exponents. Throws DtypeError for other exponents.
Tensor ldexp(Operand x, Operand exponent);
/// m and int32 e with x = m 2^e and 1/2 <= |m| < 1. For 0, infinity and NaN they are x and 0. The
/// derivative of m with respect to x is 2^-e.
std::pair<Tensor, Tensor> frexp(const Tensor& x);
/// The fractional and the integral part of x, which both have the sign of x.
std::pair<Tensor, Tensor> modf(const Tensor& x);

struct NanToNumOptions {
  [[no_unique_address]] ByName by_name{};
  double nan = 0;
  /// The numbers that replace infinity and -infinity. The default is the greatest and the least
  /// finite number of the dtype.
  std::optional<double> posinf{}, neginf{};
};
/// x with NaN and infinities replaced by numbers. The derivative there is 0.
Tensor nan_to_num(const Tensor& x, NanToNumOptions options = {});
/// The real part of z if all imaginary parts are less than `tolerance` epsilons of the dtype (less
/// than `tolerance` itself if that is at most 1), else z. The imaginary parts are read on the host.
Tensor real_if_close(const Tensor& z, double tolerance = 100);
/// Degrees as radians, and radians as degrees. Integers become default_dtype().
Tensor deg2rad(const Tensor& x);
Tensor rad2deg(const Tensor& x);

struct IsCloseOptions {
  [[no_unique_address]] ByName by_name{};
  double rtol = 1e-5, atol = 1e-8;
  bool equal_nan = false;  ///< whether NaN is close to NaN
};
/// Whether |a - b| <= atol + rtol |b|. An infinity is close to itself only.
Tensor isclose(Operand a, Operand b, IsCloseOptions options = {});

}  // namespace stave
