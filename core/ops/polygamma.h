// The digamma function and the Hurwitz zeta function, from which all polygamma functions are
// computed. They are written once over the value types of elementwise_ops.h, in double precision.
#pragma once

#include <stave/core/ops/elementwise_ops.h>

namespace stave_detail {

/// Coefficients for digamma, the highest power first.
struct DigammaDouble {
  // A polynomial in 2 x - 3 that approximates digamma(x) / (x - root) for 1 <= x <= 2. It
  // interpolates at Chebyshev's points, with an error below 4e-18.
  double central[23] = {
      2.832706668021759e-11,  -8.498137230186096e-11,  9.206434499177992e-11,  -2.7619635330317715e-10,
      1.2358072433984831e-09, -3.7075072647122386e-09, 1.0542687624027994e-08, -3.163020268955334e-08,
      9.542050972688906e-08,  -2.86315275846934e-07,   8.589127353033379e-07,  -2.57809436305308e-06,
      7.741232223504057e-06,  -2.325824239445257e-05,  6.995018873950506e-05,  -0.00021074841140458636,
      0.0006368880303257201,  -0.0019350666648590097,  0.005936795278305649,   -0.018550615381735115,
      0.060135621060196744,   -0.2118137106407303,     0.9510558760318328};
  // root + root_rest is the positive root of digamma.
  double root = 0x1.762d86356be3fp+0, root_rest = 0x1.b86a722197829p-54;
  // B_2k / 2k for k = 8, ..., 1, where B_n are the Bernoulli numbers: digamma(x) is
  // log x - 1 / (2 x) - the sum of B_2k / (2k x^2k) over k (Abramowitz and Stegun 6.3.18).
  double tail[8] = {-0.44325980392156862745,   0.083333333333333333333,   -0.021092796092796092796,
                    0.0075757575757575757576,  -0.0041666666666666666667, 0.003968253968253968254,
                    -0.0083333333333333333333, 0.083333333333333333333};
};

/// digamma(x) for x >= 0. Below 10 it uses the recurrence digamma(x + 1) = digamma(x) + 1 / x,
/// starting between 1 and 2; from 10 on it uses the asymptotic series.
template <class T>
STAVE_HOST_DEVICE T digamma_of_positive(T x) {
  constexpr DigammaDouble c;
  const T one(1);
  const auto below = x < one;
  T sum = select(below, -(one / x), T(0)), shifted = select(below, x + one, x);
  for (int i = 0; i < 8; ++i) {
    const auto above = shifted > T(2);
    const T lower = shifted - one;
    sum = select(above, sum + one / lower, sum);
    shifted = select(above, lower, shifted);
  }
  const T central = sum + ((shifted - T(c.root)) - T(c.root_rest)) * polynomial(shifted + shifted - T(3), c.central);
  const T z = one / (x * x);
  const T asymptotic = log(x) - T(0.5) / x - z * polynomial(z, c.tail);
  return select(x < T(10), central, asymptotic);
}
/// digamma(x) for any x. For x < 0 it uses the reflection formula (Abramowitz and Stegun 6.3.7)
///   digamma(1 - x) = digamma(x) + pi / tan(pi x).
/// At the negative integers, which are poles, the result is NaN.
template <class T>
STAVE_HOST_DEVICE T digamma_of(T x) {
  const auto negative = x < T(0);
  const T y = digamma_of_positive(select(negative, T(1) - x, x));
  if (!any(negative)) return y;
  const T pi(3.14159265358979323846), part = x - rint(x);  // the remainder is exact
  const T reflection = select(part == T(0), part / part, pi / tan(pi * part));
  return select(negative, y - reflection, y);
}

struct ZetaDouble {
  static constexpr int terms = 10;
  // B_2k / (2 k)! for k = 9, ..., 1, where B_n are the Bernoulli numbers.
  double tail[9] = {8.5860620562778445641e-15,  -3.3896802963225828668e-13, 1.3382536530684678833e-11,
                    -5.2841901386874931848e-10, 2.0876756987868098979e-8,   -8.2671957671957671958e-7,
                    3.3068783068783068783e-5,   -0.0013888888888888888889,  0.083333333333333333333};
};

/// The fraction by which (a + b)^-s is less than sum^-s, where `sum` is a + b rounded:
/// s / sum times the rounding error of the sum (Knuth, "The Art of Computer Programming", volume 2,
/// section 4.2.2, theorem B). Uncorrected, the error would be s / 2 units in the last place.
template <class T>
STAVE_HOST_DEVICE T lost_by_sum(T a, T b, T sum, T s) {
  const T of_b = sum - a, lost = s * ((a - (sum - of_b)) + (b - of_b)) / sum;
  return select(abs(lost) < T(0.01), lost, T(0));  // lost is NaN if sum is 0 or infinite
}

/// zeta(s, q) for s > 1 and q > 0. Ten terms are added one by one. The rest of the sum, from
/// a = q + 10 on, is computed by the Euler-Maclaurin formula (Apostol, "Introduction to Analytic
/// Number Theory", 1976, theorem 12.21 and the remark on it):
///   a^(1-s) / (s-1)
///     + a^-s (1/2 + s/a (B_2/2! + (s+1)(s+2)/a^2 (B_4/4! + (s+3)(s+4)/a^2 (...)))).
template <class T>
STAVE_HOST_DEVICE T zeta_of_positive(T s, T q) {
  constexpr ZetaDouble c;
  constexpr int terms = ZetaDouble::terms, order = 9;
  const T one(1), a = q + T(terms), z = one / (a * a);
  const T integral = pow(a, one - s) * (one - lost_by_sum(q, T(terms), a, s - one)), last = integral / a;
  T series(c.tail[0]);
  for (int k = 1; k < order; ++k) {
    const T up = s + T(2 * (order - k));
    series = T(c.tail[k]) + (up - one) * up * z * series;
  }
  // If the factor `last` underflows to 0, the product counts as 0, because the other factor may
  // overflow.
  T sum = integral / (s - one) + select(last == T(0), T(0), last * (T(0.5) + s / a * series));
  for (int k = terms - 1; k > 0; --k) {
    const T at = q + T(k);
    sum = sum + pow(at, -s) * (one - lost_by_sum(q, T(k), at, s));
  }
  return sum + pow(q, -s);
}
/// zeta(s, q) for any s and q. It is NaN for s < 1, and for negative q unless s is an integer.
/// It is infinite for s = 1, and at the poles q = 0, -1, -2, ... At any other negative q
/// with the fraction f = q - floor(q), the negative bases q + k have the absolute values 1 - f,
/// 2 - f, ..., -q:
///   zeta(s, q) = zeta(s, f) + (-1)^s (zeta(s, 1 - f) - zeta(s, 1 - q)).
template <class T>
STAVE_HOST_DEVICE T zeta_of(T s, T q) {
  const T one(1), infinity(__builtin_inf()), nan(__builtin_nan(""));
  const auto negative = q < T(0);
  T y = zeta_of_positive(s, select(negative, q - floor(q), q));
  if (any(negative)) {
    const T p = select(negative, -q, one);
    const T left = zeta_of_positive(s, p - floor(p)), beyond = zeta_of_positive(s, one + p);
    const T half = T(0.5) * s;
    const T both = select(half == floor(half), (y + left) - beyond, (y - left) + beyond);
    y = select(negative, select(s == floor(s), both, nan), y);
  }
  y = select((q == floor(q)) & (q <= T(0)), infinity, y);
  y = select(s > one, y, select(s == one, infinity, nan));
  return select(q == q, y, q);
}

}  // namespace stave_detail
