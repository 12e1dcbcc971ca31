// Functions of floats, on every backend.
#include "conformance.h"

#include <fstream>
#include <numbers>
#include <sstream>

#include "special_reference.h"

namespace {

using namespace conformance;

STAVE_ON_BACKENDS(Functions);

// ---- functions of floats, in units in the last place -------------------------------------------------------

Real erfinv_exact(Real x) {  // bisection-free: Newton on erf, or on erfc near the ends
  if (std::abs(x) > 1 || std::isnan(x)) return std::numeric_limits<Real>::quiet_NaN();
  if (std::abs(x) == 1) return x * std::numeric_limits<Real>::infinity();
  Real a = std::abs(x), y = a < 0.9L ? a : std::sqrt(-std::log1p(-a));
  for (int i = 0; i < 60; ++i) {
    Real error = a < 0.5L ? std::erf(y) - a : (1 - a) - std::erfc(y);
    Real step = error * std::sqrt(std::acos(-1.0L)) / 2 * std::exp(y * y);
    y -= step / (1 + y * step);  // Halley
    if (std::abs(step) <= std::numeric_limits<Real>::epsilon() * y) break;
  }
  return std::copysign(y, x);
}
Real remainder_exact(Real a, Real b) {
  Real r = std::fmod(a, b);
  return r == 0 ? std::copysign(Real{0}, b) : (r < 0) != (b < 0) ? r + b : r;
}

Real gelu_exact(Real x) {
  return std::isinf(x) && x < 0 ? -Real{0} : x * std::erfc(-x / std::numbers::sqrt2_v<Real>) / 2;
}
Real gelu_tanh_exact(Real x) {
  const Real inner = std::sqrt(2 / std::numbers::pi_v<Real>) * (x + 0.044715L * x * x * x);
  return std::isinf(x) && x < 0 ? -Real{0} : x / (1 + std::exp(-2 * inner));
}

struct Function {
  OpId op;
  const char* name;
  Real (*exact)(Real);
  double ulps32, ulps64;
  double low, high;  // of the moderate range that is tested densely
  double least = 0,
         up_to = 0;  // for x < up_to, errors of results smaller than least are as of it: near zeros they are absolute
  bool by_x =
      false;  // a product of x and what may be denormal, for x < 0: errors are also allowed in its spacing, times |x|
};
const Function functions[] = {
    {OpId::sqrt, "sqrt", [](Real x) { return std::sqrt(x); }, 0.5001, 0.5005, 0, 100},
    {OpId::rsqrt, "rsqrt", [](Real x) { return 1 / std::sqrt(x); }, 1.5, 1.5, 0, 100},
    {OpId::reciprocal, "reciprocal", [](Real x) { return 1 / x; }, 0.5001, 0.5005, -10, 10},
    {OpId::exp2, "exp2", [](Real x) { return std::exp2(x); }, 1, 1, -20, 20},
    {OpId::log2, "log2", [](Real x) { return std::log2(x); }, 1, 1, 0, 3},
    {OpId::log10, "log10", [](Real x) { return std::log10(x); }, 1, 1, 0, 3},
    {OpId::logit, "logit",
     [](Real x) { return x < 0.3L || x > 0.7L ? std::log(x / (1 - x)) : std::log1p((2 * x - 1) / (1 - x)); }, 3, 3, 0,
     1},
    {OpId::erfc, "erfc", [](Real x) { return std::erfc(x); }, 2, 1.5, -4, 10},
    {OpId::lgamma, "lgamma", [](Real x) { return std::lgamma(x); }, 1, 1, -10, 10, 1},
    {OpId::digamma, "digamma", stave_test::digamma_reference, 0.51, 3, -10, 14, 32, 2},
    {OpId::silu, "silu", [](Real x) { return std::isinf(x) && x < 0 ? -Real{0} : x / (1 + std::exp(-x)); }, 3.5, 3.5,
     -10, 10, 0, 0, true},
    {OpId::gelu, "gelu", gelu_exact, 4, 4, -10, 10, 0, 0, true},
    {OpId::gelu_tanh, "gelu_tanh", gelu_tanh_exact, 4, 4, -6, 10, 0.25, 0},
    {OpId::exp, "exp", [](Real x) { return std::exp(x); }, 1, 1, -20, 20},
    {OpId::expm1, "expm1", [](Real x) { return std::expm1(x); }, 1, 1, -5, 5},
    {OpId::log, "log", [](Real x) { return std::log(x); }, 1, 1, 0, 3},
    {OpId::log1p, "log1p", [](Real x) { return std::log1p(x); }, 1, 1, -1, 3},
    {OpId::sin, "sin", [](Real x) { return std::sin(x); }, 1, 1, -50, 50},
    {OpId::cos, "cos", [](Real x) { return std::cos(x); }, 1, 1, -50, 50},
    {OpId::tan, "tan", [](Real x) { return std::tan(x); }, 1, 1, -50, 50},
    {OpId::asin, "asin", [](Real x) { return std::asin(x); }, 1, 1, -1, 1},
    {OpId::acos, "acos", [](Real x) { return std::acos(x); }, 1, 1, -1, 1},
    {OpId::atan, "atan", [](Real x) { return std::atan(x); }, 1, 1, -10, 10},
    {OpId::sinh, "sinh", [](Real x) { return std::sinh(x); }, 1, 1, -20, 20},
    {OpId::cosh, "cosh", [](Real x) { return std::cosh(x); }, 1, 1, -20, 20},
    {OpId::tanh, "tanh", [](Real x) { return std::tanh(x); }, 1, 1, -4, 4},
    {OpId::asinh, "asinh", [](Real x) { return std::asinh(x); }, 1, 1, -10, 10},
    {OpId::acosh, "acosh", [](Real x) { return std::acosh(x); }, 1, 1, 1, 10},
    {OpId::atanh, "atanh", [](Real x) { return std::atanh(x); }, 1, 1, -1, 1},
    {OpId::erf, "erf", [](Real x) { return std::erf(x); }, 1, 1, -4, 4},
    {OpId::erfinv, "erfinv", erfinv_exact, 4, 4, -1, 1},
    {OpId::sigmoid, "sigmoid", [](Real x) { return 1 / (1 + std::exp(-x)); }, 2.5, 2.5, -10, 10},
    {OpId::softplus, "softplus", [](Real x) { return std::max(x, Real{0}) + std::log1p(std::exp(-std::abs(x))); }, 2.5,
     2.5, -10, 10},
    {OpId::floor, "floor", [](Real x) { return std::floor(x); }, 0, 0, -5, 5},
    {OpId::ceil, "ceil", [](Real x) { return std::ceil(x); }, 0, 0, -5, 5},
    {OpId::round, "round", [](Real x) { return std::nearbyint(x); }, 0, 0, -5, 5},
    {OpId::trunc, "trunc", [](Real x) { return std::trunc(x); }, 0, 0, -5, 5},
};

/// What is not computed by IEEE's arithmetic may err more on a GPU: the CUDA C++ Programming Guide, "Mathematical Functions",
/// states at most 5 ulps for the functions above.
double allowed(double ulps) { return on_cuda() && ulps > 0.51 ? ulps + 5 : ulps; }

/// |got - exact| in spacings of T at `exact`, or at `least` if that is more; infinite for a wrong NaN, infinity or sign of zero.
template <class T>
double ulps(T got, Real exact, double least = 0) {
  constexpr double wrong = std::numeric_limits<double>::infinity();
  if (std::isnan(exact)) return std::isnan(got) ? 0 : wrong;
  T rounded = static_cast<T>(exact);
  if (std::isinf(rounded) || std::isinf(got)) {
    if (rounded == got) return 0;
    T most = std::numeric_limits<T>::max();  // on the brink of overflow either side is within an ulp
    return (std::abs(got) == most || std::abs(rounded) == most) && std::signbit(got) == std::signbit(rounded) ? 1
                                                                                                              : wrong;
  }
  if (exact == 0 && least == 0) return got == 0 && std::signbit(got) == std::signbit(exact) ? 0 : wrong;
  int exponent = std::max(std::ilogb(std::max<Real>(std::abs(exact), least)), std::numeric_limits<T>::min_exponent - 1);
  Real spacing = std::ldexp(Real{1}, exponent - std::numeric_limits<T>::digits + 1);
  return static_cast<double>(std::abs(static_cast<Real>(got) - exact) / spacing);
}

template <class T>
std::vector<T> test_values(double low, double high, int count) {
  std::vector<T> x = special_values<T>();
  std::uniform_real_distribution<double> moderate(low, high);
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  for (int i = 0; i < count; ++i) {
    x.push_back(static_cast<T>(moderate(rng())));
    Bits bits = static_cast<Bits>(rng()());  // any exponent
    T any;
    std::memcpy(&any, &bits, sizeof any);
    x.push_back(any);
  }
  return x;
}

template <class T>
void check_function(const Function& f, double bound, int count) {
  std::vector<T> x = test_values<T>(f.low, f.high, count), y = map<T>(f.op, x);
  double worst = 0;
  T worst_at = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    double error = ulps(y[i], f.exact(x[i]), x[i] < f.up_to ? f.least : 0);
    if (f.by_x && x[i] < 0 && y[i] <= 0)
      error = std::min(error, static_cast<double>(std::abs(static_cast<Real>(y[i]) - f.exact(x[i])) /
                                                  (std::abs(x[i]) * std::numeric_limits<T>::denorm_min())));
    if (error > worst) {
      worst = error;
      worst_at = x[i];
    }
  }
  EXPECT_LE(worst, allowed(bound)) << f.name << " " << name_of(dtype_of<T>()) << " at " << worst_at << " = "
                                   << std::hexfloat << worst_at << ": " << map<T>(f.op, std::vector<T>{worst_at})[0]
                                   << " for " << static_cast<T>(f.exact(worst_at));
  if (std::getenv("STAVE_TEST_VERBOSE"))
    std::printf("%-9s %s %.3f ulp at %a\n", f.name, name_of(dtype_of<T>()), worst, static_cast<double>(worst_at));
}
int test_count() {
  const char* text = std::getenv("STAVE_TEST_COUNT");
  return text ? std::atoi(text) : 20000;
}
TEST_P(Functions, FunctionsOfFloat32) {
  for (const Function& f : functions) check_function<float>(f, f.ulps32, test_count());
}
TEST_P(Functions, FunctionsOfFloat64) {
  for (const Function& f : functions) check_function<double>(f, f.ulps64, test_count());
}

