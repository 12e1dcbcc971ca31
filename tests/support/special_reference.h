// Functions in long double that the C++ library lacks, as references for tests.
// conformance_function_test.cpp compares them with mpmath's values in data/special.csv.
#pragma once

#include <cmath>
#include <limits>
#include <numbers>

namespace stave_test {

/// digamma(x), by the recurrence up to 40 and by the asymptotic series from there.
/// Negative x uses the reflection formula.
inline long double digamma_reference(long double x) {
  if (x < 0) {
    const long double part = x - std::nearbyint(x);
    if (part == 0) return std::numeric_limits<long double>::quiet_NaN();
    const long double pi = std::numbers::pi_v<long double>;
    return digamma_reference(1 - x) - pi / std::tan(pi * part);
  }
  long double sum = 0, from = x;
  for (; from < 40; from += 1) sum -= 1 / from;
  const long double z = 1 / (from * from);
  const long double series =
      z * (1.0L / 12 - z * (1.0L / 120 - z * (1.0L / 252 - z * (1.0L / 240 - z * (1.0L / 132 - z * 691.0L / 32760)))));
  return std::isinf(from) ? from : sum + (std::log(from) - 1 / (2 * from) - series);
}

/// zeta(s, q), the sum of (q + k)^-s over k >= 0, for s > 1. Terms are added up to
/// q + k > 20 + 8 s. The Euler-Maclaurin formula gives the remainder.
inline long double zeta_reference(long double s, long double q) {
  if (q <= 0 && q == std::floor(q)) return std::numeric_limits<long double>::infinity();
  long double sum = 0, from = q;
  for (; from < 20 + 8 * s; from += 1) sum += std::pow(from, -s);
  const long double coefficients[] = {1.0L / 12, -1.0L / 720, 1.0L / 30240, -1.0L / 1209600, 1.0L / 47900160};
  long double term = s * std::pow(from, -s - 1), rest = 0, k = 0;
  for (const long double c : coefficients) {
    rest += c * term;
    term *= (s + 2 * k + 1) * (s + 2 * k + 2) / (from * from);
    ++k;
  }
  return sum + (std::pow(from, 1 - s) / (s - 1) + (std::pow(from, -s) / 2 + rest));
}

}  // namespace stave_test
