// Elementwise operations on complex numbers, as formulas of their real and imaginary parts. They
// serve lowered code (lower.h), which has no complex numbers, and StableHLO text, for the complex
// functions that StableHLO lacks.
//
// T is a value type of core/ops/elementwise_ops.h: comparisons return masks, and `select` chooses,
// so both branches of a choice are computed. The operations of is_complex_arithmetic(), `scale` and
// `scale_by_inverse` among them, round exactly like the CPU's kernels (complex_functions.h). The
// other functions are accurate to some units in the last place of the absolute value of the result;
// branch cuts are those of C's Annex G.
#pragma once

#include <limits>

#include <stave/core/op/all_ops.h>
#include <stave/core/ops/elementwise_ops.h>

namespace stave_detail {

using stave::OpId;

template <class T>
struct Parts {
  T re, im;

  friend Parts operator+(Parts a, Parts b) { return {a.re + b.re, a.im + b.im}; }
  friend Parts operator-(Parts a, Parts b) { return {a.re - b.re, a.im - b.im}; }
  friend Parts operator-(Parts a) { return {-a.re, -a.im}; }
  friend Parts operator*(Parts a, Parts b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
  friend Parts operator*(T a, Parts b) { return {a * b.re, a * b.im}; }
};
template <class Mask, class T>
Parts<T> select(Mask condition, Parts<T> a, Parts<T> b) {
  return {select(condition, a.re, b.re), select(condition, a.im, b.im)};
}
template <class T>
Parts<T> parts_of(double re, double im = 0) {
  return {T(re), T(im)};
}

// ---- arithmetic, as in complex_functions.h ------------------------------------------------------

template <class T>
auto parts_are_zero(Parts<T> z) {
  return (z.re == T(0)) & (z.im == T(0));
}
template <class T>
auto parts_are_infinite(Parts<T> z) {
  return isinf(z.re) | isinf(z.im);
}
template <class T>
auto parts_are_finite(Parts<T> z) {
  return isfinite(z.re) & isfinite(z.im);
}

/// a / b by Smith's method. Its two cases (which part of b is the larger) are one formula, up to
/// the sign of a difference: p is the larger part of b, and u is the same part of a.
template <class T>
Parts<T> parts_divide(Parts<T> a, Parts<T> b) {
  const T zero(0);
  const auto imaginary_is_larger = (abs(b.re) < abs(b.im)) | (b.re != b.re) | (b.im != b.im);
  const T p = select(imaginary_is_larger, b.im, b.re), q = select(imaginary_is_larger, b.re, b.im);
  const T u = select(imaginary_is_larger, a.im, a.re), v = select(imaginary_is_larger, a.re, a.im);
  const T ratio = q / p, whole = p + q * ratio, u_ratio = u * ratio;
  const Parts<T> scaled{u + v * ratio, select(imaginary_is_larger, u_ratio - v, v - u_ratio)};
  const auto by_zero = p == zero;
  const T divisor = select(by_zero, abs(b.re), whole);
  const Parts<T> numerator = select(by_zero, a, scaled);
  const Parts<T> usual{numerator.re / divisor, numerator.im / divisor};

  // An infinite operand counts as its direction: infinite parts become 1 or -1, finite ones 0.
  const auto direction = [](Parts<T> z) {
    const auto of = [](T x) { return copysign(select(isinf(x), T(1), T(0)), x); };
    return Parts<T>{of(z.re), of(z.im)};
  };
  const Parts<T> d = direction(b), e = direction(a);
  const Parts<T> vanishing{zero * (a.re * d.re + a.im * d.im), zero * (a.im * d.re - a.re * d.im)};
  const T infinity(std::numeric_limits<double>::infinity());
  const Parts<T> infinite_quotient{infinity * (e.re * b.re + e.im * b.im), infinity * (e.im * b.re - e.re * b.im)};
  const auto a_is_finite = parts_are_finite(a), b_is_finite = parts_are_finite(b);
  const auto b_is_nonzero = (b.re != zero) | (b.im != zero);
  return select(parts_are_infinite(b) & a_is_finite, vanishing,
                select(parts_are_infinite(a) & b_is_finite & b_is_nonzero, infinite_quotient, usual));
}
template <class T>
Parts<T> parts_scale(Parts<T> a, Parts<T> b) {
  return select(parts_are_zero(a) | parts_are_zero(b), parts_of<T>(0), a * b);
}
template <class T>
Parts<T> parts_scale_by_inverse(Parts<T> a, Parts<T> b) {
  return select(parts_are_zero(a) | parts_are_infinite(b), parts_of<T>(0), parts_divide(a, b));
}

// ---- exponentials and logarithms ----------------------------------------------------------------

/// sqrt(z), from t = sqrt((|x| + |z|) / 2) and y / (2 t). Very large numbers are divided by 4.
template <class T>
Parts<T> parts_sqrt(Parts<T> z) {
  const T zero(0), limit(is_double(z.re) ? 0x1p1000 : 0x1p120);
  const auto large = (abs(z.re) > limit) | (abs(z.im) > limit);
  const T unit = select(large, T(0.25), T(1)), back = select(large, T(2), T(1));
  const T x = z.re * unit, y = z.im * unit, t = sqrt(T(0.5) * (abs(x) + hypot(x, y)));
  const T other = select(t == zero, y, y / (t + t));
  const Parts<T> root = select(x < zero, Parts<T>{abs(other), copysign(t, y)}, Parts<T>{t, other});
  const T infinity(std::numeric_limits<double>::infinity());
  return select(isinf(z.im), Parts<T>{infinity, z.im}, back * root);
}

/// e^z. Where e^x alone would overflow, the result is computed as e^32 e^(z - 32).
template <class T>
Parts<T> parts_exp(Parts<T> z) {
  const T zero(0);
  const auto large = z.re > T(is_double(z.re) ? 700. : 80.);
  const T e = exp(select(large, z.re - T(32), z.re)), unit = select(large, T(78962960182680.695), T(1));
  const Parts<T> y = unit * Parts<T>{e * cos(z.im), e * sin(z.im)};
  const T whole = e * unit;
  const Parts<T> of_real = {whole, z.im}, tiny = {zero, copysign(zero, z.im)};
  const auto has_no_angle = (z.im - z.im) != zero;
  return select(z.im == zero, of_real, select((whole == zero) & has_no_angle, tiny, y));
}

/// The product of a factor that is finite, such as a sine, with one that may be infinite.
template <class T>
T finite_times(T a, T b) {
  return select(a == T(0), a, a * b);
}

/// x^2 + y^2 - 1, accurate where the terms cancel.
template <class T>
T parts_radius_minus_one(T x, T y) {
  const T a = abs(x), b = abs(y), larger = select(a > b, a, b), smaller = select(a > b, b, a);
  const T square = larger * larger, other = smaller * smaller;
  const T rest = lost_of_product(larger, larger, square) + lost_of_product(smaller, smaller, other);
  const T above = square - T(1), total = above + other, added = total - above;
  return total + (rest + ((above - (total - added)) + (other - added)));
}

/// log(z): near the unit circle by log1p(|z|^2 - 1) / 2.
template <class T>
Parts<T> parts_log(Parts<T> z) {
  const T edge(is_double(z.re) ? 0x1p1000 : 0x1p120);
  const auto is_large = (abs(z.re) > edge) | (abs(z.im) > edge);
  const T unit = select(is_large, T(0.25), T(1)), back = select(is_large, T(1.3862943611198906), T(0));
  const T radius = hypot(z.re * unit, z.im * unit);
  const auto is_near_one = (radius > T(0.7)) & (radius < T(1.4));
  const T safe_x = select(is_near_one, z.re, T(1)), safe_y = select(is_near_one, z.im, T(0));
  const T log_near_one = T(0.5) * log1p(parts_radius_minus_one(safe_x, safe_y));
  return {select(is_near_one, log_near_one, log(radius) + back), atan2(z.im, z.re)};
}

/// log(1 + z): for small parts by log1p(x^2 + 2 x + y^2) / 2.
template <class T>
Parts<T> parts_log1p(Parts<T> z) {
  const auto is_small = (abs(z.re) < T(1)) & (abs(z.im) < T(1));
  const T x = select(is_small, z.re, T(0)), y = select(is_small, z.im, T(0));
  const T square = x * x, other = y * y, twice = x + x;
  T rest = lost_of_product(x, x, square) + lost_of_product(y, y, other);
  const auto sum = [&](T a, T b) {
    const T total = a + b, added = total - a;
    rest = rest + ((a - (total - added)) + (b - added));
    return total;
  };
  const T pair = sum(square, other), total = sum(twice, pair);
  const Parts<T> log_near_one{T(0.5) * log1p(total + rest), atan2(z.im, T(1) + z.re)};
  return select(is_small, log_near_one, parts_log(Parts<T>{T(1) + z.re, z.im}));
}

/// e^z - 1, whose real part is expm1(x) cos(y) - 2 sin(y / 2)^2.
template <class T>
Parts<T> parts_expm1(Parts<T> z) {
  const Parts<T> e = parts_exp(z);
  const T half = sin(T(0.5) * z.im), near = expm1(z.re) * cos(z.im) - T(2) * half * half;
  const auto is_finite = parts_are_finite(z) & isfinite(near);
  return {select(is_finite, near, e.re - T(1)), e.im};
}

/// 2^z. The angle y log(2) is computed with twice the digits.
template <class T>
Parts<T> parts_exp2(Parts<T> z) {
  const T log_2(is_double(z.re) ? 0.6931471805599453 : 0.693147182464599609375);
  const T log_2_rest(is_double(z.re) ? 2.3190468138462996e-17 : -1.904654323148236e-9);
  const T angle = z.im * log_2, rest = lost_of_product(z.im, log_2, angle) + z.im * log_2_rest;
  const T c = cos(angle), s = sin(angle), root = exp2(T(0.5) * z.re);
  const Parts<T> y = root * (root * Parts<T>{c - rest * s, s + rest * c});
  const Parts<T> special = parts_exp(Parts<T>{z.re, angle}), of_real{exp2(z.re), z.im};
  return select(z.im == T(0), of_real, select(parts_are_finite(z), y, special));
}

template <class T>
Parts<T> parts_sigmoid(Parts<T> z) {
  const auto right = z.re >= T(0);
  const Parts<T> e = parts_exp(select(right, -z, z)), one = parts_of<T>(1);
  return parts_divide(select(right, one, e), one + e);
}
template <class T>
Parts<T> parts_logistic_density(Parts<T> z) {
  const Parts<T> e = parts_exp(select(z.re >= T(0), -z, z)), sum = parts_of<T>(1) + e;
  return parts_divide(e, sum * sum);
}
template <class T>
Parts<T> parts_sech_squared(Parts<T> z) {
  const Parts<T> twice = T(2) * z, e = parts_exp(select(z.re >= T(0), -twice, twice)), sum = parts_of<T>(1) + e;
  return T(4) * parts_divide(e, sum * sum);
}

// ---- trigonometric and hyperbolic functions -----------------------------------------------------

// parts_times_i is i z, and parts_times_minus_i is -i z. They turn hyperbolic functions into
// trigonometric ones, as in sin(z) = -i sinh(i z).
template <class T>
Parts<T> parts_times_i(Parts<T> z) {
  return {-z.im, z.re};
}
template <class T>
Parts<T> parts_times_minus_i(Parts<T> z) {
  return {z.im, -z.re};
}

template <class T>
Parts<T> parts_sinh(Parts<T> z) {
  return {finite_times(cos(z.im), sinh(z.re)), finite_times(sin(z.im), cosh(z.re))};
}
template <class T>
Parts<T> parts_cosh(Parts<T> z) {
  return {finite_times(cos(z.im), cosh(z.re)), finite_times(sin(z.im), sinh(z.re))};
}
template <class T>
Parts<T> parts_sin(Parts<T> z) {
  return {finite_times(sin(z.re), cosh(z.im)), finite_times(cos(z.re), sinh(z.im))};
}
template <class T>
Parts<T> parts_cos(Parts<T> z) {
  return {finite_times(cos(z.re), cosh(z.im)), -finite_times(sin(z.re), sinh(z.im))};
}

/// tanh(z) by W. Kahan, "Branch cuts for complex elementary functions", 1987: with t = tan(y),
/// b = 1 + t^2 and s = sinh(x), it is (b cosh(x) s + i t) / (1 + b s^2).
template <class T>
Parts<T> parts_tanh(Parts<T> z) {
  const auto is_far = abs(z.re) > T(20);
  const T x = select(is_far, T(0), z.re), t = tan(z.im), b = T(1) + t * t, s = sinh(x), divisor = T(1) + b * s * s;
  const Parts<T> near{b * cosh(x) * s / divisor, t / divisor};
  const T angle = select(isfinite(z.im), z.im, T(0));
  const Parts<T> beyond{copysign(T(1), z.re), T(4) * (sin(angle) * cos(angle) * exp(T(-2) * abs(z.re)))};
  return select(is_far, beyond, near);
}
template <class T>
Parts<T> parts_tan(Parts<T> z) {
  return parts_times_minus_i(parts_tanh(parts_times_i(z)));
}

// The inverse functions are Kahan's, with r = sqrt(1 - z) and s = sqrt(1 + z).

/// Im(conj(a) b)
template <class T>
T parts_cross(Parts<T> a, Parts<T> b) {
  return a.re * b.im - a.im * b.re;
}
template <class T>
Parts<T> parts_asin(Parts<T> z) {
  const Parts<T> r = parts_sqrt(Parts<T>{T(1) - z.re, -z.im}), s = parts_sqrt(Parts<T>{T(1) + z.re, z.im});
  return {atan2(z.re, r.re * s.re - r.im * s.im), asinh(parts_cross(r, s))};
}
template <class T>
Parts<T> parts_acos(Parts<T> z) {
  const Parts<T> r = parts_sqrt(Parts<T>{T(1) - z.re, -z.im}), s = parts_sqrt(Parts<T>{T(1) + z.re, z.im});
  return {T(2) * atan2(r.re, s.re), asinh(parts_cross(s, r))};
}
template <class T>
Parts<T> parts_asinh(Parts<T> z) {
  return parts_times_minus_i(parts_asin(parts_times_i(z)));
}
template <class T>
Parts<T> parts_acosh(Parts<T> z) {
  const Parts<T> r = parts_sqrt(Parts<T>{z.re - T(1), z.im}), s = parts_sqrt(Parts<T>{z.re + T(1), z.im});
  return {asinh(r.re * s.re + r.im * s.im), T(2) * atan2(r.im, s.re)};
}
/// The real part is log1p(4 x / ((1 - x)^2 + y^2)) / 4 for x >= 0, the imaginary part atan2(2 y, (1
/// - x) (1 + x) - y^2) / 2, where |x| and |y| are at most 2^50 (2^25 in float32). Beyond, they are
/// the real part of 1 / z, and pi / 2 with the sign of y.
template <class T>
Parts<T> parts_atanh(Parts<T> z) {
  const T x = abs(z.re), y = z.im, limit(is_double(y) ? 0x1p50 : 0x1p25);
  const auto is_far = (x > limit) | (abs(y) > limit);
  const T u = select(is_far, T(0), x), v = select(is_far, T(0), y), off = T(1) - u;
  const Parts<T> near{T(0.25) * log1p(T(4) * u / (off * off + v * v)), T(0.5) * atan2(v + v, off * (T(1) + u) - v * v)};
  const Parts<T> beyond{parts_divide(parts_of<T>(1), Parts<T>{x, y}).re, copysign(T(1.5707963267948966), y)};
  const Parts<T> found = select(is_far, beyond, near);
  return {copysign(found.re, z.re), copysign(found.im, y)};
}
template <class T>
Parts<T> parts_atan(Parts<T> z) {
  return parts_times_minus_i(parts_atanh(parts_times_i(z)));
}

// ---- powers -------------------------------------------------------------------------------------

/// a^b. Powers by whole numbers of up to 100 are products, as in complex_functions.h.
template <class T>
Parts<T> parts_pow(Parts<T> a, Parts<T> b) {
  constexpr int bits = 7;
  const T zero(0), count = abs(b.re);
  const auto is_whole = (b.im == zero) & (count <= T(100)) & (floor(count) == count);
  T left = select(is_whole, count, zero);
  Parts<T> product = parts_of<T>(1), factor = a;
  for (int i = 0; i < bits; ++i) {
    const T half = floor(left * T(0.5));
    product = select(left != half + half, product * factor, product);
    left = half;
    if (i + 1 < bits) factor = factor * factor;
  }
  const Parts<T> whole = select(b.re < zero, parts_divide(parts_of<T>(1), product), product);
  const Parts<T> power = select(is_whole, whole, parts_exp(b * parts_log(a)));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Parts<T> of_zero = select(b.re > zero, parts_of<T>(0), parts_of<T>(nan, nan));
  return select(parts_are_zero(b), parts_of<T>(1), select(parts_are_zero(a), of_zero, power));
}
template <class T>
Parts<T> parts_power_rule(Parts<T> a, Parts<T> b) {
  return select(parts_are_zero(b), parts_of<T>(0), b * parts_pow(a, b - parts_of<T>(1)));
}

// ---- by operation -------------------------------------------------------------------------------

/// Returns true for arithmetic, which is computed in the dtype of the parts. Functions are computed
/// in float64 and rounded once, as in the CPU's kernels.
constexpr bool is_complex_arithmetic(OpId id) {
  for (const OpId known : {OpId::negative, OpId::conj, OpId::square, OpId::reciprocal, OpId::add, OpId::subtract,
                           OpId::multiply, OpId::scale, OpId::divide, OpId::scale_by_inverse})
    if (id == known) return true;
  return false;
}

/// The result of an elementwise operation (takes_complex in all_ops.h, and conj) other than equal
/// and not_equal. An operation of one operand ignores b.
template <class T>
Parts<T> value_of_parts(OpId id, Parts<T> a, Parts<T> b) {
  const auto times = [](T factor, Parts<T> z) { return factor * z; };
  switch (id) {
    case OpId::negative: return -a;
    case OpId::conj: return {a.re, -a.im};
    case OpId::square: return a * a;
    case OpId::reciprocal: return parts_divide(parts_of<T>(1), a);
    case OpId::add: return a + b;
    case OpId::subtract: return a - b;
    case OpId::multiply: return a * b;
    case OpId::scale: return parts_scale(a, b);
    case OpId::divide: return parts_divide(a, b);
    case OpId::scale_by_inverse: return parts_scale_by_inverse(a, b);
    case OpId::sqrt: return parts_sqrt(a);
    case OpId::rsqrt: return parts_divide(parts_of<T>(1), parts_sqrt(a));
    case OpId::exp: return parts_exp(a);
    case OpId::exp2: return parts_exp2(a);
    case OpId::expm1: return parts_expm1(a);
    case OpId::log: return parts_log(a);
    case OpId::log2: return times(T(1.4426950408889634), parts_log(a));
    case OpId::log10: return times(T(0.4342944819032518), parts_log(a));
    case OpId::log1p: return parts_log1p(a);
    case OpId::sin: return parts_sin(a);
    case OpId::cos: return parts_cos(a);
    case OpId::tan: return parts_tan(a);
    case OpId::asin: return parts_asin(a);
    case OpId::acos: return parts_acos(a);
    case OpId::atan: return parts_atan(a);
    case OpId::sinh: return parts_sinh(a);
    case OpId::cosh: return parts_cosh(a);
    case OpId::tanh: return parts_tanh(a);
    case OpId::asinh: return parts_asinh(a);
    case OpId::acosh: return parts_acosh(a);
    case OpId::atanh: return parts_atanh(a);
    case OpId::sech_squared: return parts_sech_squared(a);
    case OpId::sigmoid: return parts_sigmoid(a);
    case OpId::logistic_density: return parts_logistic_density(a);
    case OpId::pow: return parts_pow(a, b);
    default: return parts_power_rule(a, b);
  }
}

}  // namespace stave_detail
