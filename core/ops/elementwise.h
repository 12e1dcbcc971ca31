// Elementwise functions and operators on tensors.
//
// Operands broadcast as in NumPy and are promoted (dtype.h); C++ numbers are weak (Scalar). Tensors are taken by value: a
// temporary's buffer is reused for the result. Results are contiguous. Unary functions of floats turn integers into
// default_dtype(), float32. Called with C++ numbers alone, names that <cmath> has keep their meaning there: sin(0.5) is a double.
#pragma once

#include <cmath>
#include <cstdlib>

#include <stave/core/tensor.h>

namespace stave {

using std::abs, std::sqrt, std::exp, std::expm1, std::log, std::log1p, std::sin, std::cos, std::tan, std::asin,
    std::acos, std::atan, std::sinh, std::cosh, std::tanh, std::asinh, std::acosh, std::atanh, std::erf;
using std::floor, std::ceil, std::round, std::trunc, std::isnan, std::isinf, std::isfinite, std::pow, std::remainder,
    std::atan2;

Tensor abs(Tensor x);       ///< |x|; derivative 0 at 0
Tensor negative(Tensor x);  ///< -x
Tensor sign(Tensor x);      ///< -1, 0 or 1 (0 for -0, too); NaN stays
Tensor sqrt(Tensor x);      ///< derivative at 0 is infinite
Tensor rsqrt(Tensor x);     ///< 1 / sqrt(x)
Tensor square(Tensor x);    ///< x * x
Tensor exp(Tensor x);
Tensor expm1(Tensor x);  ///< exp(x) - 1, accurate near 0
Tensor log(Tensor x);
Tensor log1p(Tensor x);  ///< log(1 + x), accurate near 0
Tensor sin(Tensor x);    ///< radians, as all angles
Tensor cos(Tensor x);
Tensor tan(Tensor x);
Tensor asin(Tensor x);  ///< in [-pi/2, pi/2], for -1 <= x <= 1; derivative at the ends is infinite
Tensor acos(Tensor x);  ///< in [0, pi], for -1 <= x <= 1; derivative at the ends is infinite
Tensor atan(Tensor x);  ///< in [-pi/2, pi/2]
Tensor sinh(Tensor x);
Tensor cosh(Tensor x);
Tensor tanh(Tensor x);
Tensor asinh(Tensor x);
Tensor acosh(Tensor x);    ///< for x >= 1; derivative at 1 is infinite
Tensor atanh(Tensor x);    ///< for -1 <= x <= 1; infinite at the ends, and its derivative too
Tensor sigmoid(Tensor x);  ///< 1 / (1 + exp(-x))
Tensor erf(Tensor x);
Tensor erfinv(Tensor x);    ///< inverse of erf, for -1 <= x <= 1
Tensor relu(Tensor x);      ///< max(x, 0); derivative 0 at 0
Tensor softplus(Tensor x);  ///< log(1 + exp(x))
Tensor floor(Tensor x);
Tensor ceil(Tensor x);
Tensor round(Tensor x);  ///< to the nearest integer, halves to even
Tensor trunc(Tensor x);  ///< to the nearest integer towards 0
Tensor logical_not(Tensor x);
Tensor isnan(Tensor x);
Tensor isinf(Tensor x);
Tensor isfinite(Tensor x);

Tensor add(Operand a, Operand b);
Tensor subtract(Operand a, Operand b);
Tensor multiply(Operand a, Operand b);
Tensor divide(Operand a, Operand b);  ///< true division: integers become default_dtype()
/// floor(a / b), as Python's //, so that a is floor_divide(a, b) * b + remainder(a, b); derivative 0. Integers stay
/// integers, and one by 0 is 0; a float by 0 is a / b.
Tensor floor_divide(Operand a, Operand b);
Tensor remainder(Operand a, Operand b);  ///< a - floor(a / b) * b, the sign of b, as Python's %; an integer by 0 is 0
Tensor pow(Operand a, Operand b);        ///< a^b; of integers, negative powers are truncated towards 0
/// The angle of the point (x, y), in [-pi, pi]; integers become default_dtype(). Its derivatives at the origin are 0.
Tensor atan2(Operand y, Operand x);
Tensor maximum(Operand a, Operand b);  ///< NaN wins; ties share the derivative equally
Tensor minimum(Operand a, Operand b);
/// 0 where a or b is 0, else a * b: multiplies partial derivatives with tangents in derivative rules.
Tensor scale(Operand a, Operand b);

Tensor equal(Operand a, Operand b);
Tensor not_equal(Operand a, Operand b);
Tensor less(Operand a, Operand b);
Tensor less_equal(Operand a, Operand b);
Tensor greater(Operand a, Operand b);
Tensor greater_equal(Operand a, Operand b);
/// Numbers count as true where they are not 0.
Tensor logical_and(Operand a, Operand b);
Tensor logical_or(Operand a, Operand b);
Tensor logical_xor(Operand a, Operand b);

/// a where condition holds, else b; all three broadcast.
Tensor where(Operand condition, Operand a, Operand b);
/// x kept within [low, high]; at a bound the derivative is shared equally.
Tensor clip(Operand x, Operand low, Operand high);
/// x with elements of another type: floats to integers truncate (saturating, NaN to 0), to bool are != 0.
Tensor astype(const Tensor& x, Dtype dtype);
/// x, a constant to every derivative.
Tensor stop_gradient(const Tensor& x);

Tensor operator+(Operand a, Operand b);
Tensor operator-(Operand a, Operand b);
Tensor operator*(Operand a, Operand b);
Tensor operator/(Operand a, Operand b);
Tensor operator%(Operand a, Operand b);
inline Tensor operator-(Tensor x) { return negative(std::move(x)); }
inline Tensor operator+(Tensor x) { return x; }
inline Tensor operator!(Tensor x) { return logical_not(std::move(x)); }
Tensor operator==(Operand a, Operand b);
Tensor operator!=(Operand a, Operand b);
Tensor operator<(Operand a, Operand b);
Tensor operator<=(Operand a, Operand b);
Tensor operator>(Operand a, Operand b);
Tensor operator>=(Operand a, Operand b);
/// Elementwise; both operands are always computed.
inline Tensor operator&&(Tensor a, Tensor b) { return logical_and(std::move(a), std::move(b)); }
inline Tensor operator||(Tensor a, Tensor b) { return logical_or(std::move(a), std::move(b)); }
/// a is another value then: whoever shares the old one keeps it.
Tensor& operator+=(Tensor& a, Operand b);
Tensor& operator-=(Tensor& a, Operand b);
Tensor& operator*=(Tensor& a, Operand b);
Tensor& operator/=(Tensor& a, Operand b);
// x[i] += y would change no x.
void operator+=(Tensor&&, Operand) = delete;  // x = scatter_add(x, indices, y), where or dynamic_update_slice
void operator-=(Tensor&&, Operand) = delete;  // x = scatter_add(x, indices, -y), where or dynamic_update_slice
void operator*=(Tensor&&, Operand) = delete;  // x = where(condition, x * y, x) or dynamic_update_slice
void operator/=(Tensor&&, Operand) = delete;  // x = where(condition, x / y, x) or dynamic_update_slice

/// True if shapes are equal and all elements are; reads the device.
bool array_equal(const Tensor& a, const Tensor& b);
/// True if shapes broadcast and |a - b| <= atol + rtol |b| everywhere; reads the device.
bool allclose(const Tensor& a, const Tensor& b, double rtol = 1e-5, double atol = 1e-8, bool equal_nan = false);

}  // namespace stave
