// Elementwise operations: one struct per operation, which holds everything that is known about it.
//
//   value(x...)       the function itself, written once over a value type T: a SIMD vector in the
//                     CPU's kernels, a scalar on a GPU. T has the arithmetic operators, comparisons
//                     (which return a mask), select(mask, a, b), and these functions, found by ADL:
//                     abs sqrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan atan2
//                     sinh cosh tanh asinh acosh atanh erf erfc erfinv lgamma digamma zeta pow
//                     hypot copysign nextafter signbit floor ceil rint trunc floor_divide
//                     remainder. Integers have & | ^ ~ shifted_left shifted_right.
//   partial0(x..., y) the partial derivative with respect to argument 0 at x, where the result is
//                     y. It is written over a type X and instantiated with Tensor, so derivatives
//                     of any order follow. partial1 is the same for argument 1.
//   times0(factor, x..., y)
//                     the product of `factor` and partial0. It replaces partial0 where the partial
//                     derivative may overflow or lose digits although the product does not. times1
//                     is the same for argument 1.
//
// A partial is computed from the operands where the result has lost digits that the partial needs:
// 1 - tanh(x)^2 is 0 for x = 20. Second and third derivatives must keep their digits too.
// So a partial is either made of operations with partials of their own, or free of differences
// that cancel. Partials of 16-bit floats that take several operations are computed in float32.
//
// JVP, VJP, batching and the kernels of each backend are derived from these structs, and so is
// the set of values that a tape saves. `operands` says which dtypes the operation computes
// on (others are promoted or refused), `result` the dtype of the result, and `work` the cost.
// A linear operation has tangent0(dx) and tangent1 in place of partials; one that is linear in each
// operand has `bilinear`. A piecewise constant operation has `zero_derivative`.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#ifdef __CUDACC__
#define STAVE_HOST_DEVICE __host__ __device__
#else
#define STAVE_HOST_DEVICE
#endif

