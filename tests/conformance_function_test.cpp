// Functions of floats, on every backend.
#include "conformance.h"

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

struct Function {
  OpId op;
  const char* name;
  Real (*exact)(Real);
  double ulps32, ulps64;
  double low, high;  // of the moderate range that is tested densely
};
const Function functions[] = {
    {OpId::sqrt, "sqrt", [](Real x) { return std::sqrt(x); }, 0.5001, 0.5005, 0, 100},
    {OpId::rsqrt, "rsqrt", [](Real x) { return 1 / std::sqrt(x); }, 1.5, 1.5, 0, 100},
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

/// |got - exact| in spacings of T at `exact`; infinite for a wrong NaN, infinity or sign of zero.
template <class T>
double ulps(T got, Real exact) {
  constexpr double wrong = std::numeric_limits<double>::infinity();
  if (std::isnan(exact)) return std::isnan(got) ? 0 : wrong;
  T rounded = static_cast<T>(exact);
  if (std::isinf(rounded) || std::isinf(got)) {
    if (rounded == got) return 0;
    T most = std::numeric_limits<T>::max();  // on the brink of overflow either side is within an ulp
    return (std::abs(got) == most || std::abs(rounded) == most) && std::signbit(got) == std::signbit(rounded) ? 1
                                                                                                              : wrong;
  }
  if (exact == 0) return got == 0 && std::signbit(got) == std::signbit(exact) ? 0 : wrong;
  int exponent = std::max(std::ilogb(exact), std::numeric_limits<T>::min_exponent - 1);
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
    double error = ulps(y[i], f.exact(x[i]));
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
void check_binary(OpId op, Real (*exact)(Real, Real), double bound, const char* name) {
  std::vector<T> x, y, special = special_values<T>();
  for (T a : special)
    for (T b : special) x.push_back(a), y.push_back(b);
  std::uniform_real_distribution<double> moderate(-20, 20), positive(0, 10);
  for (int i = 0; i < test_count(); ++i) x.push_back(T(positive(rng()))), y.push_back(T(moderate(rng())));
  for (int i = 0; i < test_count(); ++i) x.push_back(T(std::exp(moderate(rng())))), y.push_back(T(moderate(rng())));
  for (int i = 0; i < 1000; ++i) x.push_back(T(moderate(rng()))), y.push_back(T(int(moderate(rng()))));
  std::vector<T> z = map<T>(op, x, y);
  for (std::size_t i = 0; i < x.size(); ++i)
    ASSERT_LE(ulps(z[i], exact(x[i], y[i])),
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
