// Elementwise functions and operators on tensors.
//
// Operands broadcast as in NumPy, and their dtypes are promoted (dtype.h).
// C++ numbers are weakly typed (Scalar). Tensors are taken by value, so that the result can reuse
// the buffer of a temporary. Results are contiguous.
//
// Unary functions of floats convert integers to default_dtype(), which is float32. If all arguments
// are C++ numbers, a function that <cmath> also has is the one of <cmath>: sin(0.5) is a double.
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

Tensor abs(Tensor x);         ///< |x|; the derivative at 0 is 0
Tensor negative(Tensor x);    ///< -x
Tensor sign(Tensor x);        ///< -1, 0 or 1; 0 for -0, NaN for NaN
Tensor sqrt(Tensor x);        ///< the square root; the derivative at 0 is infinite
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
Tensor sin(Tensor x);    ///< the sine of x in radians
Tensor cos(Tensor x);
Tensor tan(Tensor x);
Tensor asin(Tensor x);  ///< in [-pi/2, pi/2], for |x| <= 1; the derivative at the ends is infinite
Tensor acos(Tensor x);  ///< in [0, pi], for |x| <= 1; the derivative at the ends is infinite
Tensor atan(Tensor x);  ///< in [-pi/2, pi/2]
Tensor sinh(Tensor x);
Tensor cosh(Tensor x);
Tensor tanh(Tensor x);
Tensor asinh(Tensor x);
Tensor acosh(Tensor x);    ///< for x >= 1; the derivative at 1 is infinite
Tensor atanh(Tensor x);    ///< for -1 <= x <= 1; infinite at the ends, as is its derivative
Tensor sigmoid(Tensor x);  ///< 1 / (1 + exp(-x))
/// log(x / (1 - x)), the inverse of sigmoid, accurate near 1/2; infinite at 0 and 1,
/// as is its derivative.
Tensor logit(Tensor x);
Tensor erf(Tensor x);
Tensor erfc(Tensor x);    ///< 1 - erf(x), accurate for large x
Tensor erfinv(Tensor x);  ///< the inverse of erf, for -1 <= x <= 1
/// log |Gamma(x)|; infinite at 0 and the negative integers. Near its zeros at negative x only
/// the absolute error is small.
Tensor lgamma(Tensor x);
/// The derivative of log Gamma(x); -inf at 0 (inf at -0), NaN at the negative integers.
/// Near its zeros at negative x only the absolute error is small.
Tensor digamma(Tensor x);
Tensor relu(Tensor x);      ///< max(x, 0); the derivative at 0 is 0
Tensor softplus(Tensor x);  ///< log(1 + exp(x))
Tensor silu(Tensor x);      ///< x sigmoid(x)
/// x Phi(x) = x (1 + erf(x / sqrt(2))) / 2, the exact GELU. This is PyTorch's default,
/// and JAX's gelu with approximate=False.
Tensor gelu(Tensor x);
/// x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2, which approximates gelu. This is PyTorch's
/// approximate="tanh", and JAX's default.
Tensor gelu_tanh(Tensor x);
Tensor floor(Tensor x);
Tensor ceil(Tensor x);
Tensor round(Tensor x);  ///< the nearest integer, ties to even
Tensor trunc(Tensor x);  ///< the nearest integer towards 0
Tensor logical_not(Tensor x);
Tensor isnan(Tensor x);
Tensor isinf(Tensor x);
Tensor isfinite(Tensor x);
Tensor signbit(Tensor x);  ///< whether the sign bit is set, also for -0 and NaN
/// All bits of an integer inverted; the logical negation of a bool. This and the bitwise functions
/// below throw DtypeError for floats.
Tensor bitwise_invert(Tensor x);

