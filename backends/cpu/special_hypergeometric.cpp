// The hypergeometric functions 1F1 and 2F1 of real arguments. Sums are accumulated in long double.

#include <algorithm>
#include <cmath>
#include <limits>

#include <boost/math/special_functions/gamma.hpp>

#include <stave/backends/cpu/special_functions.h>
#include <stave/backends/cpu/special_policy.h>

namespace stave_cpu::special {

namespace {

using Real = long double;

constexpr Real epsilon = std::numeric_limits<Real>::epsilon();

/// Gamma(a) Gamma(b) / (Gamma(c) Gamma(d)); poles of the denominator give 0.
double gamma_quotient(double a, double b, double c, double d) {
  if (is_gamma_pole(c) || is_gamma_pole(d)) return 0;
  const auto sign = [](double x) { return x > 0 || std::fmod(std::floor(x), 2) == 0 ? 1. : -1.; };
  const double most = std::max({std::abs(a), std::abs(b), std::abs(c), std::abs(d)});
  const auto gamma = [](double x) { return boost::math::tgamma(x, Quiet()); };
  if (most < 80) return gamma(a) / gamma(c) * (gamma(b) / gamma(d));
  return sign(a) * sign(b) * sign(c) * sign(d) *
         std::exp((std::lgamma(a) - std::lgamma(c)) + (std::lgamma(b) - std::lgamma(d)));
}

/// The sum of (a)_k (b)_k / ((c)_k k!) x^k, and its derivative with respect to x.
struct GaussSum {
  Real value = 1, slope = 0;

