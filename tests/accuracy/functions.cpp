#include "accuracy/functions.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <numbers>
#include <sstream>

#include <stave/core/ops/elementwise.h>

#include "special_reference.h"

namespace stave_test {

namespace {

// ---- exact values of the functions -------------------------------------------------------------

// Newton's method on erf, or on erfc near the ends; it needs no bisection.
Real erfinv_exact(Real x) {
  if (std::abs(x) > 1 || std::isnan(x)) return std::numeric_limits<Real>::quiet_NaN();
  if (std::abs(x) == 1) return x * std::numeric_limits<Real>::infinity();
  Real a = std::abs(x), y = a < 0.9L ? a : std::sqrt(-std::log1p(-a));
  for (int i = 0; i < 60; ++i) {
    Real error = a < 0.5L ? std::erf(y) - a : (1 - a) - std::erfc(y);
    Real step = error * std::sqrt(std::acos(-1.0L)) / 2 * std::exp(y * y);
    y -= step / (1 + y * step);  // Halley's method
    if (std::abs(step) <= std::numeric_limits<Real>::epsilon() * y) break;
  }
  return std::copysign(y, x);
}
// f(x), but at -infinity, where f would compute infinity times 0, its limit.
template <class F>
Real zero_at_minus_infinity(Real x, F f) {
  return std::isinf(x) && x < 0 ? -Real{0} : f(x);
}
Real silu_exact(Real x) {
  return zero_at_minus_infinity(x, [](Real y) { return y / (1 + std::exp(-y)); });
}
Real gelu_exact(Real x) {
  return zero_at_minus_infinity(x, [](Real y) { return y * std::erfc(-y / std::numbers::sqrt2_v<Real>) / 2; });
}
Real gelu_tanh_exact(Real x) {
  return zero_at_minus_infinity(x, [](Real y) {
    return y / (1 + std::exp(-2 * std::sqrt(2 / std::numbers::pi_v<Real>) * (y + 0.044715L * y * y * y)));
  });
}
Real logit_exact(Real x) { return x < 0.3L || x > 0.7L ? std::log(x / (1 - x)) : std::log1p((2 * x - 1) / (1 - x)); }
Real softplus_exact(Real x) { return std::max(x, Real{0}) + std::log1p(std::exp(-std::abs(x))); }
Real elu_exact(Real x) { return x > 0 ? x : std::expm1(x); }
Real selu_exact(Real x) {
  return 1.0507009873554804934193349852946L * (x > 0 ? x : 1.6732632423543772848170429916717L * std::expm1(x));
}

Real remainder_exact(Real a, Real b) {
  Real r = std::fmod(a, b);
  return r == 0 ? std::copysign(Real{0}, b) : (r < 0) != (b < 0) ? r + b : r;
}
/// The quotient minus its fraction; fmod gives the remainder exactly.
Real floor_divide_exact(Real a, Real b) {
  if (b == 0) return a / b;
  Real r = std::fmod(a, b), quotient = std::isinf(b) ? std::copysign(Real{0}, a / b) : std::round((a - r) / b);
  if (std::isnan(r)) return r;
  return r != 0 && (r < 0) != (b < 0) ? quotient - 1 : quotient == 0 ? std::copysign(quotient, a / b) : quotient;
}
Real logaddexp_exact(Real a, Real b) {
  if (a == b) return a + std::numbers::ln2_v<Real>;
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<Real>::quiet_NaN();
  return std::max(a, b) + std::log1p(std::exp(-std::abs(a - b)));
}

}  // namespace

// ---- the tables --------------------------------------------------------------------------------

#define EXACT(...) [](Real x) -> Real { return __VA_ARGS__; }
#define EXACT_OF_TWO(...) [](Real a, Real b) -> Real { return __VA_ARGS__; }
#define OF_ONE(name) #name, [](Tensor x) { return stave::name(std::move(x)); }
#define OF_TWO(name) #name, [](Operand a, Operand b) { return stave::name(std::move(a), std::move(b)); }

const std::vector<FloatFunction>& float_functions() {
  using namespace stave;
  static const std::vector<FloatFunction> functions = {
      {OF_ONE(sqrt), EXACT(std::sqrt(x)), 0, 100, true},
      {OF_ONE(rsqrt), EXACT(1 / std::sqrt(x)), 0, 100},
      {OF_ONE(reciprocal), EXACT(1 / x), -10, 10, true},
      {OF_ONE(exp), EXACT(std::exp(x)), -20, 20},
      {OF_ONE(exp2), EXACT(std::exp2(x)), -20, 20},
      {OF_ONE(expm1), EXACT(std::expm1(x)), -5, 5},
      {OF_ONE(log), EXACT(std::log(x)), 0, 3},
      {OF_ONE(log2), EXACT(std::log2(x)), 0, 3},
      {OF_ONE(log10), EXACT(std::log10(x)), 0, 3},
      {OF_ONE(log1p), EXACT(std::log1p(x)), -1, 3},
      {OF_ONE(sin), EXACT(std::sin(x)), -50, 50},
      {OF_ONE(cos), EXACT(std::cos(x)), -50, 50},
      {OF_ONE(tan), EXACT(std::tan(x)), -50, 50},
      {OF_ONE(asin), EXACT(std::asin(x)), -1, 1},
      {OF_ONE(acos), EXACT(std::acos(x)), -1, 1},
      {OF_ONE(atan), EXACT(std::atan(x)), -10, 10},
      {OF_ONE(sinh), EXACT(std::sinh(x)), -20, 20},
      {OF_ONE(cosh), EXACT(std::cosh(x)), -20, 20},
      {OF_ONE(tanh), EXACT(std::tanh(x)), -4, 4},
      {OF_ONE(asinh), EXACT(std::asinh(x)), -10, 10},
      {OF_ONE(acosh), EXACT(std::acosh(x)), 1, 10},
      {OF_ONE(atanh), EXACT(std::atanh(x)), -1, 1},
      {OF_ONE(erf), EXACT(std::erf(x)), -4, 4},
      {OF_ONE(erfc), EXACT(std::erfc(x)), -4, 10},
      {OF_ONE(erfinv), erfinv_exact, -1, 1},
      {.name = "lgamma",
       .call = [](Tensor x) { return stave::lgamma(std::move(x)); },
       .exact = EXACT(std::lgamma(x)),
       .low = -10,
       .high = 10,
       .least = 1},
      {.name = "digamma",
       .call = [](Tensor x) { return stave::digamma(std::move(x)); },
       .exact = digamma_reference,
       .low = -10,
       .high = 14,
       .least = 32,
       .up_to = 2},
      {.name = "polygamma(1, x)",
       .call = [](Tensor x) { return polygamma(1, std::move(x)); },
       .exact = EXACT(zeta_reference(2, x)),
       .low = 0.01,
       .high = 30,
       .everywhere = false},
      {.name = "polygamma(3, x)",
       .call = [](Tensor x) { return polygamma(3, std::move(x)); },
       .exact = EXACT(6 * zeta_reference(4, x)),
       .low = 0.01,
       .high = 30,
       .everywhere = false},
      {.name = "polygamma(20, x)",
       .call = [](Tensor x) { return polygamma(20, std::move(x)); },
       .exact = EXACT(-2432902008176640000.L * zeta_reference(21, x)),
       .low = 0.5,
       .high = 300,
       .everywhere = false},
      {OF_ONE(sigmoid), EXACT(1 / (1 + std::exp(-x))), -10, 10},
      {OF_ONE(log_sigmoid), EXACT(-softplus_exact(-x)), -10, 10},
      {OF_ONE(logit), logit_exact, 0, 1},
      {OF_ONE(softplus), softplus_exact, -10, 10},
      {OF_ONE(silu), silu_exact, -10, 10},
      {.name = "gelu",
       .call = [](Tensor x) { return stave::gelu(std::move(x)); },
       .exact = gelu_exact,
       .low = -10,
       .high = 10,
       .by_x = true},
      {.name = "gelu_tanh",
       .call = [](Tensor x) { return stave::gelu_tanh(std::move(x)); },
       .exact = gelu_tanh_exact,
       .low = -6,
       .high = 10,
       .least = 0.25},
      {.name = "mish",
       .call = [](Tensor x) { return stave::mish(std::move(x)); },
       .exact = EXACT(x * std::tanh(softplus_exact(x))),
       .low = -10,
       .high = 10,
       .everywhere = false},
      {.name = "elu",
       .call = [](Tensor x) { return stave::elu(std::move(x)); },
       .exact = elu_exact,
       .low = -10,
       .high = 10,
       .everywhere = false},
      {.name = "selu",
       .call = [](Tensor x) { return stave::selu(std::move(x)); },
       .exact = selu_exact,
       .low = -10,
       .high = 10,
       .everywhere = false},
      {.name = "entr",
       .call = [](Tensor x) { return stave::entr(std::move(x)); },
       .exact = EXACT(-x * std::log(x)),
       .low = 0,
       .high = 10,
       .everywhere = false},
      {OF_ONE(floor), EXACT(std::floor(x)), -5, 5, true},
      {OF_ONE(ceil), EXACT(std::ceil(x)), -5, 5, true},
      {OF_ONE(round), EXACT(std::nearbyint(x)), -5, 5, true},
      {OF_ONE(trunc), EXACT(std::trunc(x)), -5, 5, true},
  };
  return functions;
}

const std::vector<PairFunction>& pair_functions() {
  using namespace stave;
  static const std::vector<PairFunction> functions = {
      {OF_TWO(divide), EXACT_OF_TWO(a / b), true},
      {OF_TWO(floor_divide), floor_divide_exact, true},
      {OF_TWO(remainder), remainder_exact, true},
      {OF_TWO(pow), EXACT_OF_TWO(std::pow(a, b))},
      {OF_TWO(atan2), EXACT_OF_TWO(std::atan2(a, b))},
      {OF_TWO(hypot), EXACT_OF_TWO(std::hypot(a, b))},
      {.name = "logaddexp",
       .call = [](Operand a, Operand b) { return stave::logaddexp(std::move(a), std::move(b)); },
       .exact = logaddexp_exact,
       // Where the result is near 0, the terms cancel.
       .least = 1},
      {OF_TWO(xlogy), EXACT_OF_TWO(a == 0 && !std::isnan(b) ? 0 : a * std::log(b))},
      {OF_TWO(xlog1py), EXACT_OF_TWO(a == 0 && !std::isnan(b) ? 0 : a * std::log1p(b))},
      {.name = "zeta",
       .call = [](Operand a, Operand b) { return stave::zeta(std::move(a), std::move(b)); },
       .exact = zeta_reference,
       .of_positive = true},
  };
  return functions;
}

// ---- errors ------------------------------------------------------------------------------------

template <class T>
double ulps(T got, Real exact, double least) {
  constexpr double wrong = std::numeric_limits<double>::infinity();
  if (std::isnan(exact)) return std::isnan(got) ? 0 : wrong;
  T rounded = static_cast<T>(exact);
  if (std::isinf(rounded) || std::isinf(got)) {
    if (rounded == got) return 0;
    // Near overflow, the largest float and infinity are within an ulp of each other.
    T most = std::numeric_limits<T>::max();
    return (std::abs(got) == most || std::abs(rounded) == most) && std::signbit(got) == std::signbit(rounded) ? 1
                                                                                                              : wrong;
  }
  if (exact == 0 && least == 0) return got == 0 && std::signbit(got) == std::signbit(exact) ? 0 : wrong;
  int exponent = std::max(std::ilogb(std::max<Real>(std::abs(exact), least)), std::numeric_limits<T>::min_exponent - 1);
  Real spacing = std::ldexp(Real{1}, exponent - std::numeric_limits<T>::digits + 1);
  return static_cast<double>(std::abs(static_cast<Real>(got) - exact) / spacing);
}
template double ulps(float, Real, double);
template double ulps(double, Real, double);

template <class T>
double error_of(const FloatFunction& f, T x, T y) {
  const Real exact = f.exact(x);
  const double error = ulps(y, exact, x < f.up_to ? f.least : 0);
  if (!f.by_x || !(x < 0 && y <= 0)) return error;
  return std::min(error, static_cast<double>(std::abs(static_cast<Real>(y) - exact) /
                                             (std::abs(x) * std::numeric_limits<T>::denorm_min())));
}
template double error_of(const FloatFunction&, float, float);
template double error_of(const FloatFunction&, double, double);

// ---- the documented bounds ---------------------------------------------------------------------

const std::map<std::string, Bounds>& documented_bounds() {
  static const std::map<std::string, Bounds> bounds = [] {
    std::map<std::string, Bounds> found;
    std::ifstream file(STAVE_SOURCE_DIR "/docs/accuracy.md");
    for (std::string line, word; std::getline(file, line);) {
      if (line.starts_with("## Special")) break;
      if (!line.starts_with("| `")) continue;
      const std::size_t end = line.find('`', 3);
      std::istringstream cells(line.substr(line.find('|', end) + 1));
      Bounds of_line{};
      cells >> of_line.ulps32;
      while (cells >> word && word != "|") {
      }
      cells >> of_line.ulps64;
      found[line.substr(3, end - 3)] = of_line;
    }
    return found;
  }();
  return bounds;
}

const std::map<std::string, double>& documented_special_bounds() {
  static const std::map<std::string, double> bounds = [] {
    std::map<std::string, double> found;
    std::ifstream file(STAVE_SOURCE_DIR "/docs/accuracy.md");
    bool is_special = false;
    for (std::string line; std::getline(file, line);) {
      is_special = is_special || line.starts_with("## Special");
      if (!is_special || !line.starts_with("| `")) continue;
      const std::size_t end = line.find('`', 3);
      found[line.substr(3, end - 3)] = std::stod(line.substr(line.find('|', end) + 1));
    }
    return found;
  }();
  return bounds;
}

}  // namespace stave_test