Tensor add(Operand a, Operand b);
Tensor subtract(Operand a, Operand b);
Tensor multiply(Operand a, Operand b);
Tensor divide(Operand a, Operand b);  ///< a / b as true division: integers become default_dtype()
/// floor(a / b), as Python's //, such that a is floor_divide(a, b) * b + remainder(a, b).
/// The derivative is 0. Integers give integers: an integer divided by 0 is 0. A float divided
/// by 0 is a / b.
Tensor floor_divide(Operand a, Operand b);
/// a - floor(a / b) * b, which has the sign of b, as Python's %. An integer modulo 0 is 0.
Tensor remainder(Operand a, Operand b);
Tensor pow(Operand a, Operand b);  ///< a^b; for integers, a negative power is truncated towards 0
/// The angle of the point (x, y), in [-pi, pi]. Integers become default_dtype(). Both derivatives
/// at the origin are 0.
Tensor atan2(Operand y, Operand x);
Tensor maximum(Operand a, Operand b);  ///< NaN if a or b is NaN; ties share the derivative equally
Tensor minimum(Operand a, Operand b);
/// sqrt(x^2 + y^2), without intermediate overflow. The result is infinite if either operand is,
/// even if the other is NaN. Both derivatives at the origin are 0.
Tensor hypot(Operand x, Operand y);
Tensor logaddexp(Operand a, Operand b);  ///< log(exp(a) + exp(b)), without intermediate overflow
/// |x| with the sign of y, where -0 and NaN have signs too. The derivative with respect to x is 0
/// at x = 0, and that with respect to y is 0 everywhere.
Tensor copysign(Operand x, Operand y);
/// The number of the common dtype that follows x in the direction of y; y where both are equal.
/// The derivative is 0, as in JAX.
Tensor nextafter(Operand x, Operand y);
/// x log(y), and 0 where x is 0 and y is not NaN, as scipy.special.xlogy.
Tensor xlogy(Operand x, Operand y);
Tensor xlog1py(Operand x, Operand y);  ///< x log1p(y), and 0 where x is 0 and y is not NaN
/// The Hurwitz zeta function, the sum of (q + k)^-s over the integers k >= 0. It is defined for s >
/// 1, infinite for s = 1 and NaN for s < 1. It is infinite at q = 0, -1, -2, ..., and NaN at all
/// other q < 0 unless s is an integer. Values are those of scipy.special.zeta. The derivative with
/// respect to s (special.h: zeta_derivative) exists for q > 0, and is NaN elsewhere.
Tensor zeta(Operand s, Operand q);
/// 0 where a or b is 0, else a * b. Derivative rules multiply partial derivatives with tangents
/// by this product.
Tensor scale(Operand a, Operand b);
/// 0 where a is 0 or b is infinite, else a / b. This is scale(a, 1 / b), computed
/// without an inverse that could overflow or lose digits.
Tensor scale_by_inverse(Operand a, Operand b);

// The next functions are factors in the derivatives of the functions above. Each is accurate
// wherever its result is a normal number. Their own derivatives consist of the same functions, and
// so are accurate too.

Tensor sech_squared(Tensor x);      ///< 1 / cosh(x)^2, the derivative of tanh
Tensor logistic_density(Tensor x);  ///< e^-x / (1 + e^-x)^2, the derivative of sigmoid
/// exp(a b), without the rounding error of the product a b. The exponential would multiply
/// that relative error by a b.
Tensor exp_of_product(Operand a, Operand b);
/// x / hypot(x, y), the derivative of hypot with respect to x: the cosine of the angle of the point
/// (x, y). It is 0 at the origin. Where x or y is infinite, it is 1, 1/2 or 0 with the sign of x,
/// depending on whether |x| is greater than, equal to or less than |y|.
Tensor direction_cosine(Operand x, Operand y);
/// x / (x^2 + y^2), the derivative of atan2(y, x) with respect to y; 0 at the origin. The squares
/// neither overflow nor underflow.
Tensor over_squared_radius(Operand x, Operand y);
/// b a^(b - 1), the derivative of a^b with respect to a; 0 where b is 0.
Tensor power_rule(Operand a, Operand b);

Tensor equal(Operand a, Operand b);
Tensor not_equal(Operand a, Operand b);
Tensor less(Operand a, Operand b);
Tensor less_equal(Operand a, Operand b);
Tensor greater(Operand a, Operand b);
Tensor greater_equal(Operand a, Operand b);
/// True where both a and b are true; numbers other than 0 count as true.
Tensor logical_and(Operand a, Operand b);
Tensor logical_or(Operand a, Operand b);
Tensor logical_xor(Operand a, Operand b);

/// Bitwise and of integers; logical and of bools.
Tensor bitwise_and(Operand a, Operand b);
Tensor bitwise_or(Operand a, Operand b);
Tensor bitwise_xor(Operand a, Operand b);
/// a shifted left by `places` bits: 2^places a, which wraps. The result is 0 if `places` is
/// negative or at least the number of bits of a. Bools become int32.
Tensor bitwise_left_shift(Operand a, Operand places);
/// a shifted right by `places` bits: floor(a / 2^places). If `places` is negative or at least
/// the number of bits of a, the result is 0, or -1 for negative a.
Tensor bitwise_right_shift(Operand a, Operand places);

