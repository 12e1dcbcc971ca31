// Integrals of elementary functions, the normal distribution, entropies and Lambert's function.

#include <cmath>

#include <boost/math/special_functions/erf.hpp>
#include <boost/math/special_functions/expint.hpp>
#include <boost/math/special_functions/lambert_w.hpp>

#include <stave/backends/cpu/special_functions.h>
#include <stave/backends/cpu/special_policy.h>
#include <stave/backends/cpu/special_series.h>

namespace stave_cpu::special {

double sin_pi(double x) {
  const double whole = std::rint(x), sine = std::sin(pi * (x - whole));
  return std::fmod(whole, 2) == 0 ? sine : -sine;
}

double exp_of_square(double factor, double x) {
  const double square = x * x, lost = std::fma(x, x, -square), y = std::exp(factor * square);
  return std::isfinite(lost) && std::isfinite(y) ? y + y * (factor * lost) : y;
}

// ---- the error function and the normal distribution ---------------------------------------------

namespace {

constexpr double root_half = 0.7071067811865476;

/// e^(x^2) erfc(x)
double scaled_erfc(double x) {
  if (std::isinf(x)) return x > 0 ? 0 : infinity;
  if (std::abs(x) < 0.5) return exp_of_square(1, x) * std::erfc(x);
  const double size = std::abs(x), right = erfcx_series((size - 3.75) / (size + 3.75)) / (1 + 2 * size);
  return x < 0 ? 2 * exp_of_square(1, x) - right : right;
}

}  // namespace

double ndtri(double p) {
  if (!(p >= 0 && p <= 1)) return nan;
  if (p == 0 || p == 1) return p == 0 ? -infinity : infinity;
  return -(boost::math::erfc_inv(2 * p, Quiet()) / root_half);
}

double erfcinv(double x) {
  if (!(x >= 0 && x <= 2)) return nan;
  if (x == 0 || x == 2) return x == 0 ? infinity : -infinity;
  return boost::math::erfc_inv(x, Quiet());
}

// log(erfc(-x / sqrt(2)) / 2)
double log_ndtr(double x) {
  if (x < -1) return std::log(0.5 * scaled_erfc(-x * root_half)) - 0.5 * x * x;
  if (x < 2) return std::log1p(-0.5 * std::erfc(x * root_half));
  return std::log1p(-0.5 * scaled_erfc(x * root_half) * exp_of_square(-0.5, x));
}

// E_n(x) = e^(x^2) i^n erfc(x), the scaled repeated integral of the complementary error function.
// It obeys 2n E_n = E_(n-2) - 2x E_(n-1), and E_(-1) is 2 / sqrt(pi) (DLMF 7.18.7).
double erfcx(double n, double x) {
  constexpr double before = 1.1283791670955126;
  if (n == 0 || std::isnan(x)) return scaled_erfc(x);
  if (n < 0) return n == -1 ? before : nan;
  if (x < 1) {
    double last = before, now = scaled_erfc(x);
    for (double k = 1; k <= n; ++k) {
      const double next = (last - 2 * x * now) / (2 * k);
      last = now;
      now = next;
    }
    return now;
  }
  // For positive x the recurrence is stable downwards. Any start far enough is right up to a
  // factor, which E_(-1) gives (Gautschi, "Recursive computation of the repeated integrals of the
  // error function", 1961).
  double above = 0, now = 1e-290, wanted = 0;
  // `now` is E_k times a factor.
  for (double k = std::floor(2 * n + 20 + 220 / (x * x)); k >= 0; --k) {
    if (k == n) wanted = now;
    const double below = 2 * (k + 1) * above + 2 * x * now;
    above = now;
    now = below;
    if (now > 1e250) {
      above *= 1e-250;
      now *= 1e-250;
      wanted *= 1e-250;
    }
  }
  return std::isinf(x) ? 0 : before * (wanted / now);
}

// D(x) = e^(-x^2) times the integral of e^(t^2) from 0 to x.
double dawsn(double n, double x) {
  if (std::isnan(x) || !(n >= 0)) return nan;
  const double size = std::abs(x), sign = x < 0 && std::fmod(n, 2) == 0 ? -1 : 1;
  if (std::isinf(x)) return sign * 0.0;
  constexpr double far = 6.5;
  if (n > 0 && size > far + n / 4) {
    // The n-th derivative of the sum of (2k-1)!! / (2^(k+1) x^(2k+1)) over k (DLMF 7.12.1).
    double term = 0.5 / size, sum = 0;
    for (double i = 1; i <= n; ++i) term *= -i / size;
    for (double k = 0; k < 60; ++k) {
      sum += term;
      const double next =
          term * (2 * k + 1) / 2 * ((2 * k + 1 + n) * (2 * k + 2 + n) / ((2 * k + 1) * (2 * k + 2))) / (size * size);
      if (!(std::abs(next) < std::abs(term))) break;
      term = next;
    }
    return sign * sum;
  }
  const double square = size * size;
  double value = square < 1    ? size * dawson_near(square)
                 : size < 1.75 ? dawson_middle0(size)
                 : size < 2.5  ? dawson_middle1(size)
                 : size < 3.5  ? dawson_middle2(size)
                 : size < 5    ? dawson_middle3(size)
                               : dawson_far(1 / square) / (2 * size);
  // D' = 1 - 2x D, and D^(k+1) = -2x D^(k) - 2k D^(k-1).
  double last = 0;
  for (double k = 0; k < n; ++k) {
    const double next = k == 0 ? 1 - 2 * size * value : -2 * size * value - 2 * k * last;
    last = value;
    value = next;
  }
  return sign * value;
}

// ---- exponential, sine and cosine integrals -----------------------------------------------------

double expi(double x) {
  if (std::isnan(x)) return nan;
  if (x == 0) return -infinity;
  if (std::isinf(x)) return x > 0 ? infinity : -0.0;
  return boost::math::expint(x, Quiet());
}

namespace {

/// E_n(x) for n > 0 and x > 1 by its continued fraction (DLMF 8.19.17, the even part; Lentz's
/// method).
double expn_fraction(double n, double x) {
  long double b = x + n, c = infinity, d = 1 / b, value = d;
  for (long double k = 1; k < 1000; ++k) {
    const long double a = -k * (n - 1 + k);
    b += 2;
    d = 1 / (a * d + b);
    c = b + a / c;
    value *= c * d;
    if (std::abs(c * d - 1) < 1e-17L) break;
  }
  return static_cast<double>(value) * std::exp(-x);
}

}  // namespace

// n E_(n+1) = e^-x - x E_n (DLMF 8.19.12). Upwards it loses no digits for x <= 1. For n <= 0 it
// gives the elementary functions that derivatives need.
double expn(double n, double x) {
  if (!(x >= 0) || !is_whole(n)) return nan;
  if (std::isinf(x)) return 0;
  if (x == 0) return n > 1 ? 1 / (n - 1) : infinity;
  constexpr double large = 100;
  if (n == 1) return boost::math::expint(1, x, Quiet());
  if (n > 0 && (x > 1 || n > large)) return expn_fraction(n, x);
  const double e = std::exp(-x);
  double value = n > 0 ? boost::math::expint(1, x, Quiet()) : e / x;
  for (double k = 1; k < n; ++k) value = (e - x * value) / k;
  for (double k = -1; k >= n; --k) value = (e - k * value) / x;
  return value;
}

namespace {

/// The auxiliary functions f and g of the sine and cosine integral for x >= 2 (DLMF 6.2.17,
/// 6.2.18).
struct SineAuxiliary {
  double f, g;
  explicit SineAuxiliary(double x) {
    const double t = (x - 4) / (x + 4);
    f = sine_f(t) / x;
    g = sine_g(t) / (x * x);
  }
};

}  // namespace

double sine_integral(double x) {
  const double size = std::abs(x);
  if (size < 2) return x * sine_near(x * x);
  if (std::isnan(x)) return nan;
  if (std::isinf(x)) return std::copysign(pi / 2, x);
  const SineAuxiliary at(size);
  return std::copysign(pi / 2 - (at.f * std::cos(size) + at.g * std::sin(size)), x);
}

// For x < 0 it is the real part, Ci(-x).
double cosine_integral(double x) {
  const double size = std::abs(x);
  if (size == 0) return -infinity;
  if (size < 2) return (0.5772156649015329 + std::log(size)) - x * x * cosine_near(x * x);
  if (std::isnan(x) || x == -infinity) return nan;
  if (std::isinf(x)) return 0;
  const SineAuxiliary at(size);
  return at.f * std::sin(size) - at.g * std::cos(size);
}

namespace {

/// The auxiliary functions f and g of the Fresnel integrals (DLMF 7.2.10, 7.2.11), and the sine and
/// cosine of pi x^2 / 2.
struct FresnelAuxiliary {
  double f, g, sine, cosine;
  explicit FresnelAuxiliary(double x) {
    const double square = x * x, u = 1 / (square * square), lost = std::fma(x, x, -square);
    const double turns = std::fmod(square, 4) + lost, angle = pi / 2 * (turns > 2 ? turns - 4 : turns);
    sine = std::sin(angle);
    cosine = std::cos(angle);
    f = (u < 1. / 40 ? fresnel_f0(u) : fresnel_f1(u)) / (pi * x);
    g = (u < 1. / 40 ? fresnel_g0(u) : fresnel_g1(u)) / (pi * pi * x * square);
  }
};
constexpr double fresnel_split = 1.6, fresnel_far = 1e15;  // beyond, the integrals are 1/2

}  // namespace

double fresnel_s(double x) {
  const double size = std::abs(x);
  if (size < fresnel_split) return x * x * x * fresnel_s_near(x * x * x * x);
  if (std::isnan(x)) return nan;
  if (size > fresnel_far) return std::copysign(0.5, x);
  const FresnelAuxiliary at(size);
  return std::copysign(0.5 - (at.f * at.cosine + at.g * at.sine), x);
}

double fresnel_c(double x) {
  const double size = std::abs(x);
  if (size < fresnel_split) return x * fresnel_c_near(x * x * x * x);
  if (std::isnan(x)) return nan;
  if (size > fresnel_far) return std::copysign(0.5, x);
  const FresnelAuxiliary at(size);
  return std::copysign(0.5 + (at.f * at.sine - at.g * at.cosine), x);
}

// ---- quotients that are smooth where their denominator is 0 -------------------------------------

namespace {

/// The integral of log(t) / (1 - t) from 1 to exp(-w), a series in w = -log(z) that converges for
/// |w| < 2 pi ('t Hooft and Veltman, "Scalar one-loop integrals", 1979, appendix A).
double spence_of_log(double w) {
  // B_2k / (2k + 1)!
  constexpr double terms[] = {0.027777777777777776,    -0.0002777777777777778,  4.724111866969010e-06,
                              -9.185773074661964e-08,  1.8978869988970999e-09,  -4.0647616451442257e-11,
                              8.921691020456452e-13,   -1.9939295860721074e-14, 4.518980029619918e-16,
                              -1.0356517612182247e-17, 2.395218621026187e-19};
  const double square = w * w;
  double sum = 0;
  for (int k = 10; k >= 0; --k) sum = sum * square + terms[k];
  return w * (1 + w * (-0.25 + w * sum));
}

/// The m-th derivative of log(z) / (z - 1).
double log_quotient(int m, double z) {
  const double d = z - 1;
  if (std::abs(d) < 0.5) {
    // log(1 + d) / d is the sum of (-d)^k / (k + 1).
    double factor = 1, sum = 0;  // (-1)^k k! / (k - m)! d^(k-m)
    for (int i = 1; i <= m; ++i) factor *= -i;
    for (int k = m; k < m + 400; ++k) {
      const double term = factor / (k + 1);
      sum += term;
      if (std::abs(term) < 1e-17 * std::abs(sum)) break;
      factor *= -d * (k + 1) / (k + 1 - m);
    }
    return sum;
  }
  // The product of d and the quotient is log(z): d q^(i) + i q^(i-1) is its i-th derivative.
  double quotient = std::log(z) / d, derivative = 1 / z;
  for (int i = 1; i <= m; ++i) {
    quotient = (derivative - i * quotient) / d;
    derivative *= -i / z;
  }
  return quotient;
}

}  // namespace

// The integral of log(t) / (1 - t) from 1 to z, or its n-th derivative.
double spence(double n, double z) {
  if (!(z >= 0) || !(n >= 0)) return nan;
  if (n > 0) return -log_quotient(static_cast<int>(n) - 1, z);
  if (z == 0) return pi * pi / 6;
  if (z > 3) {  // Li(1 - z) = -pi^2 / 6 - log(z - 1)^2 / 2 - Li(1 / (1 - z)), DLMF 25.12.4
    if (std::isinf(z)) return -infinity;
    const double log_size = std::log(z - 1);
    return -pi * pi / 6 - 0.5 * log_size * log_size - spence_of_log(-std::log1p(1 / (z - 1)));
  }
  if (z > 0.25) return spence_of_log(z > 0.5 && z < 2 ? -std::log1p(z - 1) : -std::log(z));
  // DLMF 25.12.6
  return pi * pi / 6 - std::log(z) * std::log1p(-z) - spence_of_log(-std::log1p(-z));
}

// sin(pi x) / (pi x), or its n-th derivative.
double sinc(double n, double x) {
  if (std::isnan(x) || !(n >= 0)) return nan;
  if (std::isinf(x)) return 0;
  if (n == 0) return x == 0 ? 1 : sin_pi(x) / (pi * x);
  const double y = pi * x, scale = std::pow(pi, n);
  if (std::abs(y) < n + 1) {
    // The terms of sum (-1)^k y^(2k) / (2k + 1)!, differentiated.
    // `factor` is (-1)^k y^(2k-n) / (2k-n)!.
    double sum = 0, k = std::ceil(n / 2), factor = std::fmod(k, 2) == 0 ? 1 : -1;
    if (2 * k > n) factor *= y;
    for (; k < n + 60; ++k) {
      sum += factor / (2 * k + 1);
      factor *= -y * y / ((2 * k + 1 - n) * (2 * k + 2 - n));
    }
    return scale * sum;
  }
  // y f^(k) + k f^(k-1) is the k-th derivative of the sine.
  double value = sin_pi(x) / y;
  for (double k = 1; k <= n; ++k) {
    const double turned = sin_pi(std::fmod(x, 2) + std::fmod(k, 4) / 2);
    value = (turned - k * value) / y;
  }
  return scale * value;
}

// ---- entropies and Lambert's function -----------------------------------------------------------

// x log(x / y). Near x = y the logarithm is that of 1 + (y - x) / x, where the difference is exact.
double rel_entr(double x, double y) {
  if (std::isnan(x) || std::isnan(y)) return nan;
  if (x == 0 && y >= 0) return 0;
  if (!(x > 0 && y > 0)) return infinity;
  const double ratio = x / y;
  if (ratio > 0.5 && ratio < 2) return -x * std::log1p((y - x) / x);
  return x * (ratio > 1e-300 && ratio < 1e300 ? std::log(ratio) : std::log(x) - std::log(y));
}

// x log(x / y) - x + y. With d = (y - x) / x it is x (d - log(1 + d)), and with s = d / (2 + d):
//   d - log(1 + d) = d^2 / (2 + d) - 2 (s^3 / 3 + s^5 / 5 + ...).
double kl_div(double x, double y) {
  if (std::isnan(x) || std::isnan(y)) return nan;
  if (x == 0 && y >= 0) return y;
  if (!(x > 0 && y > 0)) return infinity;
  const double d = (y - x) / x;
  if (d < -0.5 || d > 1) return rel_entr(x, y) + (y - x);
  const double s = d / (2 + d), square = s * s;
  double sum = 0;
  for (double k = std::abs(s) < 0.1 ? 15 : 35; k >= 3; k -= 2) sum = sum * square + 1 / k;
  return x * (d * s - 2 * s * square * sum);
}

double lambertw(double k, double x) {
  constexpr double branch_point = -0.36787944117144233;
  if (!(x >= branch_point) || (k == -1 && x > 0) || (k != 0 && k != -1)) return nan;
  if (x == 0) return k == 0 ? x : -infinity;
  if (std::isinf(x)) return infinity;
  const double w = k == 0 ? boost::math::lambert_w0(x, Quiet()) : boost::math::lambert_wm1(x, Quiet());
  // Newton's iteration for w e^w = x, in long double. Near the branch point, where w is -1, it
  // takes several steps.
  long double better = w;
  if (std::abs(x) < 1e-300L || w > 1) return w;
  for (int i = std::abs(w + 1) < 0.01 ? 3 : 1; i > 0 && better != -1; --i) {
    const long double e = std::exp(better);
    better -= (better * e - x) / (e * (1 + better));
  }
  return static_cast<double>(better);
}

}  // namespace stave_cpu::special
