// Special functions that StableHLO lacks, over the value types of core/ops/elementwise_ops.h. A
// value type has a dtype of 32 or 64 bits; `is_double(x)` tells which.
//
// Coefficients are rounded from interpolants at Chebyshev's points, computed with 160 bits; their
// errors are below half a unit in the last place. The highest power comes first.
#pragma once

#include <stave/core/effects/settings.h>
#include <stave/core/ops/elementwise_ops.h>
#include <stave/core/ops/erfinv.h>
#include <stave/core/ops/polygamma.h>

namespace stave_detail {

/// erf(x) / x as a polynomial in 2 x^2 - 1, for |x| <= 1.
inline constexpr double erf_double[] = {1.4543887079465116e-14, -3.8078824063194953e-13, 9.167619596865806e-12,
                                        -2.035228405815769e-10, 4.115800583208149e-09,   -7.511569286591727e-08,
                                        1.223382738359897e-06,  -1.7537169441124866e-05, 0.00021751715604159932,
                                        -0.0022854855611441132, 0.019852496688983708,    -0.1405360890227171,
                                        0.9654687386698673};
/// (1 + 2 x) exp(x^2) erfc(x) as a polynomial in (x - 3.75) / (x + 3.75), for x >= 0 (Shepherd and
/// Laframboise, "Chebyshev approximation of (1 + 2x) exp(x^2) erfc x in 0 <= x < infinity", 1981).
inline constexpr double erfc_double[] = {
    -3.798064723589992e-11, 4.243303825109678e-10,  5.485084520083603e-10,  -5.1690806448159324e-09,
    -4.3969219167629e-09,   3.8662420662837924e-08, 2.4301839484503074e-08, -2.586489910718322e-07,
    -5.82750186276869e-08,  1.7516189406943677e-06, -9.728413451815077e-07, -1.1444134389658475e-05,
    2.238390827660038e-05,  5.1649093885821704e-05, -0.0002901539781378384, 0.0002937136669846131,
    0.0017556258321915355,  -0.009746579558275152,  0.02836227742154398,    -0.05869339858961116,
    0.09230432116019638,    -0.10880393014175023,   0.08227673849015109,    0.0035854154854644583,
    -0.14024059858554702,   1.2375126308378275};
/// The same for float32.
inline constexpr double erf_single[] = {1.2306054785446075e-06, -1.7669068026125697e-05, 0.00021751354165582579,
                                        -0.0022854195448728494, 0.019852497140907616,    -0.14053609727754268,
                                        0.9654687386698673};
inline constexpr double erfc_single[] = {1.8780736285192822e-05, 2.1987965983870166e-05, -0.0002851543388991308,
                                         0.00033034420935822574, 0.001752209498690462,   -0.009770286714565772,
                                         0.028363473790408853,   -0.05868533658608146,   0.09230412174644181,
                                         -0.10880525203898243,   0.08227675095346368,    0.0035854974289632052,
                                         -0.1402405987127234,    1.2375126300030113};
/// lgamma(x) / (x - 1) as a polynomial in 2 x - 2, for 1/2 <= x <= 3/2.
inline constexpr double lgamma_near_1[] = {
    -8.387103803490076e-10,  1.7300448143343167e-09, 2.5084309444514644e-09,  -5.158955192152566e-09,
    -9.143687204517106e-09,  1.889081792208472e-08,  -1.0693699369091374e-09, 2.526829438240329e-09,
    -5.4015820715770284e-08, 1.1308438620887116e-07, -1.9522784780587107e-07, 4.124357356492201e-07,
    -9.001043748574675e-07,  1.9125705100332427e-06, -4.0683292965356535e-06, 8.718183257645187e-06,
    -1.8782530123863594e-05, 4.0700482911596765e-05, -8.882225635458602e-05,  0.00019550669938960455,
    -0.0004348994784400015,  0.0009805442980769746,  -0.0022507796368895602,  0.005298661780914389,
    -0.01296159693929511,    0.033822601053479215,   -0.10017140859663283,    0.41123351671205655,
    -0.5772156649015329};
/// lgamma(x) / (x - 2) as a polynomial in 2 x - 4, for 3/2 <= x <= 5/2.
inline constexpr double lgamma_near_2[] = {
    -5.043009058425092e-13,  2.126623574915764e-12,  -6.599791480347414e-12,  2.807778288259308e-11,
    -1.247500494813837e-10,  5.352422368894483e-10,  -2.3043738035184404e-09, 1.0012495486246804e-08,
    -4.3873352909331736e-08, 1.9425326866834958e-07, -8.716982578328323e-07,  3.981793089152702e-06,
    -1.8636779872543994e-05, 9.032844784482085e-05,  -0.0004615969392919999,  0.0025726010534725475,
    -0.016838075263299526,   0.16123351671205663,    0.42278433509846713};
/// B_2k / (2k (2k - 1)) for k = 8, ..., 1, where B_n are the Bernoulli numbers: lgamma(x) is
/// (x - 1/2) log x - x + log(2 pi) / 2 + the sum of these over x^(2k - 1) (Abramowitz and Stegun
/// 6.1.41).
inline constexpr double lgamma_tail[] = {-0.029550653594771242, 0.00641025641025641,    -0.0019175269175269176,
                                         0.0008417508417508417, -0.0005952380952380953, 0.0007936507936507937,
                                         -0.002777777777777778, 0.08333333333333333};

/// erfc(x) for x >= 0.
template <class T>
T erfc_of_positive(T x) {
  const T capped = select(x > T(40), T(40), x), t = (capped - T(3.75)) / (capped + T(3.75));
  const T factor = is_double(x) ? polynomial(t, erfc_double) : polynomial(t, erfc_single);
  const T square = capped * capped, e = exp(-square), lost = lost_of_product(capped, capped, square);
  return (e - e * lost) * factor / (T(1) + T(2) * capped);
}
template <class T>
T erf_near_0(T x) {
  const T t = T(2) * (x * x) - T(1);
  return x * (is_double(x) ? polynomial(t, erf_double) : polynomial(t, erf_single));
}
template <class T>
T erf_of(T x) {
  const T size = abs(x), far = copysign(T(1) - erfc_of_positive(size), x);
  return select(size < T(1), erf_near_0(x), select(x == x, far, x));
}
template <class T>
T erfc_of(T x) {
  const T positive = erfc_of_positive(abs(x)), far = select(x < T(0), T(2) - positive, positive);
  return select(abs(x) < T(0.5), T(1) - erf_near_0(x), select(x == x, far, x));
}
/// erfc(x / sqrt(2)), corrected for the rounding error of the quotient by the derivative of erfc.
template <class T>
T erfc_of_root_half_of(T x) {
  const double root = 0.70710678118654757, root_single = 0.707106769084930419921875;
  const T r(is_double(x) ? root : root_single), rest(is_double(x) ? -4.8336466567264567e-17 : 1.210161749207119e-08);
  const T z = x * r, y = erfc_of(z), lost = lost_of_product(x, r, z) + x * rest;
  const T square = z * z, slope = T(-1.1283791670955126) * exp(-square), corrected = y + slope * lost;
  return select(isfinite(lost) & (y != T(0)), corrected, y);
}

template <class T>
T erfinv_of(T x) {
  const T size = abs(x);
  const T w = -select(size < T(0.5), log1p(-(x * x)), log((T(1) - size) * (T(1) + size)));
  T factor;
  if (is_double(x)) {
    constexpr ErfinvDouble c;
    factor = select(w < T(6.25), polynomial(w - T(3.125), c.central),
                    select(w < T(16), polynomial(sqrt(w) - T(3.25), c.middle), polynomial(sqrt(w) - T(5), c.tail)));
  } else {
    constexpr ErfinvFloat c;
    factor = select(w < T(5), polynomial(w - T(2.5), c.central), polynomial(sqrt(w) - T(3), c.tail));
  }
  const T infinity(__builtin_inf()), nan(__builtin_nan(""));
  return select(size == T(1), copysign(infinity, x), select(size < T(1), x * factor, nan));
}

/// lgamma(x) for x >= 0: from a number in [1/2, 5/2], or by Stirling's series.
template <class T>
T lgamma_of_positive(T x) {
  const T one(1), two(2);
  const auto below = x < T(0.5);
  T shifted = select(below, x + one, x), product = one;
  for (int i = 0; i < 8; ++i) {
    const auto above = shifted > T(2.5);
    const T lower = shifted - one;
    product = select(above, product * lower, product);
    shifted = select(above, lower, shifted);
  }
  const T near_1 = (shifted - one) * polynomial(two * (shifted - one), lgamma_near_1);
  const T near_2 = (shifted - two) * polynomial(two * (shifted - two), lgamma_near_2);
  const T central =
      select(shifted < T(1.5), near_1, near_2) + select(below, -log(x), select(x > T(2.5), log(product), T(0)));
  const T z = one / x;
  const T far = (x - T(0.5)) * (log(x) - one) + (T(0.4189385332046727) + z * polynomial(z * z, lgamma_tail));
  return select(x < T(10), central, far);
}
/// lgamma(x) for any x. For x < 0 by lgamma(x) + lgamma(-x) = log(pi / |x sin(pi x)|).
template <class T>
T lgamma_of(T x) {
  const T infinity(__builtin_inf()), size = abs(x), positive = lgamma_of_positive(size);
  const T pi(3.14159265358979323846), part = x - rint(x);
  const T reflected = select(part == T(0), infinity, log(pi / (size * abs(sin(pi * part)))) - positive);
  const T y = select(x < T(0), reflected, positive);
  return select(x == x, select(isinf(x), infinity, y), x);
}

}  // namespace stave_detail
