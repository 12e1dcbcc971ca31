// Helpers of the special functions of vectors (special.cpp): polynomials, calls of the scalar
// functions, and numbers of twice the precision.
//
// A result depends on its own arguments only, never on those of other lanes: a loop that some lanes
// leave earlier does not change these lanes any more.
#pragma once

#include <stave/backends/cpu/kernels/vec_math.h>
#include <stave/backends/cpu/special_functions.h>
#include <stave/backends/cpu/special_series.h>

namespace STAVE_KERNELS {

namespace scalar = stave_cpu::special;
using Lanes64 = Mask<double>;

inline constexpr double not_a_number = __builtin_nan(""), infinite = __builtin_inf();
inline constexpr double circle_half = 3.141592653589793;

/// Evaluates a polynomial of special_series.h. Even and odd powers are independent chains.
template <std::size_t n>
STAVE_INLINE F64 series(const stave_cpu::Series<n>& s, F64 u) {
  const F64 t = ((u - F64(s.low)) - (F64(s.high) - u)) * F64(1 / (s.high - s.low)), square = t * t;
  F64 even(0), odd(0);
  for (std::size_t i = n; i-- > 0;) {
    F64& sum = i % 2 ? odd : even;
    sum = multiply_add(sum, square, F64(s.coefficients[i]));
  }
  return multiply_add(t, odd, even);
}

STAVE_INLINE bool all(Lanes64 mask) { return !any(~mask); }

/// Replaces the lanes of y in the mask by results of a scalar function.
template <class... X, class... Arguments>
STAVE_INLINE F64 by_scalar(Lanes64 mask, F64 y, double (*f)(X...), Arguments... x) {
  if (!any(mask)) [[likely]]
    return y;
  for (int i = 0; i < F64::lanes; ++i)
    if (mask.bits[i]) y.raw[i] = f(x[i]...);
  return y;
}
/// An argument of by_scalar that is the same for all lanes.
struct Constant {
  double value;
  STAVE_INLINE double operator[](int) const { return value; }
};

// ---- numbers of twice the precision -------------------------------------------------------------
// Dekker, "A floating-point technique for extending the available precision", 1971.

/// The unevaluated sum of two numbers. The second one is at most half a unit of the first one.
struct DoubleDouble {
  F64 high, low;
};

/// a + b, where |a| >= |b| or a is 0.
STAVE_INLINE DoubleDouble ordered_sum(F64 a, F64 b) {
  const F64 sum = a + b;
  return {sum, b - (sum - a)};
}
STAVE_INLINE DoubleDouble exact_sum(F64 a, F64 b) {
  const F64 sum = a + b, given = sum - a;
  return {sum, (a - (sum - given)) + (b - given)};
}
/// Without a fused multiply-add the factors are split into halves of 26 bits.
STAVE_INLINE DoubleDouble exact_product(F64 a, F64 b) {
  const F64 product = a * b;
  if constexpr (has_fma) return {product, fma(a, b, -product)};
  const auto upper_half = [](F64 x) {
    const F64 scaled = x * F64(0x1p27 + 1);
    return scaled - (scaled - x);
  };
  const F64 a_high = upper_half(a), a_low = a - a_high, b_high = upper_half(b), b_low = b - b_high;
  return {product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low};
}
/// Returns c - a b, which is small. The product is exact.
STAVE_INLINE F64 rest_of(F64 c, F64 a, F64 b) {
  if constexpr (has_fma) return fma(-a, b, c);
  const DoubleDouble product = exact_product(a, b);
  return (c - product.high) - product.low;
}
STAVE_INLINE DoubleDouble operator+(DoubleDouble a, F64 b) {
  const DoubleDouble sum = exact_sum(a.high, b);
  return ordered_sum(sum.high, sum.low + a.low);
}
/// The error is relative to the larger operand, not to the sum.
STAVE_INLINE DoubleDouble operator+(DoubleDouble a, DoubleDouble b) {
  const DoubleDouble sum = exact_sum(a.high, b.high);
  return ordered_sum(sum.high, sum.low + (a.low + b.low));
}
STAVE_INLINE DoubleDouble operator-(DoubleDouble a) { return {-a.high, -a.low}; }
STAVE_INLINE DoubleDouble operator-(DoubleDouble a, DoubleDouble b) { return a + -b; }
STAVE_INLINE DoubleDouble operator*(DoubleDouble a, F64 b) {
  const DoubleDouble product = exact_product(a.high, b);
  return ordered_sum(product.high, multiply_add(a.low, b, product.low));
}
STAVE_INLINE DoubleDouble operator*(DoubleDouble a, DoubleDouble b) {
  const DoubleDouble product = exact_product(a.high, b.high);
  return ordered_sum(product.high, multiply_add(a.high, b.low, multiply_add(a.low, b.high, product.low)));
}
STAVE_INLINE DoubleDouble operator/(DoubleDouble a, DoubleDouble b) {
  const F64 inverse = F64(1) / b.high, quotient = a.high * inverse;
  const F64 rest = rest_of(a.high, quotient, b.high) + (a.low - quotient * b.low);
  return ordered_sum(quotient, rest * inverse);
}
/// A number that is the same for all lanes, as the quotient of two exact numbers.
STAVE_INLINE DoubleDouble quotient_of(double a, double b) {
  const double quotient = a / b;
  return {F64(quotient), F64(__builtin_fma(-quotient, b, a) / b)};
}
STAVE_INLINE DoubleDouble select(Lanes64 mask, DoubleDouble a, DoubleDouble b) {
  return {select(mask, a.high, b.high), select(mask, a.low, b.low)};
}

/// Returns the log of a positive normal number, with an error below 2^-62 of it. With x = 2^k m,
/// sqrt(1/2) <= m < sqrt(2), and s = (m - 1) / (m + 1): log m = 2 s (1 + s^2 / 3 + s^4 / 5 + ...).
STAVE_INLINE DoubleDouble log_pair(F64 x) {
  using Bits = Vec<std::int64_t>;
  const Bits bits{reinterpret_cast<Bits::Raw>(x.raw)};
  const Bits k{(bits - Bits(std::int64_t{0x3fe6a09e667f3bcd})).raw >> 52};
  const F64 m{reinterpret_cast<F64::Raw>((bits - Bits(k.raw << 52)).raw)};
  const F64 n{__builtin_convertvector(k.raw, F64::Raw)};
  const DoubleDouble below = ordered_sum(F64(1), m), divisor = select(m > F64(1), exact_sum(m, F64(1)), below);
  const F64 above = m - F64(1), inverse = F64(1) / divisor.high, quotient = above * inverse;
  const DoubleDouble s =
      ordered_sum(quotient, (rest_of(above, quotient, divisor.high) - quotient * divisor.low) * inverse);
  const DoubleDouble square = s * s;
  constexpr double c[] = {1. / 27, 1. / 25, 1. / 23, 1. / 21, 1. / 19, 1. / 17,
                          1. / 15, 1. / 13, 1. / 11, 1. / 9,  1. / 7,  1. / 5};
  const F64 rest = polynomial(square.high, c) * square.high;
  const DoubleDouble third = ordered_sum(F64(1. / 3), rest + F64(1.850371707708594e-17));
  const DoubleDouble log_m = s + s * (square * third);
  // log 2 in two parts; the product of n and the first part is exact.
  const DoubleDouble scale = exact_sum(n * F64(0x1.62e42feep-1), n * F64(1.9082149292705877e-10));
  return DoubleDouble{log_m.high + log_m.high, log_m.low + log_m.low} + scale;
}

STAVE_INLINE F64 exp_of_pair(DoubleDouble x) {
  const F64 y = exp(x.high);
  return multiply_add(y, x.low, y);
}

/// The sine and the cosine of an angle, with errors of about 1 unit. They have one reduction to
/// an angle within pi / 4 of a multiple of pi / 2, which is given in two parts.
struct SineCosine {
  F64 sine, cosine;
  STAVE_INLINE explicit SineCosine(F64 x) {
    const F64 n = rint(x * F64(2 / circle_half));
    const F64 r = rest_of(rest_of(x, n, F64(circle_half / 2)), n, F64(6.123233995736766e-17)), square = r * r;
    const F64 s = multiply_add(r * square, series(stave_cpu::sine_rest, square), r);
    const F64 half = F64(0.5) * square, near_one = F64(1) - half;
    const F64 c =
        near_one + multiply_add(square * square, series(stave_cpu::cosine_rest, square), (F64(1) - near_one) - half);
    // The quarter of the circle: 0, 1, 2 or 3.
    const F64 quarter = n - F64(4) * floor(n * F64(0.25));
    const Lanes64 is_odd = (quarter == F64(1)) | (quarter == F64(3)),
                  is_left = (quarter == F64(1)) | (quarter == F64(2));
    sine = select(is_odd, c, s);
    sine = select(quarter >= F64(2), -sine, sine);
    cosine = select(is_odd, s, c);
    cosine = select(is_left, -cosine, cosine);
    if (const Lanes64 large = abs(x) > F64(1e6); any(large)) {
      sine = select(large, sin(x), sine);
      cosine = select(large, cos(x), cosine);
    }
  }
};

}  // namespace STAVE_KERNELS