template <class T>
void check_binary(OpId op, Real (*exact)(Real, Real), double bound, const char* name, double least = 0) {
  std::vector<T> x, y, special = special_values<T>();
  for (T a : special)
    for (T b : special) x.push_back(a), y.push_back(b);
  std::uniform_real_distribution<double> moderate(-20, 20), positive(0, 10);
  for (int i = 0; i < test_count(); ++i) x.push_back(T(positive(rng()))), y.push_back(T(moderate(rng())));
  for (int i = 0; i < test_count(); ++i) x.push_back(T(std::exp(moderate(rng())))), y.push_back(T(moderate(rng())));
  for (int i = 0; i < 1000; ++i) x.push_back(T(moderate(rng()))), y.push_back(T(int(moderate(rng()))));
  std::vector<T> z = map<T>(op, x, y);
  for (std::size_t i = 0; i < x.size(); ++i)
    ASSERT_LE(ulps(z[i], exact(x[i], y[i]), least),
              name == std::string("remainder") || name == std::string("floor_divide") ? bound : allowed(bound))
        << name << "(" << x[i] << ", " << y[i] << ") = " << z[i];
}
/// The quotient less its fraction, which fmod has exactly.
Real floor_divide_exact(Real a, Real b) {
  if (b == 0) return a / b;
  Real r = std::fmod(a, b), quotient = std::isinf(b) ? std::copysign(Real{0}, a / b) : std::round((a - r) / b);
  if (std::isnan(r)) return r;
  return r != 0 && (r < 0) != (b < 0) ? quotient - 1 : quotient == 0 ? std::copysign(quotient, a / b) : quotient;
}

