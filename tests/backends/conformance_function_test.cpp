// Functions of floats, on every backend.
#include "conformance.h"

#include <fstream>
#include <sstream>

#include "accuracy/functions.h"
#include "special_reference.h"

namespace {

using namespace conformance;
using namespace stave_test;

STAVE_ON_BACKENDS(Functions);

// ---- functions of floats, in units in the last place --------------------------------------------
// accuracy/functions.cpp measures the exact bounds, and docs/accuracy.md states the allowed ones.

/// A function that is not basic IEEE arithmetic may have a larger error on a GPU: the CUDA C++
/// Programming Guide, "Mathematical Functions", states at most 5 ulps for the functions above.
double allowed(double ulps) { return on_cuda() && ulps > 0.51 ? ulps + 5 : ulps; }

/// Returns the function's bound in T, plus the error of the reference.
template <class T>
double bound(const char* name) {
  const Bounds& bounds = documented_bounds().at(name);
  return (sizeof(T) == 4 ? bounds.ulps32 : bounds.ulps64) + 0.002;
}

/// Returns the operation of this name; nullopt for a function composed of several operations.
std::optional<OpId> operation(std::string_view name) {
  for (const Op* op : all_ops())
    if (name == op->name) return op->id;
  return std::nullopt;
}

int test_count() {
  const char* text = std::getenv("STAVE_TEST_COUNT");
  return text ? std::atoi(text) : 20000;
}

template <class T>
void check_functions() {
  for (const FloatFunction& f : float_functions()) {
    const std::optional<OpId> op = operation(f.name);
    if (!op) continue;
    const std::vector<T> x = sampled<T>(rng(), f.low, f.high, test_count(), f.everywhere), y = map<T>(*op, x);
    double worst = 0;
    T worst_at = 0;
    for (std::size_t i = 0; i < x.size(); ++i)
      if (const double error = error_of(f, x[i], y[i]); error > worst) {
        worst = error;
        worst_at = x[i];
      }
    EXPECT_LE(worst, allowed(bound<T>(f.name)))
        << f.name << " " << name_of(dtype_of<T>()) << " at " << worst_at << " = " << std::hexfloat << worst_at << ": "
        << map<T>(*op, std::vector<T>{worst_at})[0] << " for " << static_cast<T>(f.exact(worst_at));
    if (std::getenv("STAVE_TEST_VERBOSE"))
      std::printf("%-9s %s %.3f ulp at %a\n", f.name, name_of(dtype_of<T>()), worst, static_cast<double>(worst_at));
  }
}
TEST_P(Functions, AreAccurateInFloat32) { check_functions<float>(); }
TEST_P(Functions, AreAccurateInFloat64) { check_functions<double>(); }

template <class T>
void check_pairs(const PairFunction& f) {
  std::vector<T> x, y, special = special_values<T>();
  for (T a : special)
    for (T b : special) x.push_back(a), y.push_back(b);
  std::uniform_real_distribution<double> moderate(-20, 20), positive(0, 10);
  for (int i = 0; i < test_count(); ++i) x.push_back(T(positive(rng()))), y.push_back(T(moderate(rng())));
  for (int i = 0; i < test_count(); ++i) x.push_back(T(std::exp(moderate(rng())))), y.push_back(T(moderate(rng())));
  for (int i = 0; i < 1000; ++i) x.push_back(T(moderate(rng()))), y.push_back(T(int(moderate(rng()))));
  const std::vector<T> z = map<T>(*operation(f.name), x, y);
  const bool by_arithmetic = f.name == std::string("remainder") || f.name == std::string("floor_divide");
  const double most = by_arithmetic ? bound<T>(f.name) : allowed(bound<T>(f.name));
  for (std::size_t i = 0; i < x.size(); ++i)
    ASSERT_LE(ulps(z[i], f.exact(x[i], y[i]), f.least), most)
        << f.name << "(" << x[i] << ", " << y[i] << ") = " << z[i];
}
TEST_P(Functions, OfTwoFloatsAreAccurate) {
  for (const PairFunction& f : pair_functions())
    if (!f.of_positive) {
      check_pairs<float>(f);
      check_pairs<double>(f);
    }
}

template <class T, class F>
void check_exactly(OpId op, F f) {
  std::vector<T> x, y;
  for (T a : special_values<T>())
    for (T b : special_values<T>()) x.push_back(a), y.push_back(b);
  const std::vector<T> z = map<T>(op, x, y);
  for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(ulps(z[i], f(x[i], y[i])), 0) << x[i] << ", " << y[i];
}
TEST_P(Functions, SignbitCopysignAndNextafterAreExact) {
  const std::vector<float> x = {0.f, -0.f, 1.f, -1.f, INFINITY, -INFINITY, std::copysign(float{NAN}, -1.f)};
  EXPECT_EQ(map<bool>(OpId::signbit, x), (std::vector<bool>{false, true, false, true, false, true, true}));
  check_exactly<float>(OpId::copysign, [](float a, float b) { return std::copysign(a, b); });
  check_exactly<double>(OpId::copysign, [](double a, double b) { return std::copysign(a, b); });
  check_exactly<float>(OpId::nextafter, [](float a, float b) { return std::nextafter(a, b); });
  check_exactly<double>(OpId::nextafter, [](double a, double b) { return std::nextafter(a, b); });
}

// ---- digamma and zeta, by mpmath ----------------------------------------------------------------

struct Stored {
  std::vector<double> arguments;
  Real value;
};
/// Returns the lines of tests/data/special.csv for one function.
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

TEST(SpecialReferences, EqualMpmath) {
  ASSERT_GT(stored("digamma").size(), 90u);
  ASSERT_GT(stored("zeta").size(), 140u);
  for (const Stored& s : stored("digamma"))
    EXPECT_LE(std::abs(stave_test::digamma_reference(s.arguments[0]) - s.value), 1e-18L + 2e-18L * std::abs(s.value))
        << s.arguments[0];
  for (const Stored& s : stored("zeta"))
    EXPECT_LE(std::abs(stave_test::zeta_reference(s.arguments[0], s.arguments[1]) - s.value),
              // Terms of both signs cancel.
              2e-17L * std::abs(s.value) + (s.arguments[1] < 0 ? 1e-16L : 0))
        << s.arguments[0] << " " << s.arguments[1];
}
TEST_P(Functions, DigammaEqualsMpmath) {
  double worst = 0;
  for (const Stored& s : stored("digamma")) {
    const double error = ulps(map<double>(OpId::digamma, s.arguments)[0], s.value, s.arguments[0] < 0 ? 1 : 0);
    EXPECT_LE(error, allowed(s.arguments[0] < 0 ? 6 : 3)) << s.arguments[0];
    worst = std::max(worst, error);
  }
  if (std::getenv("STAVE_TEST_VERBOSE")) std::printf("digamma %.3f ulp\n", worst);
}
TEST_P(Functions, ZetaEqualsMpmath) {
  double worst = 0;
  for (const Stored& s : stored("zeta")) {
    const double error = ulps(
        map<double>(OpId::zeta, std::vector<double>{s.arguments[0]}, std::vector<double>{s.arguments[1]})[0], s.value);
    EXPECT_LE(error, allowed(4)) << s.arguments[0] << " " << s.arguments[1];
    worst = std::max(worst, error);
  }
  if (std::getenv("STAVE_TEST_VERBOSE")) std::printf("zeta %.3f ulp\n", worst);
}
TEST_P(Functions, ZetaIsAccurateInFloat32) {
  std::vector<float> s, q;
  std::uniform_real_distribution<double> exponent(1.01, 12), from(0.01, 30);
  for (int i = 0; i < 1000; ++i) s.push_back(float(exponent(rng()))), q.push_back(float(from(rng())));
  const std::vector<float> y = map<float>(OpId::zeta, s, q);
  for (std::size_t i = 0; i < s.size(); ++i)
    ASSERT_LE(ulps(y[i], stave_test::zeta_reference(s[i], q[i])), 0.51) << s[i] << " " << q[i];
}
TEST_P(Functions, ZetaAndDigammaHaveTheirValuesAtPolesAndInfinity) {
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

// The last bit of f(x) depends neither on the neighbours of x nor on its position, so that a
// program under vmap equals a loop over the lanes.
TEST_P(Functions, ResultsDoNotDependOnNeighbours) {
  for (const FloatFunction& f : float_functions()) {
    const std::optional<OpId> op = operation(f.name);
    if (!op) continue;
    const std::vector<float> x = sampled<float>(rng(), f.low, f.high, 100, f.everywhere), all = map<float>(*op, x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      float alone = map<float>(*op, std::vector<float>{x[i]})[0];
      if (std::isnan(alone)) continue;
      ASSERT_EQ(0, std::memcmp(&alone, &all[i], sizeof alone)) << f.name << " at " << x[i];
    }
  }
}

}  // namespace
