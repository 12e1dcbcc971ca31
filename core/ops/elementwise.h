// Elementwise functions and operators on tensors.
//
// Operands broadcast as in NumPy and are promoted (dtype.h); C++ numbers are weak (Scalar). Tensors are taken by value: a
// temporary's buffer is reused for the result. Results are contiguous. Unary functions of floats turn integers into
// default_dtype(), float32. Called with C++ numbers alone, names that <cmath> has keep their meaning there: sin(0.5) is a double.
#pragma once

#include <cmath>
#include <cstdlib>

#include <stave/core/tensor/tensor.h>

namespace stave {

using std::abs, std::sqrt, std::exp, std::expm1, std::log, std::log1p, std::sin, std::cos, std::tan, std::asin,
    std::acos, std::atan, std::sinh, std::cosh, std::tanh, std::asinh, std::acosh, std::atanh, std::erf, std::exp2,
    std::log2, std::log10, std::erfc, std::lgamma;
using std::floor, std::ceil, std::round, std::trunc, std::isnan, std::isinf, std::isfinite, std::signbit, std::pow,
    std::remainder, std::atan2, std::hypot, std::copysign, std::nextafter;

Tensor abs(Tensor x);         ///< |x|; derivative 0 at 0
Tensor negative(Tensor x);    ///< -x
Tensor sign(Tensor x);        ///< -1, 0 or 1 (0 for -0, too); NaN stays
Tensor sqrt(Tensor x);        ///< derivative at 0 is infinite
Tensor rsqrt(Tensor x);       ///< 1 / sqrt(x)
Tensor square(Tensor x);      ///< x * x
Tensor reciprocal(Tensor x);  ///< 1 / x; integers become default_dtype()
Tensor exp(Tensor x);
Tensor exp2(Tensor x);   ///< 2^x
Tensor expm1(Tensor x);  ///< exp(x) - 1, accurate near 0
Tensor log(Tensor x);
Tensor log2(Tensor x);
Tensor log10(Tensor x);
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
/// log(x / (1 - x)), the inverse of sigmoid, accurate near 1/2; infinite at 0 and 1, and its derivative too.
Tensor logit(Tensor x);
Tensor erf(Tensor x);
Tensor erfc(Tensor x);    ///< 1 - erf(x), accurate for large x
Tensor erfinv(Tensor x);  ///< inverse of erf, for -1 <= x <= 1
/// log |Gamma(x)|; infinite at 0, -1, -2, ... Near the zeros left of 0 it is accurate absolutely.
Tensor lgamma(Tensor x);
/// The derivative of log Gamma(x); -inf at 0 (inf at -0), NaN at -1, -2, ... Near the zeros left of 0 it is accurate absolutely.
Tensor digamma(Tensor x);
Tensor relu(Tensor x);      ///< max(x, 0); derivative 0 at 0
Tensor softplus(Tensor x);  ///< log(1 + exp(x))
Tensor silu(Tensor x);      ///< x sigmoid(x)
/// x Phi(x) = x (1 + erf(x / sqrt(2))) / 2: the exact one, PyTorch's default; JAX's with approximate=False.
Tensor gelu(Tensor x);
/// x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2, which approximates gelu: PyTorch's approximate="tanh", JAX's default.
Tensor gelu_tanh(Tensor x);
Tensor floor(Tensor x);
Tensor ceil(Tensor x);
Tensor round(Tensor x);  ///< to the nearest integer, halves to even
Tensor trunc(Tensor x);  ///< to the nearest integer towards 0
Tensor logical_not(Tensor x);
Tensor isnan(Tensor x);
Tensor isinf(Tensor x);
Tensor isfinite(Tensor x);
Tensor signbit(Tensor x);  ///< whether the sign is a minus: of -0 and of a NaN, too
/// All bits the other way; of bool the other truth. Floats are a DtypeError, here and for the bitwise functions below.
Tensor bitwise_invert(Tensor x);

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
/// sqrt(x^2 + y^2), without overflow on the way; infinite if either is, even beside NaN. Its derivatives at the origin are 0.
Tensor hypot(Operand x, Operand y);
Tensor logaddexp(Operand a, Operand b);  ///< log(exp(a) + exp(b)), without overflow on the way
/// |x| with the sign of y, -0 and NaN having one, too; derivative by x at 0 is 0, by y everywhere.
Tensor copysign(Operand x, Operand y);
/// The number of the common dtype that follows x in the direction of y; y where they are equal. Derivative 0, as in JAX.
Tensor nextafter(Operand x, Operand y);
/// x log(y), and 0 where x is 0, whatever y is, but for NaN; as scipy.special, and its derivatives too.
Tensor xlogy(Operand x, Operand y);
Tensor xlog1py(Operand x, Operand y);  ///< x log1p(y), and 0 where x is 0
/// The Hurwitz zeta function, the sum of (q + k)^-s over k = 0, 1, 2, ...: for s > 1, infinite for s = 1, else NaN. For q < 0 it is
/// NaN unless s is an integer; infinite at q = 0, -1, -2, ... As scipy.special.zeta. There is no derivative by s: an error.
Tensor zeta(Operand s, Operand q);
/// 0 where a or b is 0, else a * b: multiplies partial derivatives with tangents in derivative rules.
Tensor scale(Operand a, Operand b);
/// 0 where a is 0 or b is infinite, else a / b: scale(a, 1 / b), without an inverse that overflows
/// or loses digits on the way.
Tensor scale_by_inverse(Operand a, Operand b);

// The derivatives of the functions above have these factors. Each is accurate wherever its result
// is a normal number, and so are its own derivatives, which are made of the same functions.

Tensor sech_squared(Tensor x);      ///< 1 / cosh(x)^2, the derivative of tanh
Tensor logistic_density(Tensor x);  ///< e^-x / (1 + e^-x)^2, the derivative of sigmoid
/// exp(a b), where a b is not rounded before the exponential multiplies its error by a b.
Tensor exp_of_product(Operand a, Operand b);
/// x / hypot(x, y), the derivative of hypot by x: the cosine of the angle of the point (x, y). 0 at
/// the origin; where x or y is infinite, 1, 1/2 or 0 with the sign of x, as |x| is greater than
/// |y|, equal or less.
Tensor direction_cosine(Operand x, Operand y);
/// x / (x^2 + y^2), whose squares neither overflow nor vanish: the derivative of atan2(y, x) by y.
/// 0 at the origin.
Tensor over_squared_radius(Operand x, Operand y);
/// b a^(b - 1), the derivative of a^b by a; 0 where b is 0.
Tensor power_rule(Operand a, Operand b);

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

/// Of integers their bits, of bools their truth.
Tensor bitwise_and(Operand a, Operand b);
Tensor bitwise_or(Operand a, Operand b);
Tensor bitwise_xor(Operand a, Operand b);
/// a moved by so many bits: 2^places a, which wraps; 0 for as many places as it has bits, or more, or less than 0. Bools become int32.
Tensor bitwise_left_shift(Operand a, Operand places);
/// floor(a / 2^places); for as many places as it has bits, or more, or less than 0, what the sign leaves: 0, or -1 for negative a.
Tensor bitwise_right_shift(Operand a, Operand places);

/// a where condition holds, else b; all three broadcast.
Tensor where(Operand condition, Operand a, Operand b);
/// x kept within [low, high]; at a bound the derivative is shared equally.
Tensor clip(Operand x, Operand low, Operand high);
// Activations and functions of probabilities, composed of the above. Integers become default_dtype(). At a kink the derivative is
// that of the left side, or of the constant, as in PyTorch.
Tensor leaky_relu(Tensor x, Operand slope = 0.01);  ///< x for x > 0, else slope x
Tensor elu(Tensor x, Operand alpha = 1);            ///< x for x > 0, else alpha (exp(x) - 1)
Tensor selu(Tensor x);  ///< 1.0507 elu(x, 1.6733): Klambauer et al., "Self-normalizing neural networks", 2017
Tensor celu(Tensor x, Operand alpha = 1);  ///< x for x > 0, else alpha (exp(x / alpha) - 1); for alpha other than 0
Tensor hardtanh(Tensor x, Operand low = -1, Operand high = 1);  ///< x within [low, high]; derivative 0 at both
Tensor hardsigmoid(Tensor x);                                   ///< x / 6 + 1 / 2 within [0, 1]
Tensor hardswish(Tensor x);                                     ///< x hardsigmoid(x)
Tensor mish(Tensor x);                                          ///< x tanh(softplus(x))
Tensor log_sigmoid(Tensor x);                                   ///< log(sigmoid(x)), accurate for all x
Tensor entr(Tensor x);  ///< -x log(x), 0 at 0, -inf for x < 0: scipy.special.entr
/// The n-th derivative of digamma, n >= 0: (-1)^(n+1) n! zeta(n + 1, x), wherever that neither
/// overflows nor vanishes. Derivatives of any order.
Tensor polygamma(int n, Tensor x);

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
Tensor operator&(Operand a, Operand b);  ///< bitwise_and; binds less than ==
Tensor operator|(Operand a, Operand b);  ///< bitwise_or
Tensor operator^(Operand a, Operand b);  ///< bitwise_xor
inline Tensor operator~(Tensor x) { return bitwise_invert(std::move(x)); }
/// Elementwise, without short circuit: both operands are always computed, and what comes is a
/// tensor, which converts to bool where a condition stands, if (a && b), and nowhere else by
/// itself. bool(all(a)) && bool(all(b)) is C++'s.
inline Tensor operator&&(Tensor a, Tensor b) { return logical_and(std::move(a), std::move(b)); }
inline Tensor operator||(Tensor a, Tensor b) { return logical_or(std::move(a), std::move(b)); }
/// a is another value then: whoever shares the old one keeps it.
Tensor& operator+=(Tensor& a, Operand b);
Tensor& operator-=(Tensor& a, Operand b);
Tensor& operator*=(Tensor& a, Operand b);
Tensor& operator/=(Tensor& a, Operand b);
// x[i] += y would change no x.
void operator+=(Tensor&&, Operand) = delete;  // x = x.at(i).add(y)
void operator-=(Tensor&&, Operand) = delete;  // x = x.at(i).add(-y)
void operator*=(Tensor&&, Operand) = delete;  // x = x.at(i).multiply(y)
void operator/=(Tensor&&, Operand) = delete;  // x = x.at(i).multiply(1 / y)

/// True if shapes are equal and all elements are; reads the device.
bool array_equal(const Tensor& a, const Tensor& b);
/// True if shapes broadcast and |a - b| <= atol + rtol |b| everywhere; reads the device.
bool allclose(const Tensor& a, const Tensor& b, double rtol = 1e-5, double atol = 1e-8, bool equal_nan = false);

}  // namespace stave