namespace stave_detail {

/// The dtypes that an operation computes on. For `floats`, integers become default_dtype().
/// For `numbers` and `integers`, bool becomes int32. For `bools`, everything becomes bool.
/// `integers` and `bits` reject floats; `bits` takes bool as it is.
enum class Operands { floats, numbers, any, bools, integers, bits };
/// Returns whether backends have kernels of such an operation for elements of T,
/// so that the frontend may request them.
template <class T>
constexpr bool admits(Operands in) {
  switch (in) {
    case Operands::floats: return !std::is_integral_v<T>;
    case Operands::numbers: return !std::is_same_v<T, bool>;
    case Operands::bools: return std::is_same_v<T, bool>;
    case Operands::integers: return std::is_integral_v<T> && !std::is_same_v<T, bool>;
    case Operands::bits: return std::is_integral_v<T>;
    case Operands::any: break;
  }
  return true;
}
enum class Result { same, boolean };
/// The cost of computing one element. All kinds but `arithmetic` take several times as long as the
/// memory access. Results of a `function` may differ between libraries in the last digits.
enum class Work { arithmetic, remainder, function };

#define STAVE_VALUE(...) \
  template <class T>     \
  STAVE_HOST_DEVICE static auto value(__VA_ARGS__)
#define STAVE_PARTIAL(name, ...) \
  template <class X>             \
  static constexpr X name(__VA_ARGS__)

template <Operands in, Work w = Work::arithmetic, Result out = Result::same, bool zero = false>
struct Elementwise {
  static constexpr Operands operands = in;
  static constexpr Work work = w;
  static constexpr Result result = out;
  static constexpr bool zero_derivative = zero;
};
using Floats = Elementwise<Operands::floats>;
using FloatFunction = Elementwise<Operands::floats, Work::function>;
using Numbers = Elementwise<Operands::numbers>;
using Predicate = Elementwise<Operands::any, Work::arithmetic, Result::boolean, true>;
using Logical = Elementwise<Operands::bools, Work::arithmetic, Result::boolean, true>;
using Rounding = Elementwise<Operands::numbers, Work::arithmetic, Result::same, true>;
using Bitwise = Elementwise<Operands::bits, Work::arithmetic, Result::same, true>;
using Shift = Elementwise<Operands::integers, Work::arithmetic, Result::same, true>;

// ---- one operand ----------------------------------------------------------------------------

struct Abs : Numbers {
  STAVE_VALUE(T x) { return abs(x); }
  STAVE_PARTIAL(partial0, const X& x, const X&) { return sign(x); }
};
struct Negative : Numbers {
  STAVE_VALUE(T x) { return -x; }
  STAVE_PARTIAL(tangent0, const X& dx) { return negative(dx); }  // linear: d(-x) = -dx
};
struct Sign : Rounding {
  // NaN gives NaN, and -0 gives 0, as the array API standard requires.
  STAVE_VALUE(T x) { return select(x > T(0), T(1), select(x < T(0), T(-1), select(x == T(0), T(0), x))); }
};
struct Sqrt : Floats {
  STAVE_VALUE(T x) { return sqrt(x); }
  // 1 / (2 y)
  STAVE_PARTIAL(times0, const X& factor, const X&, const X& y) { return scale_by_inverse(0.5 * factor, y); }
};
struct Rsqrt : Floats {
  STAVE_VALUE(T x) { return T(1) / sqrt(x); }
  // -y / (2 x)
  STAVE_PARTIAL(times0, const X& factor, const X& x, const X& y) {
    return scale_by_inverse(scale(-0.5 * factor, y), x);
  }
};
struct Square : Numbers {
  STAVE_VALUE(T x) { return x * x; }
  STAVE_PARTIAL(times0, const X& factor, const X& x, const X&) { return 2 * scale(factor, x); }
};
struct Reciprocal : Floats {
  STAVE_VALUE(T x) { return T(1) / x; }
  // -y^2
  STAVE_PARTIAL(times0, const X& factor, const X&, const X& y) { return -scale(scale(factor, y), y); }
};
struct Exp : FloatFunction {
  STAVE_VALUE(T x) { return exp(x); }
  STAVE_PARTIAL(partial0, const X&, const X& y) { return y; }
};
struct Exp2 : FloatFunction {
  STAVE_VALUE(T x) { return exp2(x); }
  // 2^x log 2, written such that it overflows later than 2^x
  STAVE_PARTIAL(partial0, const X& x, const X&) { return 1.3862943611198906 * exp2(x - 1); }
};
struct Expm1 : FloatFunction {
  STAVE_VALUE(T x) { return expm1(x); }
  STAVE_PARTIAL(partial0, const X& x, const X&) { return exp(x); }
};
struct Log : FloatFunction {
  STAVE_VALUE(T x) { return log(x); }
  STAVE_PARTIAL(times0, const X& factor, const X& x, const X&) { return scale_by_inverse(factor, x); }
};
struct Log2 : FloatFunction {
  STAVE_VALUE(T x) { return log2(x); }
  // 1 / (x log 2)
  STAVE_PARTIAL(times0, const X& factor, const X& x, const X&) {
    return scale_by_inverse(1.4426950408889634 * factor, x);
  }
};
struct Log10 : FloatFunction {
  STAVE_VALUE(T x) { return log10(x); }
  // 1 / (x log 10)
  STAVE_PARTIAL(times0, const X& factor, const X& x, const X&) {
    return scale_by_inverse(0.4342944819032518 * factor, x);
  }
};
struct Log1p : FloatFunction {
  STAVE_VALUE(T x) { return log1p(x); }
  STAVE_PARTIAL(times0, const X& factor, const X& x, const X&) { return scale_by_inverse(factor, x + 1); }
};
struct Sin : FloatFunction {
  STAVE_VALUE(T x) { return sin(x); }
  STAVE_PARTIAL(partial0, const X& x, const X&) { return cos(x); }
};
struct Cos : FloatFunction {
  STAVE_VALUE(T x) { return cos(x); }
  STAVE_PARTIAL(partial0, const X& x, const X&) { return -sin(x); }
};
struct Tan : FloatFunction {
  STAVE_VALUE(T x) { return tan(x); }
  STAVE_PARTIAL(partial0, const X&, const X& y) { return 1 + square(y); }
};
/// Returns `value` with the derivatives of `like`, which differs from `value` by a constant. For
/// example (1 - x) (1 + x) keeps digits that 1 - x^2 loses, but its derivative would be a
/// difference that loses digits again. So the product gives the value, and -x^2 gives the
/// derivative.
template <class X>
constexpr X with_derivative_of(const X& like, const X& value) {
  return stop_gradient(value) + (like - stop_gradient(like));
}
/// 1 - x^2 for |x| <= 1, accurate near 1. Its derivative -2 x is accurate near 0.
template <class X>
constexpr X one_minus_square(const X& x) {
  return with_derivative_of(-square(x), (1 - x) * (1 + x));
}
struct Asin : FloatFunction {
  STAVE_VALUE(T x) { return asin(x); }
  // 1 / sqrt(1 - x^2)
  STAVE_PARTIAL(partial0, const X& x, const X&) { return rsqrt(one_minus_square(x)); }
};
struct Acos : FloatFunction {
  STAVE_VALUE(T x) { return acos(x); }
  STAVE_PARTIAL(partial0, const X& x, const X&) { return -rsqrt(one_minus_square(x)); }
};
struct Atan : FloatFunction {
  STAVE_VALUE(T x) { return atan(x); }
  // 1 / (1 + x^2)
  STAVE_PARTIAL(partial0, const X& x, const X&) {
    return is_complex(x.dtype()) ? reciprocal(1 + square(x)) : over_squared_radius(1, x);
  }
};
struct Sinh : FloatFunction {
  STAVE_VALUE(T x) { return sinh(x); }
  STAVE_PARTIAL(partial0, const X& x, const X&) { return cosh(x); }
};
struct Cosh : FloatFunction {
  STAVE_VALUE(T x) { return cosh(x); }
  STAVE_PARTIAL(partial0, const X& x, const X&) { return sinh(x); }
};
struct Tanh : FloatFunction {
  STAVE_VALUE(T x) { return tanh(x); }
  STAVE_PARTIAL(partial0, const X& x, const X&) { return sech_squared(x); }
};
/// 1 / cosh(x)^2
struct SechSquared : FloatFunction {
  STAVE_VALUE(T x) {
    T e = exp(-(abs(x) + abs(x))), sum = T(1) + e;
    return T(4) * (e / (sum * sum));
  }
  STAVE_PARTIAL(partial0, const X& x, const X& y) { return -2 * scale(tanh(x), y); }
};
struct Asinh : FloatFunction {
  STAVE_VALUE(T x) { return asinh(x); }
  // 1 / sqrt(1 + x^2)
  STAVE_PARTIAL(partial0, const X& x, const X&) {
    return is_complex(x.dtype()) ? rsqrt(1 + square(x)) : direction_cosine(1, x);
  }
};
struct Acosh : FloatFunction {
  STAVE_VALUE(T x) { return acosh(x); }
  // 1 / sqrt(x^2 - 1), which is NaN for every x < 1, as the value is
  STAVE_PARTIAL(partial0, const X& x, const X&) { return rsqrt(x - 1) * rsqrt(x + 1); }
};
struct Atanh : FloatFunction {
  STAVE_VALUE(T x) { return atanh(x); }
  // 1 / (1 - x^2)
  STAVE_PARTIAL(times0, const X& factor, const X& x, const X&) { return scale_by_inverse(factor, one_minus_square(x)); }
};
/// 1 / (1 + e^-x), computed as e^x / (1 + e^x) for x < 0, so that nothing overflows and small
/// results keep their digits.
template <class T>
STAVE_HOST_DEVICE T sigmoid_of(T x) {
  T e = exp(-abs(x));
  return select(x < T(0), e, T(1)) / (T(1) + e);
}
struct Sigmoid : FloatFunction {
  STAVE_VALUE(T x) { return sigmoid_of(x); }
  STAVE_PARTIAL(partial0, const X& x, const X&) { return logistic_density(x); }
};
/// sigmoid(x) sigmoid(-x)
struct LogisticDensity : FloatFunction {
  STAVE_VALUE(T x) {
    T e = exp(-abs(x)), sum = T(1) + e;
    return e / (sum * sum);
  }
  STAVE_PARTIAL(partial0, const X& x, const X& y) { return -scale(tanh(0.5 * x), y); }
};
/// log(p / (1 - p))
struct Logit : FloatFunction {
  // Near 1/2 the quotient is near 1, and its rounding error dominates the logarithm.
  // There the result is log1p((2p - 1) / (1 - p)), in which 2p - 1 is exact.
  STAVE_VALUE(T p) {
    T q = T(1) - p;
    return select(abs(p - T(0.5)) < T(0.25), log1p((p + p - T(1)) / q), log(p / q));
  }
  // 1 / (p (1 - p)). The derivative of p (1 - p) equals that of -(p - 1/2)^2.
  STAVE_PARTIAL(times0, const X& factor, const X& p, const X&) {
    return scale_by_inverse(factor, with_derivative_of(-square(p - 0.5), p * (1 - p)));
  }
};
struct Erf : FloatFunction {
  STAVE_VALUE(T x) { return erf(x); }
  // 2 / sqrt(pi) exp(-x^2)
  STAVE_PARTIAL(partial0, const X& x, const X&) { return 1.1283791670955126 * exp_of_product(x, -x); }
};
struct Erfc : FloatFunction {
  STAVE_VALUE(T x) { return erfc(x); }
  STAVE_PARTIAL(partial0, const X& x, const X&) { return -1.1283791670955126 * exp_of_product(x, -x); }
};
struct Erfinv : FloatFunction {
  STAVE_VALUE(T x) { return erfinv(x); }
  // sqrt(pi) / 2 exp(y^2) for the unrounded y. The unrounded y differs from the rounded one by this
  // derivative times the error of erf at y (near 1, the error of erfc).
  STAVE_PARTIAL(partial0, const X& x, const X& y) {
    const X slope = 0.8862269254527580 * exp_of_product(y, y), size = abs(y);
    const X off = where(abs(x) < 0.5, 0, erfc(size) - (1 - abs(x)));
    return slope * (1 + stop_gradient(scale(scale(2 * size, off), slope)));
  }
};
struct Relu : Numbers {
  STAVE_VALUE(T x) { return select(x < T(0), T(0), x); }  // NaN gives NaN
  STAVE_PARTIAL(partial0, const X& x, const X&) { return astype(x > 0, x.dtype()); }
};
struct Softplus : FloatFunction {
  // log(1 + e^x) = max(x, 0) + log1p(e^-|x|)
  STAVE_VALUE(T x) { return select(x < T(0), T(0), x) + log1p(exp(-abs(x))); }
  STAVE_PARTIAL(partial0, const X& x, const X&) { return sigmoid(x); }
};
/// Returns x times `part`, and -0 where `part` is 0, even for x = -inf: as x goes to -inf, `part`
/// falls to 0 faster than x grows.
template <class T>
STAVE_HOST_DEVICE T share_of(T x, T part) {
  return select(part == T(0), T(-0.0), x * part);
}
/// x sigmoid(x)
struct Silu : FloatFunction {
  // Below -64, e^x may be denormal although x e^x is not. There e^(x + 64) is used in place of e^x,
  // and the product is multiplied by e^-64 at the end.
  STAVE_VALUE(T x) {
    auto far = x < T(-64);
    T e = exp(select(far, x + T(64), -abs(x))), unit = select(far, T(1.603810890548638e-28), T(1));
    return share_of(x, select(x < T(0), e, T(1)) / (T(1) + e * unit)) * unit;
  }
  // sigmoid(x) + x sigmoid(x) sigmoid(-x). `scale` gives 0 where x is infinite, since the density
  // is 0 there.
  STAVE_PARTIAL(partial0, const X& x, const X&) { return sigmoid(x) + scale(x, logistic_density(x)); }
};
/// x Phi(x), where Phi(x) = erfc(-x / sqrt(2)) / 2 is the standard normal distribution function.
struct Gelu : FloatFunction {
  STAVE_VALUE(T x) { return share_of(x, T(0.5) * erfc_of_root_half(-x)); }
  // Phi(x) + x phi(x), where phi(x) = exp(-x^2 / 2) / sqrt(2 pi)
  STAVE_PARTIAL(partial0, const X& x, const X&) {
    return 0.5 * erfc(-0.7071067811865476 * x) + scale(0.3989422804014327 * x, exp_of_product(x, -0.5 * x));
  }
};
/// x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2 (Hendrycks and Gimpel, "Gaussian error linear
/// units", 2016). Since (1 + tanh(u)) / 2 is sigmoid(2 u), this is x sigmoid(a x + b x^3).
struct GeluTanh : FloatFunction {
  static constexpr double a = 1.5957691216057308, b = 0.07135481627260025;
  STAVE_VALUE(T x) { return share_of(x, sigmoid_of(x * (T(a) + T(b) * (x * x)))); }
  STAVE_PARTIAL(partial0, const X& x, const X&) {
    const X u = x * (a + b * square(x));
    return sigmoid(u) + scale(scale(x, a + 3 * b * square(x)), logistic_density(u));
  }
};
struct Lgamma : FloatFunction {
  STAVE_VALUE(T x) { return lgamma(x); }
  STAVE_PARTIAL(partial0, const X& x, const X&) { return digamma(x); }
};
struct Digamma : FloatFunction {
  STAVE_VALUE(T x) { return digamma(x); }
  STAVE_PARTIAL(partial0, const X& x, const X&) { return zeta(2, x); }
};
struct Floor : Rounding {
  STAVE_VALUE(T x) { return floor(x); }
};
struct Ceil : Rounding {
  STAVE_VALUE(T x) { return ceil(x); }
};
struct Round : Rounding {
  STAVE_VALUE(T x) { return rint(x); }  // ties to even, as in NumPy
};
struct Trunc : Rounding {
  STAVE_VALUE(T x) { return trunc(x); }
};
struct LogicalNot : Logical {
  STAVE_VALUE(T x) { return x == T(0); }
};
struct Isnan : Predicate {
  STAVE_VALUE(T x) { return x != x; }
};
struct Isinf : Predicate {
  STAVE_VALUE(T x) { return isinf(x); }
};
struct Isfinite : Predicate {
  STAVE_VALUE(T x) { return isfinite(x); }
};
struct Signbit : Elementwise<Operands::floats, Work::arithmetic, Result::boolean, true> {
  STAVE_VALUE(T x) { return signbit(x); }
};
struct BitwiseInvert : Bitwise {
  STAVE_VALUE(T x) { return ~x; }
};

// ---- two operands ---------------------------------------------------------------------------

struct Add : Numbers {
  STAVE_VALUE(T a, T b) { return a + b; }
  STAVE_PARTIAL(tangent0, const X& da) { return da; }
  STAVE_PARTIAL(tangent1, const X& db) { return db; }
};
struct Subtract : Numbers {
  STAVE_VALUE(T a, T b) { return a - b; }
  STAVE_PARTIAL(tangent0, const X& da) { return da; }
  STAVE_PARTIAL(tangent1, const X& db) { return negative(db); }
};
struct Multiply : Numbers {
  static constexpr bool bilinear = true;
  STAVE_VALUE(T a, T b) { return a * b; }
  STAVE_PARTIAL(partial0, const X&, const X& b, const X&) { return b; }
  STAVE_PARTIAL(partial1, const X& a, const X&, const X&) { return a; }
};
/// 0 where a or b is 0, else a * b. Rules multiply partials with tangents and cotangents by this
/// product, so that no NaN or infinity leaks from a branch that was not taken. It is bilinear,
/// so its derivatives are again this product.
struct Scale : Numbers {
  static constexpr bool bilinear = true;
  // One multiplication and one selection by a mask.
  STAVE_VALUE(T a, T b) { return select((a != T(0)) & (b != T(0)), a * b, T(0)); }
  STAVE_PARTIAL(partial0, const X&, const X& b, const X&) { return b; }
  STAVE_PARTIAL(partial1, const X& a, const X&, const X&) { return a; }
};
/// 0 where a is 0 or b is infinite, else a / b. This is scale(a, 1 / b), but the inverse 1 / b
/// would overflow for small b and lose digits for large b. d(a/b) = da/b - (a/b) db/b
struct ScaleByInverse : Floats {
  STAVE_VALUE(T a, T b) { return select((a == T(0)) | isinf(b), T(0), a / b); }
  STAVE_PARTIAL(times0, const X& factor, const X&, const X& b, const X&) { return scale_by_inverse(factor, b); }
  STAVE_PARTIAL(times1, const X& factor, const X&, const X& b, const X& y) {
    return -scale_by_inverse(scale(factor, y), b);
  }
};
struct Divide : Floats {
  STAVE_VALUE(T a, T b) { return a / b; }
  STAVE_PARTIAL(times0, const X& factor, const X&, const X& b, const X&) { return scale_by_inverse(factor, b); }
  STAVE_PARTIAL(times1, const X& factor, const X&, const X& b, const X& y) {
    return -scale_by_inverse(scale(factor, y), b);
  }
};
/// exp(a b), corrected for the rounding error of the product.
struct ExpOfProduct : FloatFunction {
  STAVE_VALUE(T a, T b) {
    T product = a * b, lost = lost_of_product(a, b, product), y = exp(product);
    return select(isfinite(lost) & isfinite(y), y + y * lost, y);
  }
  STAVE_PARTIAL(partial0, const X& a, const X& b, const X&) { return scale(b, exp_of_product(a, b)); }
  STAVE_PARTIAL(partial1, const X& a, const X& b, const X&) { return scale(a, exp_of_product(a, b)); }
};
struct FloorDivide : Elementwise<Operands::numbers, Work::remainder, Result::same, true> {
  // floor(a / b); an integer divided by 0 is 0.
  STAVE_VALUE(T a, T b) { return floor_divide(a, b); }
};
struct Remainder : Elementwise<Operands::numbers, Work::remainder> {
  // The result has the sign of b, as Python's %. An integer modulo 0 is 0.
  STAVE_VALUE(T a, T b) { return remainder(a, b); }
  STAVE_PARTIAL(tangent0, const X& da) { return da; }
  STAVE_PARTIAL(partial1, const X& a, const X& b, const X&) { return -floor(a / b); }
};
struct Pow : Elementwise<Operands::numbers, Work::function> {
  STAVE_VALUE(T a, T b) { return pow(a, b); }
  STAVE_PARTIAL(partial0, const X& a, const X& b, const X&) { return power_rule(a, b); }
  // a^b log a, which tends to 0 at a = 0 for b > 0.
  STAVE_PARTIAL(partial1, const X& a, const X&, const X& y) { return scale(y, log(a)); }
};
/// b a^(b-1), which is 0 for b = 0 at any a. For b below 1/2 the difference b - 1 rounds,
/// and a^(b-1) may overflow although b is small. There the result is computed as b a^b / a.
struct PowerRule : FloatFunction {
  STAVE_VALUE(T a, T b) {
    auto divides = (b < T(0.5)) & (a != T(0)) & isfinite(a);
    T power = pow(a, select(divides, b, b - T(1)));
    T product = select((b == T(0)) | (power == T(0)), T(0), b * power);
    return select(divides, product / a, product);
  }
  // b (b-1) a^(b-2)
  STAVE_PARTIAL(partial0, const X& a, const X& b, const X&) { return scale(b, power_rule(a, b - 1)); }
  // a^(b-1) + b a^(b-1) log a
  STAVE_PARTIAL(partial1, const X& a, const X& b, const X& y) { return pow(a, b - 1) + scale(y, log(a)); }
};
/// x / (x^2 + y^2), computed in units of the larger of |x| and |y|, so that the squares neither
/// overflow nor underflow. It is 0 at the origin and at infinity. With u = x / (x^2 + y^2)
/// and v = y / (x^2 + y^2), the real and imaginary part of 1 / (x - i y):
///   du = (v^2 - u^2) dx - 2 u v dy
struct OverSquaredRadius : Floats {
  STAVE_VALUE(T x, T y) {
    T larger = select(abs(x) > abs(y), abs(x), abs(y)), a = x / larger, b = y / larger;
    return select((larger == T(0)) | isinf(larger), T(0), a / (a * a + b * b) / larger);
  }
  STAVE_PARTIAL(times0, const X& factor, const X& x, const X& y, const X& u) {
    // Two terms instead of (v - u) (v + u), whose derivative would be a difference that loses
    // digits.
    const X v = over_squared_radius(y, x);
    return scale(scale(factor, v), v) - scale(scale(factor, u), u);
  }
  STAVE_PARTIAL(times1, const X& factor, const X& x, const X& y, const X& u) {
    return -2 * scale(scale(factor, u), over_squared_radius(y, x));
  }
};
struct Atan2 : FloatFunction {
  STAVE_VALUE(T y, T x) { return atan2(y, x); }
  // The angle has no derivative at the origin. The derivative is defined as 0 there, as for `norm`.
  STAVE_PARTIAL(partial0, const X& y, const X& x, const X&) { return over_squared_radius(x, y); }
  STAVE_PARTIAL(partial1, const X& y, const X& x, const X&) { return -over_squared_radius(y, x); }
};
/// Returns an operand's share of the derivative of maximum or minimum: 1 where the operand is the
/// result (`wins`), 1/2 where both operands are equal (`ties`), else 0.
template <class X>
constexpr X share(const X& wins, const X& ties, const X& like) {
  return where(ties, 0.5, astype(wins, like.dtype()));
}
struct Maximum : Numbers {
  // The result is NaN if either operand is NaN, as in NumPy's maximum.
  STAVE_VALUE(T a, T b) { return select((a > b) | (a != a), a, b); }
  STAVE_PARTIAL(partial0, const X& a, const X& b, const X&) { return share(a > b, a == b, a); }
  STAVE_PARTIAL(partial1, const X& a, const X& b, const X&) { return share(b > a, a == b, a); }
};
struct Minimum : Numbers {
  STAVE_VALUE(T a, T b) { return select((a < b) | (a != a), a, b); }
  STAVE_PARTIAL(partial0, const X& a, const X& b, const X&) { return share(a < b, a == b, a); }
  STAVE_PARTIAL(partial1, const X& a, const X& b, const X&) { return share(b < a, a == b, a); }
};
/// sqrt(x^2 + y^2), whose squares neither overflow nor underflow.
struct Hypot : FloatFunction {
  STAVE_VALUE(T x, T y) { return hypot(x, y); }
  STAVE_PARTIAL(partial0, const X& x, const X& y, const X&) { return direction_cosine(x, y); }
  STAVE_PARTIAL(partial1, const X& x, const X& y, const X&) { return direction_cosine(y, x); }
};
/// x / r with r = sqrt(x^2 + y^2). It is 0 at the origin. At infinity it is the derivative of
/// max(|x|, |y|), as for `norm`. With the sine s = y / r, the derivative with respect to x is s^2 /
/// r, and that with respect to y is -(x / r) s / r. (1 / r - x^2 / r^3 equals s^2 / r, but loses
/// digits.)
struct DirectionCosine : FloatFunction {
  STAVE_VALUE(T x, T y) {
    // A large point is multiplied by 1/4, so that its radius does not overflow.
    auto large = (abs(x) > T(1)) | (abs(y) > T(1));
    T unit = select(large, T(0.25), T(1)), a = x * unit, b = y * unit, r = hypot(a, b);
    T beyond = select(abs(x) > abs(y), T(1), select(abs(x) == abs(y), T(0.5), T(0)));
    return select(r == T(0), T(0), select(isinf(r), copysign(beyond, x), a / r));
  }
  STAVE_PARTIAL(times0, const X& factor, const X& x, const X& y, const X&) {
    const X sine = direction_cosine(y, x);
    return scale(scale_by_inverse(scale(factor, sine), hypot(x, y)), sine);
  }
  STAVE_PARTIAL(times1, const X& factor, const X& x, const X& y, const X& cosine) {
    return -scale_by_inverse(scale(scale(factor, cosine), direction_cosine(y, x)), hypot(x, y));
  }
};
/// log(e^a + e^b)
struct Logaddexp : FloatFunction {
  // The larger operand plus log1p(e^-|a - b|). For equal infinities a - b is NaN, so a tie has
  // its own case.
  STAVE_VALUE(T a, T b) {
    T larger = select((a > b) | (a != a), a, b), rest = log1p(exp(-abs(a - b)));
    return select(a == b, a + T(0.6931471805599453), larger + rest);
  }
  STAVE_PARTIAL(partial0, const X& a, const X& b, const X&) { return part(a, b); }
  STAVE_PARTIAL(partial1, const X& a, const X& b, const X&) { return part(b, a); }

