// Draws for references, from an independent generator in long double, by the steps of jax.random.
#pragma once

#include <cmath>
#include <numbers>

#include "table/threefry.h"

namespace table {

inline constexpr Real pi = std::numbers::pi_v<Real>;

// ---- numbers of one key -------------------------------------------------------------------------

inline Words child(Words key, std::uint32_t i) { return threefry(key, {0, i}); }

/// The dtype in which floats of `dtype` are drawn.
inline Dtype drawn_in(Dtype dtype) { return dtype == float64 ? float64 : float32; }

inline Real normal_number(Words key, std::uint32_t i, Dtype dtype) {
  const Real low = std::ldexp(Real(1), -float_shape(dtype).digits) - 1;
  return std::numbers::sqrt2_v<Real> * erfinv_reference(uniform_number(key, i, low, 1, dtype));
}
inline Real exponential_number(Words key, std::uint32_t i, Dtype dtype) { return -std::log1p(-unit(key, i, dtype)); }
inline Real sign_number(Words key, std::uint32_t i, Dtype dtype) { return unit(key, i, dtype) < 0.5L ? 1 : -1; }
inline Real maxwell_number(Words key, std::uint32_t i, Dtype dtype) {
  return std::hypot(normal_number(key, 3 * i, dtype), normal_number(key, 3 * i + 1, dtype),
                    normal_number(key, 3 * i + 2, dtype));
}

// ---- gamma --------------------------------------------------------------------------------------

/// A draw of Gamma(a, 1) by Marsaglia and Tsang's method.
inline Real gamma_draw(Words key, Real a, Dtype dtype) {
  Words next = child(key, 0), boost = child(key, 1);
  const Real d = (a < 1 ? a + 1 : a) - Real(1) / 3, c = Real(1) / 3 / std::sqrt(d);
  for (;;) {
    Words x_key = child(next, 1);
    const Real u = unit(child(next, 2), 0, dtype);
    next = child(next, 0);
    Real x, root;
    do {
      x = normal_number(child(x_key, 1), 0, dtype);
      root = 1 + c * x;
      x_key = child(x_key, 0);
    } while (root <= 0);
    const Real v = root * root * root;
    if (u < 1 - 0.0331L * x * x * x * x || std::log(u) < x * x / 2 + d * (1 - v + std::log(v)))
      return d * v * (a < 1 ? std::pow(1 - unit(boost, 0, dtype), 1 / a) : 1);
  }
}

inline Real gamma_probability(Real a, Real x) {
  Real term = std::exp(a * std::log(x) - x - std::lgamma(a + 1)), sum = term;
  for (int k = 1; k < 2000 && term > 1e-23L * sum; ++k) sum += term *= x / (a + k);
  return sum;
}

/// Moves a draw x along increasing(x) = constant, by Newton's method.
template <class F, class Slope>
inline Real solved(Real x, Real value, F increasing, Slope slope) {
  for (int i = 0; i < 8; ++i) x -= (increasing(x) - value) / slope(x);
  return x;
}

/// The draw for the parameter `at`, moved to the parameter a with the same probability.
inline Real gamma_number(Words key, std::uint32_t i, Real at, Real a, Dtype dtype) {
  const Real x = gamma_draw(child(key, i), at, dtype);
  if (a == at) return x;
  return solved(
      x, gamma_probability(at, x), [&](Real y) { return gamma_probability(a, y); },
      [&](Real y) { return std::exp((a - 1) * std::log(y) - y - std::lgamma(a)); });
}

// ---- von Mises ----------------------------------------------------------------------------------

/// A stream of uniform numbers in the middle of the intervals of float64 numbers.
struct Stream {
  Words key;
  std::uint32_t counter = 0;
  Real next() { return unit(key, counter++, float64) + 0x1p-53L; }
};

/// A draw by Best and Fisher's method.
inline Real von_mises_draw(Words key, Real k) {
  Stream stream{key};
  const Real s = (1 + std::sqrt(1 + 4 * k * k)) / (2 * k);
  for (;;) {
    const Real z = std::cos(pi * stream.next()), f = (1 + s * z) / (s + z), c = k * (s - f), v = stream.next();
    if (c * (2 - c) > v || std::log(c / v) + 1 - c >= 0) return stream.next() < 0.5L ? -std::acos(f) : std::acos(f);
  }
}

/// The integral of exp(k cos t) from 0 to x, by Simpson's rule.
inline Real von_mises_integral(Real k, Real x) {
  constexpr int n = 400;
  Real sum = std::exp(k) + std::exp(k * std::cos(x));
  for (int i = 1; i < n; ++i) sum += (i % 2 ? 4 : 2) * std::exp(k * std::cos(x * i / n));
  return sum * x / n / 3;
}
inline Real von_mises_number(Words key, std::uint32_t i, Real at, Real k) {
  const Real x = von_mises_draw(child(key, i), at);
  if (k == at) return x;
  const Real all = von_mises_integral(k, pi);
  return solved(
      x, von_mises_integral(at, x) / von_mises_integral(at, pi), [&](Real y) { return von_mises_integral(k, y) / all; },
      [&](Real y) { return std::exp(k * std::cos(y)) / all; });
}

}  // namespace table
