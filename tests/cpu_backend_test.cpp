// The CPU backend by itself, spoken to through backend.h: every kernel on every instruction set that this machine has,
// against sources that are independent of it: libm in long double, naive loops, published vectors, jax.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include <stave/backends/cpu/dispatch.h>
#include <stave/core/backend.h>
#include <stave/core/error.h>

namespace {

using namespace stave;
using Real = long double;

// ---- arrays in any layout ----------------------------------------------------------------------------------

enum class Lay { contiguous, permuted, reversed, gapped, broadcast };
constexpr Lay lays[] = {Lay::contiguous, Lay::permuted, Lay::reversed, Lay::gapped, Lay::broadcast};

/// Values in row-major order, and the same in memory under other strides. `broadcast` repeats along axis 0.
template <class T>
struct Array {
  Shape shape, strides;
  std::vector<std::uint8_t> bytes;
  Index origin = 0;
  T* base() { return reinterpret_cast<T*>(bytes.data()) + origin; }
  View view() { return {base(), dtype_of<T>(), shape, strides}; }
  T at(Index i) {
    Index offset = 0;
    for (std::size_t d = shape.size(); d-- > 0;) {
      offset += i % shape[d] * strides[d];
      i /= shape[d];
    }
    return base()[offset];
  }
  std::vector<T> values() {
    std::vector<T> all;
    for (Index i = 0; i < shape.elements(); ++i) all.push_back(at(i));
    return all;
  }
};

Strides dense(const Shape& shape) {
  Strides strides;
  strides.resize(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

template <class T>
Array<T> make(const Shape& shape, Lay lay, const std::function<T(Index)>& value) {
  Array<T> a{shape, dense(shape), {}, 0};
  std::size_t rank = shape.size();
  Index spread = 1;
  if (lay == Lay::permuted) {  // last axis outermost
    Index step = 1;
    for (std::size_t i = 0; i < rank; ++i) {
      a.strides[i] = step;
      step *= shape[i];
    }
  } else if (lay == Lay::gapped) {
    for (Index& s : a.strides) s *= 2;
    spread = 2;
  } else if (lay == Lay::broadcast && rank > 0) {
    a.strides[0] = 0;
  } else if (lay == Lay::reversed) {
    for (std::size_t i = 0; i < rank; ++i) {
      if (shape[i] > 0) a.origin += (shape[i] - 1) * a.strides[i];
      a.strides[i] = -a.strides[i];
    }
  }
  a.bytes.resize(static_cast<std::size_t>(std::max<Index>(1, shape.elements() * spread)) * sizeof(T));
  for (Index i = 0; i < shape.elements(); ++i) {
    Index offset = 0, rest = i;
    for (std::size_t d = rank; d-- > 0;) {
      offset += rest % shape[d] * a.strides[d];
      rest /= shape[d];
    }
    a.base()[offset] = value(i);
  }
  return a;
}
template <class T>
Array<T> of(const Shape& shape, std::vector<T> values) {
  return make<T>(shape, Lay::contiguous, [&](Index i) { return values[static_cast<std::size_t>(i)]; });
}

std::mt19937_64& rng() {
  static std::mt19937_64 engine(7);
  return engine;
}
template <class T>
T random_value() {
  if constexpr (std::is_floating_point_v<T>) return static_cast<T>(std::normal_distribution<double>(0, 3)(rng()));
  else if constexpr (std::is_same_v<T, bool>) return rng()() % 2;
  else return static_cast<T>(static_cast<T>(rng()() % 11) - static_cast<T>(std::is_signed_v<T> ? 5 : 0));
}
template <class T>
Array<T> random_array(const Shape& shape, Lay lay) {
  return make<T>(shape, lay, [](Index) { return random_value<T>(); });
}

/// Runs an operation into a fresh contiguous output.
template <class R>
std::vector<R> run(OpId op, const Attributes* attributes, const std::vector<View>& inputs, const Shape& shape) {
  Strides strides = dense(shape);
  StoragePtr storage(cpu_backend().allocate(static_cast<std::size_t>(shape.elements()) * sizeof(R)));
  View out{storage->data, dtype_of<R>(), shape, strides};
  cpu_backend().run(op, attributes, inputs, std::span<const View>(&out, 1));
  const R* data = static_cast<const R*>(storage->data);
  return std::vector<R>(data, data + shape.elements());
}
template <class R, class T>
std::vector<R> map(OpId op, const std::vector<T>& x) {
  Array<T> a = of<T>(Shape(static_cast<Index>(x.size())), x);
  return run<R>(op, nullptr, {a.view()}, a.shape);
}
template <class R, class T>
std::vector<R> map(OpId op, const std::vector<T>& x, const std::vector<T>& y) {
  Array<T> a = of<T>(Shape(static_cast<Index>(x.size())), x), b = of<T>(a.shape, y);
  return run<R>(op, nullptr, {a.view(), b.view()}, a.shape);
}

/// Every test runs on each instruction set of this machine.
class Cpu : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const stave_cpu::Kernels* table = stave_cpu::kernels_for(GetParam());
    if (!table) GTEST_SKIP() << "this machine or build has no " << GetParam();
    stave_cpu::use_kernels(table);
  }
  void TearDown() override { stave_cpu::use_kernels(nullptr); }
};
INSTANTIATE_TEST_SUITE_P(Isa, Cpu, testing::Values("baseline", "avx2", "avx512"),
                         [](const auto& isa) { return std::string(isa.param); });

// ---- functions of floats, in units in the last place -------------------------------------------------------

Real erfinv_exact(Real x) {  // bisection-free: Newton on erf, or on erfc near the ends
  if (std::abs(x) > 1 || std::isnan(x)) return std::numeric_limits<Real>::quiet_NaN();
  if (std::abs(x) == 1) return x * std::numeric_limits<Real>::infinity();
  Real a = std::abs(x), y = a < 0.9L ? a : std::sqrt(-std::log1p(-a));
  for (int i = 0; i < 60; ++i) {
    Real error = a < 0.5L ? std::erf(y) - a : (1 - a) - std::erfc(y);
    Real step = error * std::sqrt(std::acos(-1.0L)) / 2 * std::exp(y * y);
    y -= step / (1 + y * step);  // Halley
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
std::vector<T> special_values() {
  using L = std::numeric_limits<T>;
  std::vector<T> x;
  for (T v : {T(0),
              L::denorm_min(),
              L::min() / 2,
              L::min(),
              L::epsilon(),
              T(1e-10),
              T(0.5),
              T(0.999999),
              T(1),
              T(1.000001),
              T(1.5),
              T(2),
              T(2.5),
              T(3),
              T(8.5),
              T(20),
              T(87),
              T(88.5),
              T(88.72),
              T(88.7228),
              T(89),
              T(103.9),
              T(104),
              T(126),
              T(700),
              T(709.5),
              T(709.7827),
              T(709.78271289),
              T(710),
              T(745),
              T(1e5),
              T(1e7),
              T(0x1p22) + T(0.5),
              T(1e14),
              T(1e20),
              T(1e30),
              L::max() / 16,
              L::max() / 2,
              L::max(),
              L::infinity(),
              L::quiet_NaN()})
    x.insert(x.end(), {v, -v, std::nextafter(v, T(0)), std::nextafter(v, L::infinity())});
  return x;
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
  EXPECT_LE(worst, bound) << f.name << " " << name_of(dtype_of<T>()) << " at " << worst_at << " = " << std::hexfloat
                          << worst_at << ": " << map<T>(f.op, std::vector<T>{worst_at})[0] << " for "
                          << static_cast<T>(f.exact(worst_at));
  if (std::getenv("STAVE_TEST_VERBOSE"))
    std::printf("%-9s %s %.3f ulp at %a\n", f.name, name_of(dtype_of<T>()), worst, static_cast<double>(worst_at));
}
int test_count() {
  const char* text = std::getenv("STAVE_TEST_COUNT");
  return text ? std::atoi(text) : 20000;
}
TEST_P(Cpu, FunctionsOfFloat32) {
  for (const Function& f : functions) check_function<float>(f, f.ulps32, test_count());
}
TEST_P(Cpu, FunctionsOfFloat64) {
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
    ASSERT_LE(ulps(z[i], exact(x[i], y[i])), bound) << name << "(" << x[i] << ", " << y[i] << ") = " << z[i];
}
/// The quotient less its fraction, which fmod has exactly.
Real floor_divide_exact(Real a, Real b) {
  if (b == 0) return a / b;
  Real r = std::fmod(a, b), quotient = std::isinf(b) ? std::copysign(Real{0}, a / b) : std::round((a - r) / b);
  if (std::isnan(r)) return r;
  return r != 0 && (r < 0) != (b < 0) ? quotient - 1 : quotient == 0 ? std::copysign(quotient, a / b) : quotient;
}

TEST_P(Cpu, QuotientsAndAnglesOfFloats) {
  auto angle = [](Real y, Real x) { return std::atan2(y, x); };
  check_binary<float>(OpId::atan2, angle, 1, "atan2");
  check_binary<double>(OpId::atan2, angle, 1, "atan2");
  // An integer too many or too few would be a whole ulp or more.
  check_binary<float>(OpId::floor_divide, floor_divide_exact, 0.99, "floor_divide");
  check_binary<double>(OpId::floor_divide, floor_divide_exact, 0.99, "floor_divide");
}

TEST_P(Cpu, PowAndRemainderOfFloats) {
  auto power = [](Real a, Real b) { return std::pow(a, b); };
  check_binary<float>(OpId::pow, power, 1, "pow");
  check_binary<double>(OpId::pow, power, 1, "pow");
  // The shifted remainder r + b rounds; np.remainder(-1, inf) is inf.
  check_binary<float>(OpId::remainder, remainder_exact, 0.5, "remainder");
  check_binary<double>(OpId::remainder, remainder_exact, 0.5, "remainder");
}

// The last bit of f(x) may depend neither on the neighbours of x nor on its position: a vmap'ed program equals the loop.
TEST_P(Cpu, ResultsDoNotDependOnNeighbours) {
  for (const Function& f : functions) {
    std::vector<float> x = test_values<float>(f.low, f.high, 100), all = map<float>(f.op, x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      float alone = map<float>(f.op, std::vector<float>{x[i]})[0];
      if (std::isnan(alone)) continue;
      ASSERT_EQ(0, std::memcmp(&alone, &all[i], sizeof alone)) << f.name << " at " << x[i];
    }
  }
}

// ---- arithmetic of every dtype, in every layout ------------------------------------------------------------

template <class T, class R = T, class F>
void check_elementwise(OpId op, F exact, int arity) {
  for (const Shape& shape :
       {Shape{}, Shape{1}, Shape{7}, Shape{3, 1, 5}, Shape{5, 40, 33}, Shape{130, 3, 2}, Shape{0, 4}})
    for (Lay x_lay : lays)
      for (Lay y_lay : lays) {
        Array<T> x = random_array<T>(shape, x_lay), y = random_array<T>(shape, y_lay);
        std::vector<View> in = {x.view(), y.view()};
        in.resize(static_cast<std::size_t>(arity), x.view());
        std::vector<R> got = run<R>(op, nullptr, in, shape);
        for (Index i = 0; i < shape.elements(); ++i)
          ASSERT_EQ(got[static_cast<std::size_t>(i)], exact(x.at(i), y.at(i)))
              << "op " << static_cast<int>(op) << " " << name_of(dtype_of<T>()) << " element " << i << " layouts "
              << static_cast<int>(x_lay) << static_cast<int>(y_lay);
        if (arity == 1) break;
      }
}
template <class T>
void check_arithmetic() {
  using W = std::conditional_t<std::is_floating_point_v<T>, T, std::uint64_t>;
  check_elementwise<T>(
      OpId::add, [](T a, T b) { return static_cast<T>(static_cast<W>(a) + static_cast<W>(b)); }, 2);
  check_elementwise<T>(
      OpId::subtract, [](T a, T b) { return static_cast<T>(static_cast<W>(a) - static_cast<W>(b)); }, 2);
  check_elementwise<T>(
      OpId::multiply, [](T a, T b) { return static_cast<T>(static_cast<W>(a) * static_cast<W>(b)); }, 2);
  check_elementwise<T>(
      OpId::maximum, [](T a, T b) { return std::max(a, b); }, 2);
  check_elementwise<T>(
      OpId::minimum, [](T a, T b) { return std::min(a, b); }, 2);
  check_elementwise<T>(
      OpId::negative, [](T a, T) { return static_cast<T>(W{} - static_cast<W>(a)); }, 1);
  check_elementwise<T>(
      OpId::abs, [](T a, T) { return a < T(0) ? static_cast<T>(-a) : a; }, 1);
  check_elementwise<T>(
      OpId::sign, [](T a, T) { return static_cast<T>((a > T(0)) - (a < T(0))); }, 1);
  check_elementwise<T>(
      OpId::relu, [](T a, T) { return std::max(a, T(0)); }, 1);
  check_elementwise<T>(
      OpId::square, [](T a, T) { return static_cast<T>(static_cast<W>(a) * static_cast<W>(a)); }, 1);
}
template <class T>
void check_predicates() {
  check_elementwise<T, bool>(
      OpId::equal, [](T a, T b) { return a == b; }, 2);
  check_elementwise<T, bool>(
      OpId::less, [](T a, T b) { return a < b; }, 2);
  check_elementwise<T, bool>(
      OpId::greater_equal, [](T a, T b) { return a >= b; }, 2);
  check_elementwise<T, bool>(
      OpId::isnan, [](T a, T) { return a != a; }, 1);
  check_elementwise<T, bool>(
      OpId::isfinite, [](T, T) { return true; }, 1);
}
TEST_P(Cpu, Arithmetic) {
  check_arithmetic<float>();
  check_arithmetic<double>();
  check_arithmetic<std::uint8_t>();
  check_arithmetic<std::uint32_t>();
  check_arithmetic<std::int32_t>();
  check_arithmetic<std::int64_t>();
}
TEST_P(Cpu, Predicates) {
  check_predicates<float>();
  check_predicates<double>();
  check_predicates<std::uint8_t>();
  check_predicates<std::int32_t>();
  check_predicates<std::int64_t>();
  check_predicates<bool>();
  check_elementwise<bool>(
      OpId::logical_and, [](bool a, bool b) { return a && b; }, 2);
  check_elementwise<bool>(
      OpId::logical_or, [](bool a, bool b) { return a || b; }, 2);
  check_elementwise<bool>(
      OpId::logical_xor, [](bool a, bool b) { return a != b; }, 2);
  check_elementwise<bool>(
      OpId::logical_not, [](bool a, bool) { return !a; }, 1);
}

TEST_P(Cpu, IntegersWrapAndNeverTrap) {
  constexpr std::int32_t least = std::numeric_limits<std::int32_t>::min(),
                         most = std::numeric_limits<std::int32_t>::max();
  using I = std::vector<std::int32_t>;
  EXPECT_EQ(map<std::int32_t>(OpId::add, I{most}, I{1}), I{least});
  EXPECT_EQ(map<std::int32_t>(OpId::negative, I{least}), I{least});
  EXPECT_EQ(map<std::int32_t>(OpId::abs, I{least}), I{least});
  EXPECT_EQ(map<std::int32_t>(OpId::remainder, I{7, -7, 7, -7, 5, least, 0}, I{3, 3, -3, -3, 0, -1, 4}),
            (I{1, 2, -2, -1, 0, 0, 0}));
  EXPECT_EQ(map<std::int32_t>(OpId::floor_divide, I{7, -7, 7, -7, 6, -6, 5, least, 0, most, least, least},
                              I{3, 3, -3, -3, 3, 3, 0, -1, 4, -1, 2, most}),
            (I{2, -3, -3, 2, 2, -2, 0, least, 0, -most, least / 2, -2}));
  EXPECT_EQ(map<std::int32_t>(OpId::pow, I{2, 3, -1, -1, 1, 2, 0, 0, -3, 2}, I{10, 4, -3, -4, -9, -1, -1, 0, 3, 33}),
            (I{1024, 81, -1, 1, 1, 0, 0, 1, -27, 0}));
  using L = std::vector<std::int64_t>;
  constexpr std::int64_t lowest = std::numeric_limits<std::int64_t>::min();
  EXPECT_EQ(map<std::int64_t>(OpId::remainder, L{lowest, lowest, 9}, L{-1, 0, -4}), (L{0, 0, -3}));
  EXPECT_EQ(map<std::int64_t>(OpId::floor_divide, L{lowest, lowest, 9, -9}, L{-1, 0, -4, 4}), (L{lowest, 0, -3, -3}));
  EXPECT_EQ(map<std::int64_t>(OpId::pow, L{3, -1, 10}, L{39, lowest, 18}),
            (L{4052555153018976267, 1, 1000000000000000000}));
  using B = std::vector<std::uint8_t>;
  EXPECT_EQ(map<std::uint8_t>(OpId::remainder, B{200, 200, 255}, B{255, 0, 16}), (B{200, 0, 15}));
  EXPECT_EQ(map<std::uint8_t>(OpId::floor_divide, B{200, 200, 255, 9}, B{255, 0, 16, 2}), (B{0, 0, 15, 4}));
  using U = std::vector<std::uint32_t>;
  EXPECT_EQ(map<std::uint32_t>(OpId::floor_divide, U{0xffffffff, 0xffffffff, 7}, U{0xffffffff, 2, 0}),
            (U{1, 0x7fffffff, 0}));
  EXPECT_EQ(map<std::uint8_t>(OpId::pow, B{3, 2}, B{200, 7}), (B{161, 128}));
  EXPECT_EQ(map<std::int32_t>(OpId::trunc, I{-5, most}), (I{-5, most}));
  EXPECT_EQ(map<std::uint32_t>(OpId::floor, std::vector<std::uint32_t>{5}), std::vector<std::uint32_t>{5});
}

TEST_P(Cpu, NansAndZeros) {
  float nan = NAN, inf = INFINITY;
  using F = std::vector<float>;
  auto at = [](const F& values, std::size_t i) { return values[i]; };
  EXPECT_TRUE(std::isnan(at(map<float>(OpId::maximum, F{nan}, F{1}), 0)));
  EXPECT_TRUE(std::isnan(at(map<float>(OpId::minimum, F{1}, F{nan}), 0)));
  EXPECT_TRUE(std::isnan(at(map<float>(OpId::relu, F{nan}), 0)));
  EXPECT_TRUE(std::isnan(at(map<float>(OpId::sign, F{nan}), 0)));
  EXPECT_EQ(map<float>(OpId::scale, F{0, nan, inf, 2}, F{nan, 0, 0, 3}), (F{0, 0, 0, 6}));
  EXPECT_EQ(map<float>(OpId::remainder, F{-1, 1, -1}, F{inf, -inf, -inf}), (F{inf, -inf, -1}));
  EXPECT_EQ(map<bool>(OpId::isinf, F{inf, -inf, nan, 1}), (std::vector<bool>{true, true, false, false}));
  EXPECT_EQ(map<bool>(OpId::isfinite, F{inf, -inf, nan, 1}), (std::vector<bool>{false, false, false, true}));
}

TEST_P(Cpu, InPlace) {
  for (Index n : {1, 3, 16, 17, 100, 5000, 200000}) {
    Array<float> x = random_array<float>(Shape(n), Lay::contiguous);
    std::vector<float> before = x.values();
    View out = x.view();
    cpu_backend().run(OpId::square, nullptr, std::vector<View>{x.view()}, std::span<const View>(&out, 1));
    for (Index i = 0; i < n; ++i)
      ASSERT_EQ(x.at(i), before[static_cast<std::size_t>(i)] * before[static_cast<std::size_t>(i)]);
  }
}

// ---- conversion, selection, creation, layout ---------------------------------------------------------------

template <class To, class From>
To converted(From x) {
  if constexpr (std::is_same_v<To, bool>) {
    return x != From(0);
  } else if constexpr (std::is_floating_point_v<From> && !std::is_floating_point_v<To>) {
    if (std::isnan(x)) return 0;
    Real clamped = std::clamp<Real>(x, std::numeric_limits<To>::min(), std::numeric_limits<To>::max());
    return static_cast<To>(clamped);
  } else {
    return static_cast<To>(x);
  }
}
template <class From>
void check_conversions() {
  std::vector<From> x;
  if constexpr (std::is_floating_point_v<From>) {
    x = special_values<From>();
    for (double edge : {0x1p8, 0x1p31, 0x1p32, 0x1p63})
      for (double step : {-1.0, -0.5, 0.0, 1.0}) x.insert(x.end(), {From(edge + step), From(-edge + step)});
  } else {
    for (std::int64_t v : {0l, 1l, -1l, 255l, 256l, 1l << 31, -(1l << 31), 1l << 32, 0x123456789abcdefl})
      x.push_back(static_cast<From>(v));
  }
  auto check = [&](auto zero) {
    using To = decltype(zero);
    std::vector<To> got = map<To>(OpId::astype, x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (std::isnan(static_cast<double>(got[i]))) continue;
      ASSERT_EQ(got[i], (converted<To, From>(x[i])))
          << name_of(dtype_of<From>()) << " " << x[i] << " to " << name_of(dtype_of<To>());
    }
  };
  for (int d = 0; d < dtype_count; ++d) visit_dtype(static_cast<Dtype>(d), check);
}
TEST_P(Cpu, Conversions) {
  for (int d = 0; d < dtype_count; ++d)
    visit_dtype(static_cast<Dtype>(d), [](auto zero) { check_conversions<decltype(zero)>(); });
}

template <class T>
void check_where_and_copy(Lay lay) {
  Shape shape{6, 37, 70};
  Array<bool> c = random_array<bool>(shape, lay);
  Array<T> x = random_array<T>(shape, lay), y = random_array<T>(shape, Lay::broadcast);
  std::vector<T> chosen = run<T>(OpId::where, nullptr, {c.view(), x.view(), y.view()}, shape);
  for (Index i = 0; i < shape.elements(); ++i)
    ASSERT_EQ(chosen[static_cast<std::size_t>(i)], c.at(i) ? x.at(i) : y.at(i));
  ASSERT_EQ(run<T>(OpId::copy, nullptr, {x.view()}, shape), x.values());
  ASSERT_EQ(run<T>(OpId::reshape, nullptr, {x.view()}, Shape{37 * 3, 140}), x.values());

  PadAttributes pad(Shape{9, 75, 210}, Shape{1, 37, 2}, Shape{1, -1, 3}, 1);
  std::vector<T> padded = run<T>(OpId::pad, &pad, {x.view()}, pad.shape);
  std::vector<T> expected(padded.size(), T(1));
  Array<T> compare = of<T>(pad.shape, expected);
  for (Index i = 0; i < 6; ++i)
    for (Index j = 0; j < 37; ++j)
      for (Index k = 0; k < 70; ++k)
        compare.base()[(1 + i) * 75 * 210 + (37 - j) * 210 + 2 + 3 * k] = x.at((i * 37 + j) * 70 + k);
  ASSERT_EQ(padded, compare.values());

  Array<T> other = random_array<T>(Shape{6, 5, 70}, Lay::permuted);
  AxisAttributes along(1);
  std::vector<T> joined = run<T>(OpId::concat, &along, {x.view(), other.view()}, Shape{6, 42, 70});
  for (Index i = 0; i < 6; ++i)
    for (Index j = 0; j < 42; ++j)
      for (Index k = 0; k < 70; ++k)
        ASSERT_EQ(joined[static_cast<std::size_t>((i * 42 + j) * 70 + k)],
                  j < 37 ? x.at((i * 37 + j) * 70 + k) : other.at((i * 5 + j - 37) * 70 + k));
}
TEST_P(Cpu, SelectionAndLayout) {
  for (Lay lay : lays) {
    check_where_and_copy<float>(lay);
    check_where_and_copy<double>(lay);
    check_where_and_copy<std::uint8_t>(lay);
    check_where_and_copy<bool>(lay);
    check_where_and_copy<std::int64_t>(lay);
  }
}
TEST_P(Cpu, Creation) {
  FullAttributes full(Shape{3}, float32, 2.5, 2), flags(Shape{2}, bool_, 1, 1);
  EXPECT_EQ(run<float>(OpId::full, &full, {}, Shape{3}), (std::vector<float>{2.5, 2.5, 2.5}));
  EXPECT_EQ(run<std::int64_t>(OpId::full, &full, {}, Shape{1}), std::vector<std::int64_t>{2});
  EXPECT_EQ(run<bool>(OpId::full, &flags, {}, Shape{2}), (std::vector<bool>{true, true}));
  IotaAttributes iota(4, float32, 1, 0.5), down(3, int32, 2, -3);
  EXPECT_EQ(run<float>(OpId::iota, &iota, {}, Shape{4}), (std::vector<float>{1, 1.5, 2, 2.5}));
  EXPECT_EQ(run<std::int32_t>(OpId::iota, &down, {}, Shape{3}), (std::vector<std::int32_t>{2, -1, -4}));
}

// ---- reductions --------------------------------------------------------------------------------------------

struct Subset {
  Shape axes, out;  // which are reduced, and what is left
};
std::vector<Subset> subsets(const Shape& shape) {
  std::vector<Subset> all;
  for (unsigned bits = 0; bits < 1u << shape.size(); ++bits) {
    Subset subset;
    for (unsigned i = 0; i < shape.size(); ++i)
      (bits >> i & 1 ? subset.axes.push_back(i) : subset.out.push_back(shape[i]));
    all.push_back(subset);
  }
  return all;
}
/// The values that fold into each output, in row-major order of both.
template <class T>
std::vector<std::vector<T>> groups(Array<T>& x, const Subset& subset) {
  std::vector<std::vector<T>> all(static_cast<std::size_t>(subset.out.elements()));
  for (Index i = 0; i < x.shape.elements(); ++i) {
    Index out = 0, step = 1, rest = i;
    for (std::size_t d = x.shape.size(); d-- > 0;) {
      Index position = rest % x.shape[d];
      rest /= x.shape[d];
      if (std::find(subset.axes.begin(), subset.axes.end(), static_cast<Index>(d)) != subset.axes.end()) continue;
      out += position * step;
      step *= x.shape[d];
    }
    all[static_cast<std::size_t>(out)].push_back(x.at(i));
  }
  return all;
}
template <class T>
void expect_near(T got, Real exact, Real scale) {
  double epsilon = std::is_floating_point_v<T> ? static_cast<double>(std::numeric_limits<T>::epsilon()) : 0;
  if constexpr (!std::is_floating_point_v<T>) exact = static_cast<T>(static_cast<std::int64_t>(exact));
  ASSERT_NEAR(static_cast<double>(got), static_cast<double>(exact), static_cast<double>(scale) * epsilon);
}
template <class T>
void check_reductions(const Shape& shape, Lay lay) {
  Array<T> x = random_array<T>(shape, lay);
  for (const Subset& subset : subsets(shape)) {
    ReduceAttributes attributes(subset.axes, false);
    auto all = groups(x, subset);
    auto reduced = [&](OpId op) { return run<T>(op, &attributes, {x.view()}, subset.out); };
    std::vector<T> sum = reduced(OpId::sum), largest = reduced(OpId::max), least = reduced(OpId::min), prod;
    bool small = all.empty() || all[0].size() < 16;
    if (small) prod = reduced(OpId::prod);
    for (std::size_t i = 0; i < all.size(); ++i) {
      Real total = 0, absolute = 0, product = 1;
      for (T v : all[i]) total += v, absolute += std::abs(static_cast<Real>(v)), product *= v;
      expect_near<T>(sum[i], total, absolute);
      if (small && std::abs(product) < 1e18L) expect_near<T>(prod[i], product, std::abs(product) * 8);
      ASSERT_EQ(largest[i], *std::max_element(all[i].begin(), all[i].end()));
      ASSERT_EQ(least[i], *std::min_element(all[i].begin(), all[i].end()));
    }
    if (subset.axes.size() != 1 && subset.axes.size() != shape.size()) continue;
    std::vector<std::int32_t> first = run<std::int32_t>(OpId::argmax, &attributes, {x.view()}, subset.out);
    std::vector<std::int64_t> lowest = run<std::int64_t>(OpId::argmin, &attributes, {x.view()}, subset.out);
    for (std::size_t i = 0; i < all.size(); ++i) {
      ASSERT_EQ(first[i], std::max_element(all[i].begin(), all[i].end()) - all[i].begin());
      ASSERT_EQ(lowest[i], std::min_element(all[i].begin(), all[i].end()) - all[i].begin());
    }
  }
}
TEST_P(Cpu, ReductionsOverEverySubsetOfAxes) {
  for (const Shape& shape :
       {Shape{3, 5, 4, 7}, Shape{17, 1, 33, 3}, Shape{2, 20, 3, 70}, Shape{600, 3}, Shape{3, 600}, Shape{1}})
    for (Lay lay : lays) {
      check_reductions<float>(shape, lay);
      check_reductions<double>(shape, lay);
      check_reductions<std::int32_t>(shape, lay);
      check_reductions<std::int64_t>(shape, lay);
      check_reductions<std::uint32_t>(shape, lay);
      check_reductions<std::uint8_t>(shape, lay);
    }
}
TEST_P(Cpu, LargeReductionsAreSplitAndMerged) {
  for (const Shape& shape : {Shape{200001}, Shape{70001, 3}, Shape{3, 70001}, Shape{1500, 100}})
    for (Lay lay : {Lay::contiguous, Lay::permuted}) {
      check_reductions<float>(shape, lay);
      check_reductions<double>(shape, lay);
      check_reductions<std::int32_t>(shape, lay);
    }
}
TEST_P(Cpu, AllAndAny) {
  Shape shape{5, 6, 70};
  for (Lay lay : lays)
    for (const Subset& subset : subsets(shape)) {
      Array<bool> x = make<bool>(shape, lay, [](Index) { return rng()() % 50 != 0; });
      ReduceAttributes attributes(subset.axes, false);
      std::vector<bool> all = run<bool>(OpId::all, &attributes, {x.view()}, subset.out);
      std::vector<bool> any = run<bool>(OpId::any, &attributes, {x.view()}, subset.out);
      auto values = groups(x, subset);
      for (std::size_t i = 0; i < values.size(); ++i) {
        ASSERT_EQ(all[i], std::find(values[i].begin(), values[i].end(), false) == values[i].end());
        ASSERT_EQ(any[i], std::find(values[i].begin(), values[i].end(), true) != values[i].end());
      }
    }
}
TEST_P(Cpu, EmptyReductions) {
  Array<float> x = make<float>(Shape{0, 3}, Lay::contiguous, [](Index) { return 0.f; });
  Array<bool> b = make<bool>(Shape{0, 3}, Lay::contiguous, [](Index) { return false; });
  ReduceAttributes rows(Shape{0}, false);
  EXPECT_EQ(run<float>(OpId::sum, &rows, {x.view()}, Shape{3}), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(run<float>(OpId::prod, &rows, {x.view()}, Shape{3}), (std::vector<float>{1, 1, 1}));
  EXPECT_EQ(run<bool>(OpId::all, &rows, {b.view()}, Shape{3}), (std::vector<bool>{true, true, true}));
  EXPECT_EQ(run<bool>(OpId::any, &rows, {b.view()}, Shape{3}), (std::vector<bool>{false, false, false}));
}
TEST_P(Cpu, NanIsTheExtreme) {
  for (Index n : {5, 100, 3000}) {
    std::vector<float> x(static_cast<std::size_t>(n), 1.f);
    x[0] = INFINITY;
    x[3] = x[4] = NAN;
    Array<float> a = of<float>(Shape{n}, x), column = of<float>(Shape{n, 1}, x);
    ReduceAttributes all(Shape{0}, false);
    for (OpId op : {OpId::max, OpId::min}) EXPECT_TRUE(std::isnan(run<float>(op, &all, {a.view()}, Shape{})[0]));
    for (OpId op : {OpId::argmax, OpId::argmin}) {
      EXPECT_EQ(run<std::int64_t>(op, &all, {a.view()}, Shape{})[0], 3);
      Strides repeated{1, 0};
      View wide{a.base(), float32, column.shape, repeated};
      EXPECT_EQ(run<std::int64_t>(op, &all, {wide}, Shape{1})[0], 3);
    }
  }
}
TEST_P(Cpu, SumsAreAccurate) {
  auto constant = [](const Shape& shape, float value, const Shape& axes, const Shape& out) {
    std::vector<float> one(static_cast<std::size_t>(shape.elements()), value);
    Strides strides = dense(shape);
    ReduceAttributes attributes(axes, false);
    return run<float>(OpId::sum, &attributes, {View{one.data(), float32, shape, strides}}, out)[0];
  };
  EXPECT_EQ(constant(Shape{1 << 25}, 1, Shape{0}, Shape{}), 0x1p25f);
  Real tenth = static_cast<Real>(0.1f);
  EXPECT_NEAR(constant(Shape{1 << 24}, 0.1f, Shape{0}, Shape{}), tenth * 0x1p24L, 1e-7L * 0x1p24L);
  EXPECT_NEAR(constant(Shape{1 << 22, 4}, 0.1f, Shape{0}, Shape{4}), tenth * 0x1p22L, 1e-7L * 0x1p22L);
  EXPECT_NEAR(constant(Shape{1 << 13, 1 << 11}, 0.1f, Shape{0}, Shape{1 << 11}), tenth * 0x1p13L, 1e-7L * 0x1p13L);
  std::vector<double> d(1 << 20, 0.1);
  Shape shape{1 << 20}, matrix{1 << 18, 4};
  ReduceAttributes all(Shape{0}, false);
  Array<double> a = of<double>(shape, d), b = of<double>(matrix, d);
  Real exact = static_cast<Real>(0.1) * (1 << 20);
  EXPECT_NEAR(run<double>(OpId::sum, &all, {a.view()}, Shape{})[0], exact, 2e-16L * exact);
  EXPECT_NEAR(run<double>(OpId::sum, &all, {b.view()}, Shape{4})[0], exact / 4, 2e-16L * exact / 4);
}

// ---- matmul ------------------------------------------------------------------------------------------------

template <class T>
void check_matmul(const Shape& batch, Index m, Index k, Index n, Lay a_lay, Lay b_lay) {
  Shape a_shape = batch, b_shape = batch, out = batch;
  a_shape.append(&m, &m + 1), a_shape.push_back(k);
  b_shape.append(&k, &k + 1), b_shape.push_back(n);
  out.push_back(m), out.push_back(n);
  Array<T> a = random_array<T>(a_shape, a_lay), b = random_array<T>(b_shape, b_lay);
  std::vector<T> got = run<T>(OpId::matmul, nullptr, {a.view(), b.view()}, out), x = a.values(), y = b.values();
  for (Index t = 0; t < batch.elements(); ++t)
    for (Index i = 0; i < m; ++i)
      for (Index j = 0; j < n; ++j) {
        Real sum = 0, scale = 0;
        for (Index p = 0; p < k; ++p) {
          Real term = static_cast<Real>(x[static_cast<std::size_t>((t * m + i) * k + p)]) *
                      static_cast<Real>(y[static_cast<std::size_t>((t * k + p) * n + j)]);
          sum += term;
          scale += std::abs(term);
        }
        expect_near<T>(got[static_cast<std::size_t>((t * m + i) * n + j)], sum, 4 * scale);
        if (testing::Test::HasFatalFailure())
          FAIL() << m << "x" << k << "x" << n << " layouts " << int(a_lay) << int(b_lay);
      }
}
TEST_P(Cpu, Matmul) {
  const Index sizes[][3] = {{1, 1, 1}, {3, 4, 5}, {1, 7, 9},    {9, 7, 1},   {20, 1, 30}, {16, 16, 16},
                            {5, 0, 4}, {0, 3, 2}, {17, 33, 40}, {1, 40, 30}, {30, 40, 1}, {70, 65, 80}};
  for (const auto& s : sizes)
    for (const Shape& batch : {Shape{}, Shape{3}, Shape{2, 3}})
      for (Lay a_lay : lays)
        for (Lay b_lay : lays) {
          check_matmul<float>(batch, s[0], s[1], s[2], a_lay, b_lay);
          check_matmul<double>(batch, s[0], s[1], s[2], a_lay, b_lay);
          if (s[0] * s[1] * s[2] > 30000) continue;
          check_matmul<std::int32_t>(batch, s[0], s[1], s[2], a_lay, b_lay);
          check_matmul<std::int64_t>(batch, s[0], s[1], s[2], a_lay, b_lay);
          check_matmul<std::uint8_t>(batch, s[0], s[1], s[2], a_lay, b_lay);
        }
}

// ---- indexing ----------------------------------------------------------------------------------------------

template <class T, class I>
void check_gather(Lay lay) {
  // x [batch 2, indexed 4 x 5, rest 3], indices [batch 2, at 6 x 2, k 2]
  Shape x_shape{2, 4, 5, 3}, index_shape{2, 6, 2, 2}, out_shape{2, 6, 2, 3};
  Array<T> x = random_array<T>(x_shape, lay);
  Array<I> indices = make<I>(index_shape, lay, [](Index i) {
    Index length = i % 2 == 0 ? 4 : 5;
    return static_cast<I>(static_cast<Index>(rng()() % static_cast<std::uint64_t>(2 * length)) - length);
  });
  GatherAttributes attributes(1);
  std::vector<T> got = run<T>(OpId::gather, &attributes, {x.view(), indices.view()}, out_shape);
  Array<T> updates = random_array<T>(out_shape, lay);
  std::vector<T> added = x.values();
  for (Index b = 0; b < 2; ++b)
    for (Index a = 0; a < 12; ++a)
      for (Index r = 0; r < 3; ++r) {
        Index i = static_cast<Index>(indices.at((b * 12 + a) * 2)),
              j = static_cast<Index>(indices.at((b * 12 + a) * 2 + 1));
        Index from = ((b * 4 + (i + 4) % 4) * 5 + (j + 5) % 5) * 3 + r, to = (b * 12 + a) * 3 + r;
        ASSERT_EQ(got[static_cast<std::size_t>(to)], x.at(from));
        if constexpr (!std::is_same_v<T, bool>)
          added[static_cast<std::size_t>(from)] =
              static_cast<T>(added[static_cast<std::size_t>(from)] + updates.at(to));
      }
  if constexpr (!std::is_same_v<T, bool>) {
    ASSERT_EQ(run<T>(OpId::scatter_add, &attributes, {x.view(), indices.view(), updates.view()}, x_shape), added);
  }
}
TEST_P(Cpu, GatherAndScatterAdd) {
  for (Lay lay : lays) {
    check_gather<float, std::int32_t>(lay);
    check_gather<double, std::int64_t>(lay);
    check_gather<bool, std::int32_t>(lay);
    check_gather<std::uint8_t, std::int64_t>(lay);
    check_gather<std::int64_t, std::int32_t>(lay);
  }
}
TEST_P(Cpu, IndicesOutOfRangeThrow) {
  Array<float> x = random_array<float>(Shape{3, 5}, Lay::contiguous);
  GatherAttributes attributes(0);
  auto error_of = [&](std::int32_t i, std::int32_t j) -> std::string {
    Array<std::int32_t> indices = of<std::int32_t>(Shape{2, 2}, {0, 0, i, j});
    try {
      run<float>(OpId::gather, &attributes, {x.view(), indices.view()}, Shape{2});
    } catch (const IndexError& error) {
      return error.what();
    }
    return "none";
  };
  EXPECT_EQ(error_of(2, 7), "gather: index 7 is out of range for axis 1 with size 5");
  EXPECT_EQ(error_of(-4, 0), "gather: index -4 is out of range for axis 0 with size 3");
  EXPECT_EQ(error_of(-3, -5), "none");
  Array<std::int32_t> indices = of<std::int32_t>(Shape{1, 1}, {3});
  Array<float> updates = random_array<float>(Shape{1, 5}, Lay::contiguous), out = x;
  std::vector<float> before = out.values();
  View to = out.view();
  EXPECT_THROW(
      cpu_backend().run(OpId::scatter_add, &attributes, std::vector<View>{x.view(), indices.view(), updates.view()},
                        std::span<const View>(&to, 1)),
      IndexError);
  EXPECT_EQ(out.values(), before) << "checked before anything is written";
}

// ---- random numbers ----------------------------------------------------------------------------------------

TEST_P(Cpu, ThreefryKnownAnswers) {  // Random123's kat_vectors, threefry2x32 with 20 rounds
  auto word = [](std::uint32_t k0, std::uint32_t k1, std::uint64_t counter) {
    std::uint64_t out;
    stave_cpu::kernels().random_words(&out, k0, k1, counter, 1);
    return out;
  };
  EXPECT_EQ(word(0, 0, 0), 0x6b20015999ba4efeu);
  EXPECT_EQ(word(~0u, ~0u, ~std::uint64_t{0}), 0x1cb996fcbb002be7u);
  EXPECT_EQ(word(0x13198a2e, 0x03707344, 0x243f6a8885a308d3), 0xc4923a9c483df7a0u);
}
TEST_P(Cpu, RandomNumbersEqualJax) {  // jax 0.10.2, jax.random under key(42)
  Array<std::uint32_t> key = of<std::uint32_t>(Shape{2}, {0, 42});
  using U = std::vector<std::uint32_t>;
  RandomAttributes seven(Shape{7}), many(Shape{3, 1000});
  EXPECT_EQ(run<std::uint32_t>(OpId::random_bits, &seven, {key.view()}, seven.shape),
            (U{2098992034, 2919706841, 2646866425, 2409546199, 1935504149, 2516274904, 321304473}));
  U bits = run<std::uint32_t>(OpId::random_bits, &many, {key.view()}, many.shape);
  EXPECT_EQ(U(bits.end() - 5, bits.end()), (U{2828704044, 1944701104, 651332480, 2248241362, 1786430667}));

  UniformAttributes single(Shape{5}, float32, 0, 1), range(Shape{5}, float32, -3, 7), wide(Shape{5}, float64, 0, 1),
      wide_range(Shape{5}, float64, -3, 7);
  EXPECT_EQ(run<float>(OpId::random_uniform, &single, {key.view()}, Shape{5}),
            (std::vector<float>{0x1.f47048p-2f, 0x1.5c0e6p-1f, 0x1.3b87fp-1f, 0x1.1f3d8p-1f, 0x1.cd75c8p-2f}));
  EXPECT_EQ(run<float>(OpId::random_uniform, &range, {key.view()}, Shape{5}),
            (std::vector<float>{0x1.e318b4p+0f, 0x1.e623fp+1f, 0x1.94d3d8p+1f, 0x1.4e19cp+1f, 0x1.81a674p+0f}));
  EXPECT_EQ(run<double>(OpId::random_uniform, &wide, {key.view()}, Shape{5}),
            (std::vector<double>{0x1.b4f8123c40884p-2, 0x1.ebd996d6e8400p-7, 0x1.25f641d41e71ap-1, 0x1.75aad28c6a974p-1,
                                 0x1.60275dc7869dap-1}));
  EXPECT_EQ(run<double>(OpId::random_uniform, &wide_range, {key.view()}, Shape{5}),
            (std::vector<double>{0x1.446c2d96a154ap+0, -0x1.6cc9801b9aed8p+1, 0x1.5ee7a4924c1c1p+1,
                                 0x1.1315872f853d1p+2, 0x1.f0626a72d08a1p+1}));

  Array<std::uint32_t> data = of<std::uint32_t>(Shape{}, {7});
  EXPECT_EQ(run<std::uint32_t>(OpId::fold_in, nullptr, {key.view(), data.view()}, Shape{2}),
            (U{2547012911, 1371500959}));
  Array<std::uint32_t> counts = of<std::uint32_t>(Shape{3}, {0, 1, 2});
  Strides repeated{0, 1};
  Shape keys_shape{3, 2};
  View keys{key.base(), uint32, keys_shape, repeated};
  EXPECT_EQ(run<std::uint32_t>(OpId::fold_in, nullptr, {keys, counts.view()}, Shape{3, 2}),
            (U{1832780943, 270669613, 64467757, 2916123636, 2465931498, 255383827}));

  auto permutation = [&](Index n) {
    RandomAttributes attributes(Shape{n});
    return run<std::int32_t>(OpId::random_permutation, &attributes, {key.view()}, Shape{n});
  };
  EXPECT_EQ(permutation(10), (std::vector<std::int32_t>{7, 4, 2, 5, 3, 6, 8, 9, 0, 1}));
  std::vector<std::int32_t> large = permutation(5000), larger = permutation(200000);
  EXPECT_EQ(std::vector<std::int32_t>(large.begin(), large.begin() + 5),
            (std::vector<std::int32_t>{3825, 3150, 2972, 2921, 1203}));
  EXPECT_EQ(std::vector<std::int32_t>(larger.end() - 5, larger.end()),
            (std::vector<std::int32_t>{58536, 2861, 65421, 150124, 9679}));
  EXPECT_TRUE(permutation(0).empty());
  EXPECT_EQ(permutation(1), std::vector<std::int32_t>{0});
}
TEST_P(Cpu, ABatchOfKeysIsALoopOverThem) {
  Array<std::uint32_t> keys =
      make<std::uint32_t>(Shape{3, 2}, Lay::permuted, [](Index i) { return static_cast<std::uint32_t>(i * i); });
  RandomAttributes shape(Shape{30000});
  std::vector<std::uint32_t> all = run<std::uint32_t>(OpId::random_bits, &shape, {keys.view()}, Shape{3, 30000});
  for (Index i = 0; i < 3; ++i) {
    Array<std::uint32_t> key = of<std::uint32_t>(Shape{2}, {keys.at(2 * i), keys.at(2 * i + 1)});
    EXPECT_EQ(std::vector<std::uint32_t>(all.begin() + i * 30000, all.begin() + (i + 1) * 30000),
              run<std::uint32_t>(OpId::random_bits, &shape, {key.view()}, shape.shape));
  }
}

// ---- memory ------------------------------------------------------------------------------------------------

TEST(CpuMemory, CountsAreExact) {
  Backend& cpu = cpu_backend();
  std::size_t before = cpu.memory_stats().live_bytes;
  cpu.reset_peak_memory();
  std::vector<StoragePtr> held;
  for (std::size_t bytes : {0, 1, 4, 64, 65, 1000, 1024, 1025, 5000, 100000, 3000000}) {
    held.emplace_back(cpu.allocate(bytes));
    ASSERT_NE(held.back()->data, nullptr);
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(held.back()->data) % 64, 0u);
    ASSERT_GE(held.back()->capacity, bytes);
    ASSERT_LE(held.back()->capacity, std::max<std::size_t>(64, bytes + bytes / 8 + 64));
    std::memset(held.back()->data, 1, bytes);
  }
  std::size_t sum = 0 + 1 + 4 + 64 + 65 + 1000 + 1024 + 1025 + 5000 + 100000 + 3000000;
  EXPECT_EQ(cpu.memory_stats().live_bytes, before + sum);
  held.clear();
  EXPECT_EQ(cpu.memory_stats().live_bytes, before);
  EXPECT_EQ(cpu.memory_stats().peak_bytes, before + sum);
  cpu.reset_peak_memory();
  EXPECT_EQ(cpu.memory_stats().peak_bytes, before);
  for (int i = 0; i < 1000; ++i) StoragePtr(cpu.allocate(40));
  EXPECT_EQ(cpu.memory_stats().peak_bytes, before + 40);
  cpu.release_cached_memory();
  EXPECT_EQ(cpu.memory_stats().cached_bytes, 0u);
}
TEST(CpuMemory, FreedOnAnotherThreadAndAfterThreadsEnd) {
  Backend& cpu = cpu_backend();
  std::size_t before = cpu.memory_stats().live_bytes;
  for (int round = 0; round < 3; ++round) {
    std::vector<StoragePtr> made(4000);
    std::thread([&] {
      for (std::size_t i = 0; i < made.size(); ++i) made[i] = StoragePtr(cpu.allocate(i % 1500));
    }).join();
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        for (std::size_t i = t; i < made.size(); i += 4) {
          std::memset(made[i]->data, 0, made[i]->bytes);
          made[i] = nullptr;
          StoragePtr again(cpu.allocate(i % 300));
        }
      });
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_EQ(cpu.memory_stats().live_bytes, before);
}
TEST(CpuMemory, TooMuchIsBadAlloc) { EXPECT_THROW(cpu_backend().allocate(std::size_t{1} << 60), std::bad_alloc); }

struct FreedLast {  // in a thread_local made before the pool: freed after the thread's lists were given away
  StoragePtr storage;
};
TEST(CpuMemory, ThreadLocalsMayHoldTensors) {
  std::thread([] {
    thread_local FreedLast held;
    held.storage = StoragePtr(cpu_backend().allocate(100));
  }).join();
  static FreedLast global;  // freed by static destruction
  global.storage = StoragePtr(cpu_backend().allocate(100));
}

// ---- dispatch ----------------------------------------------------------------------------------------------

TEST(CpuDispatch, AnUnknownInstructionSetIsAClearError) {
  const char* before = std::getenv("STAVE_CPU_ISA");
  std::string saved = before ? before : "";
  setenv("STAVE_CPU_ISA", "mmx", 1);
  stave_cpu::use_kernels(nullptr);
  try {
    map<float>(OpId::exp, std::vector<float>{1});
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find("STAVE_CPU_ISA=mmx: no such instruction set"), 0u) << error.what();
  }
  setenv("STAVE_CPU_ISA", "baseline", 1);
  EXPECT_STREQ(stave_cpu::kernels().isa, "baseline");
  before ? setenv("STAVE_CPU_ISA", saved.c_str(), 1) : unsetenv("STAVE_CPU_ISA");
  stave_cpu::use_kernels(nullptr);
}
TEST(CpuDispatch, ViewsHaveNoKernel) {
  Array<float> x = random_array<float>(Shape{2}, Lay::contiguous);
  EXPECT_THROW(run<float>(OpId::permute_dims, nullptr, {x.view()}, Shape{2}), Error);
}

}  // namespace
