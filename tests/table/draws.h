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

/// The probability of a number up to x, as a series, for x <= a + 1; minus that of a larger number,
/// as a continued fraction, for larger x. Both keep their digits in the tails.
inline Real gamma_probability(Real a, Real x, bool is_upper) {
  const Real density = std::exp(a * std::log(x) - x - std::lgamma(a));
  if (is_upper) {
    Real fraction = 0;
    for (int k = 400; k > 0; --k) fraction = k * (a - k) / (x + 2 * k + 1 - a + fraction);
    return -density / (x + 1 - a + fraction);
  }
  Real term = density / a, sum = term;
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
  const bool is_upper = x > at + 1;
  return solved(
      x, gamma_probability(at, x, is_upper), [&](Real y) { return gamma_probability(a, y, is_upper); },
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

/// The integral of exp(k cos t) from `low` to `high`: Gauss and Legendre's rule of five points in
/// forty parts.
inline Real von_mises_integral(Real k, Real low, Real high) {
  constexpr int parts = 40;
  const Real half = (high - low) / parts / 2;
  const auto f = [&](Real t) { return std::exp(k * std::cos(t)); };
  Real sum = 0;
  for (int i = 0; i < parts; ++i) {
    const Real middle = low + half * (2 * i + 1);
    sum += 128 / 225.0L * f(middle);
    for (const int sign : {-1, 1}) {
      const Real node = half * std::sqrt(5 + sign * 2 * std::sqrt(10 / 7.0L)) / 3;
      sum += (322 - sign * 13 * std::sqrt(70.0L)) / 900 * (f(middle - node) + f(middle + node));
    }
  }
  return sum * half;
}
/// The probability is that of a number between 0 and x, or between x and pi beyond 1, where that
/// one is small.
inline Real von_mises_number(Words key, std::uint32_t i, Real at, Real k) {
  const Real x = von_mises_draw(child(key, i), at);
  if (k == at) return x;
  const bool is_far = std::abs(x) > 1;
  const Real all = von_mises_integral(k, 0, pi);
  const auto probability = [&](Real c, Real y) {
    return is_far ? -von_mises_integral(c, y, std::copysign(pi, x)) : von_mises_integral(c, 0, y);
  };
  return solved(
      x, probability(at, x) / von_mises_integral(at, 0, pi), [&](Real y) { return probability(k, y) / all; },
      [&](Real y) { return std::exp(k * std::cos(y)) / all; });
}

/// The variants, and the first one with keys that are refused for their shapes.
inline std::vector<Variant> with_bad_keys(std::vector<Variant> variants) {
  for (const Shape& shape : {Shape(), Shape(0)}) {
    Variant refused = variants.front();
    refused.name = "key of shape " + shape.str();
    refused.inputs[0].shape = shape;
    refused.refusal = "a key is a uint32 tensor of shape [2]";
    variants.push_back(std::move(refused));
  }
  return variants;
}

}  // namespace table