TEST_P(Functions, QuotientsAndAnglesOfFloats) {
  auto angle = [](Real y, Real x) { return std::atan2(y, x); };
  check_binary<float>(OpId::atan2, angle, 1, "atan2");
  check_binary<double>(OpId::atan2, angle, 1, "atan2");
  // An integer too many or too few would be a whole ulp or more.
  check_binary<float>(OpId::floor_divide, floor_divide_exact, 0.99, "floor_divide");
  check_binary<double>(OpId::floor_divide, floor_divide_exact, 0.99, "floor_divide");
}

TEST_P(Functions, PowAndRemainderOfFloats) {
  auto power = [](Real a, Real b) { return std::pow(a, b); };
  check_binary<float>(OpId::pow, power, 1, "pow");
  check_binary<double>(OpId::pow, power, 1, "pow");
  // The shifted remainder r + b rounds; np.remainder(-1, inf) is inf.
  check_binary<float>(OpId::remainder, remainder_exact, 0.5, "remainder");
  check_binary<double>(OpId::remainder, remainder_exact, 0.5, "remainder");
}

Real logaddexp_exact(Real a, Real b) {
  if (a == b) return a + std::numbers::ln2_v<Real>;
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<Real>::quiet_NaN();
  return std::max(a, b) + std::log1p(std::exp(-std::abs(a - b)));
}
TEST_P(Functions, LengthsAndLogarithmsOfTwoFloats) {
  auto length = [](Real a, Real b) { return std::hypot(a, b); };
  // Of numbers that are not denormal, 0.51.
  check_binary<float>(OpId::hypot, length, 1.5, "hypot");
  check_binary<double>(OpId::hypot, length, 1.5, "hypot");
  // Where it is near 0, the operands have cancelled.
  check_binary<float>(OpId::logaddexp, logaddexp_exact, 2, "logaddexp", 1);
  check_binary<double>(OpId::logaddexp, logaddexp_exact, 2, "logaddexp", 1);
  auto xlogy = [](Real a, Real b) { return a == 0 && !std::isnan(b) ? 0 : a * std::log(b); };
  check_binary<float>(OpId::xlogy, xlogy, 2, "xlogy");
  check_binary<double>(OpId::xlogy, xlogy, 2, "xlogy");
  auto xlog1py = [](Real a, Real b) { return a == 0 && !std::isnan(b) ? 0 : a * std::log1p(b); };
  check_binary<float>(OpId::xlog1py, xlog1py, 2, "xlog1py");
  check_binary<double>(OpId::xlog1py, xlog1py, 2, "xlog1py");
}

