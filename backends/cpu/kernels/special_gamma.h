// The incomplete gamma and beta functions, betaln, poch and expn of vectors, for moderate
// arguments; the scalar functions compute the others.
#pragma once

#include <stave/backends/cpu/kernels/special_lanes.h>

namespace STAVE_KERNELS::special {

// ---- the gamma function -------------------------------------------------------------------------

/// The vector functions take parameters from least_parameter to most_parameter. For others,
/// logarithms of the gamma function would be too large for the digits of a DoubleDouble.
constexpr double least_parameter = 1e-200, most_parameter = 256;
/// The largest exponent of results that neither overflow nor lose digits as denormal numbers.
constexpr double most_exponent = 650;

STAVE_INLINE Lanes64 is_parameter(F64 a) { return (a >= F64(least_parameter)) & (a <= F64(most_parameter)); }

/// Gamma(a) = e^log / product.
struct LogGamma {
  DoubleDouble log, product;
};

/// Takes a parameter. For a < 8, Gamma(a + 8) = a (a + 1) ... (a + 7) Gamma(a). The logarithm is
/// Stirling's series (Abramowitz and Stegun 6.1.41).
STAVE_INLINE LogGamma log_gamma(DoubleDouble a) {
  const DoubleDouble one{F64(1), F64(0)};
  DoubleDouble product = one, z = a;
  if (const Lanes64 small = a.high < F64(8); any(small)) {
    DoubleDouble factors[8] = {a};
    for (int i = 1; i < 8; ++i) factors[i] = a + F64(i);
    for (int step = 4; step > 0; step /= 2)
      for (int i = 0; i < step; ++i) factors[i] = factors[i] * factors[i + step];
    product = select(small, factors[0], one);
    z = select(small, a + F64(8), a);
  }
  constexpr double terms[] = {43867. / 244188, -3617. / 122400, 1. / 156,  -691. / 360360, 1. / 1188,
                              -1. / 1680,      1. / 1260,       -1. / 360, 1. / 12};
  const F64 inverse = F64(1) / z.high, rest = polynomial(inverse * inverse, terms) * inverse;
  const DoubleDouble log_z = log_pair(z.high) + z.low * inverse;
  const DoubleDouble half_log_two_pi{F64(0.9189385332046728), F64(-3.878294158067242e-17)};
  return {(z + F64(-0.5)) * log_z - z + (half_log_two_pi + rest), product};
}

/// The logarithm of a positive DoubleDouble.
STAVE_INLINE DoubleDouble log_of(DoubleDouble x) { return log_pair(x.high) + x.low / x.high; }

STAVE_INLINE F64 betaln(F64 a, F64 b) {
  const Lanes64 common = is_parameter(a) & is_parameter(b) & (a + b <= F64(most_parameter));
  const F64 one(1);
  const F64 p = select(common, a, one), q = select(common, b, one);
  const LogGamma first = log_gamma({p, F64(0)}), second = log_gamma({q, F64(0)}), both = log_gamma(exact_sum(p, q));
  const DoubleDouble products = both.product / (first.product * second.product);
  const DoubleDouble y = first.log + second.log - both.log + log_of(products);
  const F64 rounded = select((a == one) & (b == one), F64(0), y.high + y.low);
  return by_scalar(~common, rounded, scalar::betaln, a, b);
}

STAVE_INLINE F64 poch(F64 a, F64 m) {
  const DoubleDouble end = exact_sum(a, m);
  // For whole m, the scalar function computes a product.
  Lanes64 common = is_parameter(a) & is_parameter(end.high) & ((m != rint(m)) | (abs(m) > F64(32)));
  const DoubleDouble one{F64(1), F64(0)};
  const LogGamma low = log_gamma(select(common, DoubleDouble{a, F64(0)}, one)),
                 high = log_gamma(select(common, end, one));
  const DoubleDouble exponent = high.log - low.log, factor = low.product / high.product;
  common = common & (abs(exponent.high) < F64(most_exponent));
  return by_scalar(~common, exp_of_pair(exponent) * factor.high, scalar::poch, a, m);
}

// ---- continued fractions ------------------------------------------------------------------------

/// The most terms of a fraction or a series; lanes that need more are left to the scalar functions.
constexpr int most_terms = 400;

/// The continued fraction b(0) + a(1) / (b(1) + a(2) / (b(2) + ...)); its terms are functions of k.
/// Steed's forward recurrence finds the number of terms that a lane needs. The value is computed
/// backwards, where errors of later terms shrink.
template <class A, class B>
struct Fraction {
  A a;
  B b;
  F64 numerators[most_terms + 1];
  F64 count{0};     // the terms of each lane
  int most = 0;     // the largest count
  Lanes64 settled;  // the wanted lanes that converge