/// a where `condition` holds, else b; all three operands broadcast.
Tensor where(Operand condition, Operand a, Operand b);
/// x limited to [low, high]. Where x equals a bound, x and the bound share the derivative equally.
Tensor clip(Operand x, Operand low, Operand high);
// Activations and functions of probabilities, composed of the functions above. Integers become
// default_dtype(). At a kink the derivative is that of the left side, or of the constant side,
// as in PyTorch.
Tensor leaky_relu(Tensor x, Operand slope = 0.01);  ///< x for x > 0, else slope x
Tensor elu(Tensor x, Operand alpha = 1);            ///< x for x > 0, else alpha (exp(x) - 1)
/// 1.0507 elu(x, 1.6733). Klambauer et al., "Self-normalizing neural networks", 2017.
Tensor selu(Tensor x);
/// x for x > 0, else alpha (exp(x / alpha) - 1), where alpha is not 0.
Tensor celu(Tensor x, Operand alpha = 1);
/// x limited to [low, high]; the derivative is 0 at both bounds.
Tensor hardtanh(Tensor x, Operand low = -1, Operand high = 1);
Tensor hardsigmoid(Tensor x);  ///< x / 6 + 1 / 2, limited to [0, 1]
Tensor hardswish(Tensor x);    ///< x hardsigmoid(x)
Tensor mish(Tensor x);         ///< x tanh(softplus(x))
Tensor log_sigmoid(Tensor x);  ///< log(sigmoid(x)), accurate for all x
Tensor entr(Tensor x);         ///< -x log(x), 0 at 0, -inf for x < 0, as scipy.special.entr
/// The n-th derivative of digamma, n >= 0: (-1)^(n+1) n! zeta(n + 1, x), accurate wherever
/// the result neither overflows nor underflows. Derivatives of any order are available.
Tensor polygamma(int n, Tensor x);

/// x with its elements converted to `dtype`. Floats become integers by truncation, which saturates
/// and maps NaN to 0. Numbers become bools by `!= 0`.
Tensor astype(const Tensor& x, Dtype dtype);
/// x, treated as a constant by every derivative.
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
Tensor operator&(Operand a, Operand b);  ///< bitwise_and; binds less tightly than ==
Tensor operator|(Operand a, Operand b);  ///< bitwise_or
Tensor operator^(Operand a, Operand b);  ///< bitwise_xor
inline Tensor operator~(Tensor x) { return bitwise_invert(std::move(x)); }
/// Elementwise logical_and, without short circuit: both operands are always computed. The
/// result is a tensor. It converts to bool only where C++ expects a condition, as in `if (a && b)`.
/// For C++'s operator with short circuit write bool(all(a)) && bool(all(b)).
inline Tensor operator&&(Tensor a, Tensor b) { return logical_and(std::move(a), std::move(b)); }
inline Tensor operator||(Tensor a, Tensor b) { return logical_or(std::move(a), std::move(b)); }
/// Assigns a + b to the variable a. Other tensors that share the old value of a keep it.
Tensor& operator+=(Tensor& a, Operand b);
Tensor& operator-=(Tensor& a, Operand b);
Tensor& operator*=(Tensor& a, Operand b);
Tensor& operator/=(Tensor& a, Operand b);
// These overloads are deleted because x[i] += y would not change x.
void operator+=(Tensor&&, Operand) = delete;  // instead: x = x.at(i).add(y)
void operator-=(Tensor&&, Operand) = delete;  // instead: x = x.at(i).add(-y)
void operator*=(Tensor&&, Operand) = delete;  // instead: x = x.at(i).multiply(y)
void operator/=(Tensor&&, Operand) = delete;  // instead: x = x.at(i).multiply(1 / y)

/// Returns true if the shapes are equal and all elements are equal. Waits for the device.
bool array_equal(const Tensor& a, const Tensor& b);
/// Returns true if the shapes broadcast and |a - b| <= atol + rtol |b| everywhere.
/// Waits for the device.
bool allclose(const Tensor& a, const Tensor& b, double rtol = 1e-5, double atol = 1e-8, bool equal_nan = false);

}  // namespace stave