TEST_P(Functions, SignsAndNeighbours) {
  auto sign = [](Real a, Real b) { return std::copysign(a, b); };
  check_binary<float>(OpId::copysign, sign, 0, "copysign");
  check_binary<double>(OpId::copysign, sign, 0, "copysign");
  check_binary<float>(
      OpId::nextafter,
      [](Real a, Real b) { return Real(std::nextafter(static_cast<float>(a), static_cast<float>(b))); }, 0,
      "nextafter");
  check_binary<double>(
      OpId::nextafter,
      [](Real a, Real b) { return Real(std::nextafter(static_cast<double>(a), static_cast<double>(b))); }, 0,
      "nextafter");
  const std::vector<float> x = {0.f, -0.f, 1.f, -1.f, INFINITY, -INFINITY, std::copysign(float{NAN}, -1.f)};
  EXPECT_EQ(map<bool>(OpId::signbit, x), (std::vector<bool>{false, true, false, true, false, true, true}));
}

// ---- digamma and zeta, by mpmath ---------------------------------------------------------------------------

struct Stored {
  std::vector<double> arguments;
  Real value;
};
/// The lines of tests/data/special.csv for one function.
std::vector<Stored> stored(const std::string& function) {
  std::ifstream file(STAVE_SOURCE_DIR "/tests/data/special.csv");
  std::vector<Stored> all;
  for (std::string line, word; std::getline(file, line);) {
    if (!line.starts_with(function + ",")) continue;
    std::istringstream words(line.substr(function.size() + 1));
    std::vector<Real> numbers;
    while (std::getline(words, word, ',')) numbers.push_back(std::strtold(word.c_str(), nullptr));
    const Real value = numbers.back();
    numbers.pop_back();
    all.push_back({std::vector<double>(numbers.begin(), numbers.end()), value});
  }
  return all;
}