 private:
  // e^a / (e^a + e^b)
  template <class X>
  static constexpr X part(const X& a, const X& b) {
    return sigmoid(where(logical_and(a == b, isinf(a)), 0, a - b));
  }
};
/// x log(y), and 0 where x is 0 and y is not NaN.
struct Xlogy : FloatFunction {
  STAVE_VALUE(T x, T y) { return select((x == T(0)) & (y == y), T(0), x * log(y)); }
  STAVE_PARTIAL(partial0, const X&, const X& y, const X&) { return log(y); }
  STAVE_PARTIAL(times1, const X& factor, const X& x, const X& y, const X&) {
    return scale_by_inverse(scale(factor, x), y);
  }
};
/// x log1p(y), and 0 where x is 0 and y is not NaN.
struct Xlog1py : FloatFunction {
  STAVE_VALUE(T x, T y) { return select((x == T(0)) & (y == y), T(0), x * log1p(y)); }
  STAVE_PARTIAL(partial0, const X&, const X& y, const X&) { return log1p(y); }
  STAVE_PARTIAL(times1, const X& factor, const X& x, const X& y, const X&) {
    return scale_by_inverse(scale(factor, x), 1 + y);
  }
};
/// The Hurwitz zeta function: the sum of (q + k)^-s over k = 0, 1, 2, ...
struct Zeta : FloatFunction {
  STAVE_VALUE(T s, T q) { return zeta(s, q); }
  STAVE_PARTIAL(partial0, const X& s, const X& q, const X&) { return zeta_derivative(1, s, q); }
  STAVE_PARTIAL(partial1, const X& s, const X& q, const X&) { return -s * zeta(s + 1, q); }
};
struct Copysign : Floats {
  STAVE_VALUE(T x, T y) { return copysign(x, y); }
  // The derivative is 0 at x = 0, as for |x|.
  STAVE_PARTIAL(partial0, const X& x, const X& y, const X&) { return sign(x) * copysign(1, y); }
  STAVE_PARTIAL(partial1, const X&, const X& y, const X&) { return scale(y, 0); }  // 0
};
struct Nextafter : Elementwise<Operands::floats, Work::arithmetic, Result::same, true> {
  STAVE_VALUE(T x, T y) { return nextafter(x, y); }
};
struct Equal : Predicate {
  STAVE_VALUE(T a, T b) { return a == b; }
};
struct NotEqual : Predicate {
  STAVE_VALUE(T a, T b) { return a != b; }
};
struct Less : Predicate {
  STAVE_VALUE(T a, T b) { return a < b; }
};
struct LessEqual : Predicate {
  STAVE_VALUE(T a, T b) { return a <= b; }
};
struct Greater : Predicate {
  STAVE_VALUE(T a, T b) { return a > b; }
};
struct GreaterEqual : Predicate {
  STAVE_VALUE(T a, T b) { return a >= b; }
};
struct LogicalAnd : Logical {
  STAVE_VALUE(T a, T b) { return (a != T(0)) & (b != T(0)); }
};
struct LogicalOr : Logical {
  STAVE_VALUE(T a, T b) { return (a != T(0)) | (b != T(0)); }
};
struct LogicalXor : Logical {
  STAVE_VALUE(T a, T b) { return (a != T(0)) ^ (b != T(0)); }
};
struct BitwiseAnd : Bitwise {
  STAVE_VALUE(T a, T b) { return a & b; }
};
struct BitwiseOr : Bitwise {
  STAVE_VALUE(T a, T b) { return a | b; }
};
struct BitwiseXor : Bitwise {
  STAVE_VALUE(T a, T b) { return a ^ b; }
};
// A shift by at least as many places as the type has bits gives 0, or -1 for a negative number that
// is shifted to the right. A negative number of places, read as unsigned, is such a shift.
struct BitwiseLeftShift : Shift {
  STAVE_VALUE(T a, T places) { return shifted_left(a, places); }
};
struct BitwiseRightShift : Shift {
  STAVE_VALUE(T a, T places) { return shifted_right(a, places); }
};

}  // namespace stave_detail