  STAVE_INLINE Fraction(A a_, B b_, Lanes64 wanted) : a(a_), b(b_) {
    F64 d = F64(1) / b(F64(0)), change = d, value = d, k(1);
    Lanes64 active = wanted;
    while (most < most_terms && any(active)) {
      const F64 numerator = numerators[++most] = a(k);
      const F64 next = F64(1) / multiply_add(numerator, d, b(k));
      change = -(numerator * d) * next * change;
      d = next;
      value = value + change;
      count = select(active, k, count);
      active = active & (abs(change) > F64(0x1p-57) * abs(value));
      k = k + F64(1);
    }
    settled = wanted & ~active;
  }
  STAVE_INLINE F64 value() const {
    F64 k(static_cast<double>(most)), y = b(k);
    for (int n = most; n > 0; --n) {
      // A lane with fewer terms starts here.
      const F64 part = select(k <= count, numerators[n] / y, F64(0));
      k = k - F64(1);
      y = part + b(k);
    }
    return y;
  }
  /// The value with the numerators a_pair(k), which are exact, and b(k) = 1.
  template <class Exact>
  STAVE_INLINE F64 exact_value(Exact a_pair) const {
    const DoubleDouble zero{F64(0), F64(0)};
    F64 k(static_cast<double>(most));
    DoubleDouble y{F64(1), F64(0)};
    for (int n = most; n > 0; --n) {
      y = select(k <= count, a_pair(k) / y, zero) + F64(1);
      k = k - F64(1);
    }
    return y.high;
  }
};

/// The density x^a e^-x / Gamma(a).
struct GammaDensity {
  F64 value;
  Lanes64 normal;
  STAVE_INLINE GammaDensity(F64 a, F64 x) {
    const LogGamma gamma = log_gamma({a, F64(0)});
    const DoubleDouble exponent = log_pair(x) * a + -x - gamma.log;
    value = exp_of_pair(exponent) * gamma.product.high;
    normal = abs(exponent.high) < F64(most_exponent);
  }
};

/// 1 + x / (a + 1) (1 + x / (a + 2) (1 + ...)) for 0 < x < a (DLMF 8.7.1).
STAVE_INLINE F64 gamma_series(F64 a, F64 x, Lanes64 wanted, Lanes64& settled) {
  F64 ratios[most_terms + 1];
  F64 term(1), count(0), k(1);
  Lanes64 active = wanted;
  int n = 0;
  while (n < most_terms && any(active)) {
    const F64 ratio = ratios[++n] = x / (a + k);
    term = term * ratio;
    count = select(active, k, count);
    active = active & (term > F64(0x1p-58));
    k = k + F64(1);
  }
  settled = wanted & ~active;
  F64 y(1);
  for (; n > 0; --n) {
    k = k - F64(1);
    y = select(k <= count, multiply_add(ratios[n], y, F64(1)), y);
  }
  return y;
}

/// The lower tail of the gamma distribution, or the upper one. It is computed directly, or as 1
/// minus the other one.
template <bool is_lower>
STAVE_INLINE F64 gamma_tail(F64 a, F64 x) {
  const Lanes64 below = x < a;
  Lanes64 common = is_parameter(a) & (x >= F64(least_parameter)) & (x <= F64(4096)) & (below | (x >= F64(1)));
  const F64 p = select(common, a, F64(2)), z = select(common, x, F64(1));
  const GammaDensity density(p, z);
  F64 factor(0);
  Lanes64 settled = below & ~below;
  if (const Lanes64 wanted = common & below; any(wanted)) factor = gamma_series(p, z, wanted, settled) / p;
  if (const Lanes64 wanted = common & ~below; any(wanted)) {  // DLMF 8.9.2
    const Fraction f([&](F64 k) { return k * (p - k); }, [&](F64 k) { return (z - p) + (k + k + F64(1)); }, wanted);
    factor = select(wanted, F64(1) / f.value(), factor);
    settled = settled | f.settled;
  }
  const F64 tail = density.value * factor;
  const Lanes64 asked = is_lower ? below : ~below;
  common = settled & density.normal & (asked | (tail < F64(0.75)));
  const F64 y = select(asked, tail, F64(1) - tail);
  return is_lower ? by_scalar(~common, y, scalar::gammainc, Constant{0}, a, x)
                  : by_scalar(~common, y, scalar::gammaincc, a, x);
}
STAVE_INLINE F64 gammainc(F64 a, F64 x) { return gamma_tail<true>(a, x); }
STAVE_INLINE F64 gammaincc(F64 a, F64 x) { return gamma_tail<false>(a, x); }

// ---- the beta distribution ----------------------------------------------------------------------

/// The continued fraction of DLMF 8.17.22, by which x^a (1 - x)^b / (a B(a, b)) is divided. Its
/// terms cancel in part, so they have twice the precision.
STAVE_INLINE F64 beta_fraction(F64 a, F64 b, F64 x, Lanes64 wanted, Lanes64& settled) {
  const auto is_even = [](F64 k) { return floor(k * F64(0.5)) * F64(2) == k; };
  const Fraction f(
      [&](F64 k) {
        const F64 m = floor(k * F64(0.5)), end = a + k;
        const F64 numerator = select(is_even(k), m * (b - m), -((a + m) * ((a + b) + m)));
        return numerator * x / ((end - F64(1)) * end);
      },
      [](F64) { return F64(1); }, wanted);
  settled = f.settled;
  return f.exact_value([&](F64 k) {
    const F64 m = floor(k * F64(0.5));
    const DoubleDouble numerator = select(is_even(k), exact_sum(b, -m) * m, -(exact_sum(a, m) * (exact_sum(a, b) + m)));
    return numerator * x / (exact_sum(a, k - F64(1)) * exact_sum(a, k));
  });
}

STAVE_INLINE F64 betainc(F64 a, F64 b, F64 x) {
  Lanes64 common =
      is_parameter(a) & is_parameter(b) & (a + b <= F64(most_parameter)) & (x >= F64(least_parameter)) & (x < F64(1));
  const F64 first = select(common, a, F64(1)), second = select(common, b, F64(1)), at = select(common, x, F64(0.5));
  const DoubleDouble rest = ordered_sum(F64(1), -at);
  const LogGamma gamma_a = log_gamma({first, F64(0)}), gamma_b = log_gamma({second, F64(0)}),
                 gamma_both = log_gamma(exact_sum(first, second));
  const DoubleDouble exponent =
      log_pair(at) * first + log_of(rest) * second + gamma_both.log - gamma_a.log - gamma_b.log;
  const DoubleDouble products = gamma_a.product * gamma_b.product / gamma_both.product;
  const F64 density = exp_of_pair(exponent) * products.high;
  // The fraction converges fast up to about the mean (DLMF 8.17.22).
  const Lanes64 below = at * (first + second + F64(2)) <= first + F64(1);
  const F64 p = select(below, first, second), q = select(below, second, first), z = select(below, at, rest.high);
  Lanes64 settled;
  const F64 tail = density / (p * beta_fraction(p, q, z, common, settled));
  F64 y = select(below, tail, F64(1) - tail);
  // Where the other tail is the larger one, the fraction of this one is better, but slower.
  if (const Lanes64 wanted = settled & ~below & (tail > F64(0.5)); any(wanted)) {
    Lanes64 settled_above;
    const F64 f = beta_fraction(first, second, at, wanted, settled_above);
    y = select(wanted, density / (first * f), y);
    settled = settled & (settled_above | ~wanted);
  }
  common = settled & (abs(exponent.high) < F64(most_exponent));
  return by_scalar(~common, y, scalar::betainc, Constant{0}, Constant{0}, a, b, x);
}

// ---- the exponential integral -------------------------------------------------------------------

/// E_n(x) for x > 1 by its continued fraction (DLMF 8.19.17).
STAVE_INLINE F64 expn(F64 n, F64 x) {
  const Lanes64 common = (x > F64(1)) & (x < F64(most_exponent)) & (n >= F64(2)) & (n == rint(n)) & (n < F64(1e6));
  const F64 z = select(common, x, F64(2)), order = select(common, n, F64(2));
  const Fraction f([&](F64 k) { return -(k * (order - F64(1) + k)); }, [&](F64 k) { return (z + order) + (k + k); },
                   common);
  return by_scalar(~f.settled, exp(-z) / f.value(), scalar::expn, n, x);
}

}  // namespace STAVE_KERNELS::special