  GaussSum(Real a, Real b, Real c, Real x, bool with_slope) {
    Real term = 1;
    for (Real k = 0; k < 20000; ++k) {
      const Real factor = (a + k) * (b + k) / ((c + k) * (k + 1));
      if (with_slope) slope += term * factor * (k + 1);
      term *= factor * x;
      value += term;
      if (term == 0) break;
      const bool falls = std::abs(factor * x) < 0.9L || k > 2000;
      if (falls && std::abs(term) < epsilon * std::abs(value) * (1 - std::abs(x)) / 8) break;
    }
  }
};

/// 2F1 for 1/2 < x < 1, from its value and slope at 1/2 along the axis by Taylor series of the
/// solution of
///   x (1 - x) w'' + (c - (a + b + 1) x) w' - a b w = 0 (DLMF 15.10.1).
/// Each step halves the distance to the singularity at 1. No case of a and b needs a formula of its
/// own.
Real continued(Real a, Real b, Real c, Real x) {
  const GaussSum start(a, b, c, 0.5L, true);
  Real at = 0.5L, value = start.value, slope = start.slope;
  while (at < x) {
    const Real step = std::min((1 - at) / 2, x - at), both = at * (1 - at), odd = 1 - 2 * at;
    const Real first = c - (a + b + 1) * at;
    // w_k step^k for the coefficients w_k of the series at `at`.
    Real before = value, now = slope * step, sum = before + now, derivative = now;
    int small = 0;
    for (Real k = 0; k < 500; ++k) {
      const Real next = ((a + k) * (b + k) * before * step * step - (k * odd + first) * (k + 1) * now * step) /
                        (both * (k + 1) * (k + 2));
      before = now;
      now = next;
      sum += now;
      derivative += now * (k + 2);
      small = std::abs(now * (k + 2)) <= epsilon * std::abs(derivative) ? small + 1 : 0;
      if (small == 2) break;
    }
    value = sum;
    slope = derivative / step;
    at += step;
    if (step == 0) break;
  }
  return value;
}

bool is_polynomial(double a) { return a <= 0 && is_whole(a) && a > -10000; }

double gauss(double a, double b, double c, double x);

/// 2F1 for x < 0 by Pfaff's transformation (DLMF 15.8.1): it maps x to x / (x - 1) in (0, 1).
double gauss_of_negative(double a, double b, double c, double x) {
  // If the smaller parameter is the exponent of (1 - x), the other factor stays finite as x goes to
  // -infinity.
  if (is_polynomial(c - a) || (!is_polynomial(c - b) && b < a)) std::swap(a, b);
  return std::pow(1 - x, -a) * gauss(a, c - b, c, x / (x - 1));
}

double gauss(double a, double b, double c, double x) {
  if (is_polynomial(a) || is_polynomial(b) || std::abs(x) <= 0.5)
    return static_cast<double>(GaussSum(a, b, c, x, false).value);
  if (x < 0) return gauss_of_negative(a, b, c, x);
  const double s = c - a - b;
  // Euler's transformation, DLMF 15.8.1. Its result is finite at 1, or a polynomial.
  if (s < 0 || is_polynomial(c - a) || is_polynomial(c - b))
    return std::pow(1 - x, s) * (is_polynomial(c - a) || is_polynomial(c - b)
                                     ? static_cast<double>(GaussSum(c - a, c - b, c, x, false).value)
                                     : static_cast<double>(continued(c - a, c - b, c, x)));
  return static_cast<double>(continued(a, b, c, x));
}

}  // namespace

double hyp2f1(double a, double b, double c, double x) {
  if (std::isnan(a) || std::isnan(b) || std::isnan(c) || std::isnan(x)) return nan;
  if (x == 0 || a == 0 || b == 0) return 1;
  const bool ends = is_polynomial(a) || is_polynomial(b);
  if (is_gamma_pole(c)) {
    // The sum ends before its denominators are 0, or it is infinite.
    const bool before = (is_polynomial(a) && a >= c) || (is_polynomial(b) && b >= c);
    if (!before) return infinity;
  } else if (!ends) {
    if (x == 1) {
      const double s = c - a - b;
      return s > 0 ? gamma_quotient(c, s, c - a, c - b) : infinity;  // DLMF 15.4.20
    }
    if (x > 1) return infinity;
  }
  return std::isinf(x) ? nan : gauss(a, b, c, x);
}

namespace {

/// The sum of (a)_k / ((b)_k k!) x^k.
Real kummer_sum(Real a, Real b, Real x) {
  Real term = 1, sum = 1;
  for (Real k = 0; k < 20000; ++k) {
    const Real factor = (a + k) / ((b + k) * (k + 1)) * x;
    term *= factor;
    sum += term;
    if (term == 0 || std::isinf(sum)) break;
    if (std::abs(factor) < 0.5L && std::abs(term) < epsilon * std::abs(sum)) break;
  }
  return sum;
}

/// 1F1 for large positive x: Gamma(b) / Gamma(a) e^x x^(a-b) times the sum of (1-a)_k (b-a)_k / (k!
/// x^k) (DLMF 13.7.1). Returns NaN if the sum does not settle.
double kummer_far(double a, double b, double x) {
  double term = 1, sum = 1;
  for (double k = 0; k < 200; ++k) {
    const double next = term * (1 - a + k) * (b - a + k) / ((k + 1) * x);
    if (std::abs(next) < 1e-17 * std::abs(sum)) {
      const double half = std::exp(x / 2);
      return gamma_quotient(b, 1, a, 1) * half * std::pow(x, a - b) * sum * half;
    }
    if (std::abs(next) > std::abs(term) && k > std::abs(a) + std::abs(b)) break;
    term = next;
    sum += term;
  }
  return nan;
}

}  // namespace

double hyp1f1(double a, double b, double x) {
  if (std::isnan(a) || std::isnan(b) || std::isnan(x)) return nan;
  if (is_gamma_pole(b) && !(is_polynomial(a) && a >= b)) return infinity;
  if (a == 0 || x == 0) return 1;
  if (a == b && !is_gamma_pole(b)) return std::exp(x);
  if (std::isinf(x)) {
    if (x > 0) return infinity;
    return a > 0 ? 0 : nan;
  }
  if (is_polynomial(a)) return static_cast<double>(kummer_sum(a, b, x));
  if (x < 0) {
    if (x > -1) return static_cast<double>(kummer_sum(a, b, x));
    // Kummer's transformation, DLMF 13.2.39.
    const double other = b - a;
    if (x > -600) return static_cast<double>(std::exp(Real(x)) * kummer_sum(other, b, -x));
    // e^x cancels the exponential of the far formula.
    double term = 1, sum = 1;
    for (double k = 0; k < 200 && std::abs(term) > 1e-17 * std::abs(sum); ++k) {
      term *= (1 - other + k) * (b - other + k) / ((k + 1) * -x);
      sum += term;
    }
    return gamma_quotient(b, 1, other, 1) * std::pow(-x, -a) * sum;
  }
  if (x > 60)
    if (const double far = kummer_far(a, b, x); !std::isnan(far)) return far;
  return static_cast<double>(kummer_sum(a, b, x));
}

}  // namespace stave_cpu::special