TEST(SpecialReferences, AreMpmaths) {
  ASSERT_GT(stored("digamma").size(), 90u);
  ASSERT_GT(stored("zeta").size(), 140u);
  for (const Stored& s : stored("digamma"))
    EXPECT_LE(std::abs(stave_test::digamma_reference(s.arguments[0]) - s.value), 1e-18L + 2e-18L * std::abs(s.value))
        << s.arguments[0];
  for (const Stored& s : stored("zeta"))
    EXPECT_LE(std::abs(stave_test::zeta_reference(s.arguments[0], s.arguments[1]) - s.value),
              2e-17L * std::abs(s.value) + (s.arguments[1] < 0 ? 1e-16L : 0))  // terms of both signs cancel
        << s.arguments[0] << " " << s.arguments[1];
}
TEST_P(Functions, DigammaIsMpmaths) {
  double worst = 0;
  for (const Stored& s : stored("digamma")) {
    const double error = ulps(map<double>(OpId::digamma, s.arguments)[0], s.value, s.arguments[0] < 0 ? 1 : 0);
    EXPECT_LE(error, allowed(s.arguments[0] < 0 ? 6 : 3)) << s.arguments[0];
    worst = std::max(worst, error);
  }
  if (std::getenv("STAVE_TEST_VERBOSE")) std::printf("digamma %.3f ulp\n", worst);
}
TEST_P(Functions, ZetaIsMpmaths) {
  double worst = 0;
  for (const Stored& s : stored("zeta")) {
    const double error = ulps(
        map<double>(OpId::zeta, std::vector<double>{s.arguments[0]}, std::vector<double>{s.arguments[1]})[0], s.value);
    EXPECT_LE(error, allowed(6)) << s.arguments[0] << " " << s.arguments[1];
    worst = std::max(worst, error);
  }
  if (std::getenv("STAVE_TEST_VERBOSE")) std::printf("zeta %.3f ulp\n", worst);
}
TEST_P(Functions, ZetaOfFloat32) {
  std::vector<float> s, q;
  std::uniform_real_distribution<double> exponent(1.01, 12), from(0.01, 30);
  for (int i = 0; i < 1000; ++i) s.push_back(float(exponent(rng()))), q.push_back(float(from(rng())));
  const std::vector<float> y = map<float>(OpId::zeta, s, q);
  for (std::size_t i = 0; i < s.size(); ++i)
    ASSERT_LE(ulps(y[i], stave_test::zeta_reference(s[i], q[i])), 0.51) << s[i] << " " << q[i];
}
TEST_P(Functions, ZetaAtItsEdges) {
  const double nan = NAN, inf = INFINITY;
  const std::vector<double> s = {1, 0.5, 2, 3, 3, 2, 2.5, 2, 2, nan, 2, inf, inf, inf, 400, 2, 1e30};
  const std::vector<double> q = {2, 2, 0, 0, -0., -3, -0.5, inf, -inf, 1, nan, 2, 1, 0.5, 3, 1e200, 7};
  const std::vector<double> expected = {
      inf, nan, inf, inf, inf, inf, nan, 0, inf, nan, nan, 0, 1, inf, std::pow(3., -400.), 1e-200, 0};
  const std::vector<double> y = map<double>(OpId::zeta, s, q);
  for (std::size_t i = 0; i < s.size(); ++i)
    EXPECT_LE(ulps(y[i], expected[i]), 2) << s[i] << " " << q[i] << " " << y[i];
  EXPECT_EQ(map<double>(OpId::digamma, std::vector<double>{0, -0., inf, 0x1p-1000}),
            (std::vector<double>{-inf, inf, inf, -0x1p1000}));
  for (const double pole : {-1., -2., -1e20, -inf})
    EXPECT_TRUE(std::isnan(map<double>(OpId::digamma, std::vector<double>{pole})[0])) << pole;
}

// The last bit of f(x) may depend neither on the neighbours of x nor on its position: a vmap'ed program equals the loop.
TEST_P(Functions, ResultsDoNotDependOnNeighbours) {
  for (const Function& f : functions) {
    std::vector<float> x = test_values<float>(f.low, f.high, 100), all = map<float>(f.op, x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      float alone = map<float>(f.op, std::vector<float>{x[i]})[0];
      if (std::isnan(alone)) continue;
      ASSERT_EQ(0, std::memcmp(&alone, &all[i], sizeof alone)) << f.name << " at " << x[i];
    }
  }
}

}  // namespace
