// Special functions at edges of their domains, as SciPy has them, and over their whole range
// against mpmath's values in tests/data/special_functions.csv.

#include <stave/core/ops/special.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/handlers/transforms/grad.h>

namespace special_values_test {

using namespace stave;

using Numbers = std::vector<Tensor>;
constexpr double infinity = std::numeric_limits<double>::infinity();

struct Function {
  const char* name;
  Tensor (*call)(const Numbers&);
  double ulps;  // the largest error of float64, in units in the last place
  // The error is relative to at least this size of the function, where it has zeros.
  double (*size)(const std::vector<double>&) = nullptr;
};

double bessel_amplitude(const std::vector<double>& v) {
  return std::abs(v[1]) > v[0] ? std::sqrt(2 / (3.14159 * std::abs(v[1]))) : 0;
}

const Function functions[] = {
#define ONE(f) #f, [](const Numbers& v) { return f(v[0]); }
#define TWO(f) #f, [](const Numbers& v) { return f(v[0], v[1]); }
#define THREE(f) #f, [](const Numbers& v) { return f(v[0], v[1], v[2]); }
    {TWO(gammainc), 60},
    {TWO(gammaincc), 8},
    {TWO(gamma_density), 8},
    {THREE(betainc), 10},
    {THREE(beta_density), 8},
    {TWO(betaln), 4},
    {TWO(poch), 4},
    {ONE(ndtri), 4},
    {ONE(log_ndtr), 4},
    {ONE(erfcinv), 4},
    {ONE(expi), 4},
    {TWO(rel_entr), 4},
    {TWO(kl_div), 4},
    {THREE(hyp1f1), 4},
    {"hyp2f1", [](const Numbers& v) { return hyp2f1(v[0], v[1], v[2], v[3]); }, 4},
    {"sine_integral", [](const Numbers& v) { return sici(v[0]).first; }, 4},
    {"cosine_integral", [](const Numbers& v) { return sici(v[0]).second; }, 4,
     [](const std::vector<double>& v) { return std::min(0.1, 0.1 / v[0]); }},
    {"fresnel_s", [](const Numbers& v) { return fresnel(v[0]).first; }, 4},
    {"fresnel_c", [](const Numbers& v) { return fresnel(v[0]).second; }, 4},
    {"bessel_j", [](const Numbers& v) { return bessel_jn(static_cast<int>(v[0].item<double>()), v[1]); }, 12,
     bessel_amplitude},
    {"expn", [](const Numbers& v) { return expn(static_cast<int>(v[0].item<double>()), v[1]); }, 4},
    {"lambertw", [](const Numbers& v) { return lambertw(v[1], static_cast<int>(v[0].item<double>())); }, 4},
#undef ONE
#undef TWO
#undef THREE
};

/// Calls f(the arguments, the value) for each line of a function.
template <class F>
int for_each_line(const std::string& function, F f) {
  std::ifstream file(STAVE_SOURCE_DIR "/tests/data/special_functions.csv");
  int count = 0;
  for (std::string line, word; std::getline(file, line);) {
    if (!line.starts_with(function + ",")) continue;
    std::istringstream words(line.substr(function.size() + 1));
    std::vector<long double> numbers;
    while (std::getline(words, word, ',')) numbers.push_back(std::strtold(word.c_str(), nullptr));
    const long double value = numbers.back();
    f(std::vector<double>(numbers.begin(), numbers.end() - 1), value);
    ++count;
  }
  return count;
}

Numbers tensors(const std::vector<double>& numbers, Dtype dtype) {
  Numbers all;
  for (const double x : numbers) all.push_back(tensor(x, dtype));
  return all;
}

TEST(SpecialValues, AreMpmathsInFloat64) {
  for (const Function& f : functions) {
    const int lines = for_each_line(f.name, [&](const std::vector<double>& arguments, long double value) {
      const double got = f.call(tensors(arguments, float64)).item<double>();
      const double size = std::max(std::abs(static_cast<double>(value)), f.size ? f.size(arguments) : 0);
      const double unit = std::ldexp(1., std::ilogb(size) - 52);
      EXPECT_LE(std::abs(got - value), f.ulps * unit) << f.name << " of " << ::testing::PrintToString(arguments);
    });
    EXPECT_GT(lines, 20) << f.name;
  }
}

TEST(SpecialValues, AreMpmathsInFloat32) {
  for (const Function& f : functions)
    for_each_line(f.name, [&](const std::vector<double>& arguments, long double value) {
      for (const double x : arguments)
        if (static_cast<double>(static_cast<float>(x)) != x) return;
      const double size = std::abs(static_cast<double>(value));
      if (size < 1e-37 || size > 3e38) return;
      const double got = f.call(tensors(arguments, float32)).item<float>();
      EXPECT_LE(std::abs(got - value), std::ldexp(0.51, std::ilogb(size) - 23))
          << f.name << " of " << ::testing::PrintToString(arguments);
    });
}

/// The derivative by the first argument, computed by `grad`.
double slope(const std::function<Tensor(Tensor)>& f, double x) { return grad(f)(tensor(x, float64)).item<double>(); }

TEST(SpecialValues, DerivativesByParametersAreMpmaths) {
  for_each_line("gammainc_derivative", [](const std::vector<double>& v, long double value) {
    if (v[0] > 2) return;
    const auto first = [&](Tensor a) { return gammainc(a, v[2]); };
    const auto second = [&](Tensor a) { return grad(first)(a); };
    const double got = v[0] == 1 ? slope(first, v[1]) : slope(second, v[1]);
    EXPECT_NEAR(got, static_cast<double>(value), 1e-12 * std::abs(static_cast<double>(value)) + 1e-17)
        << v[1] << " " << v[2];
  });
  for_each_line("betainc_derivative", [](const std::vector<double>& v, long double value) {
    if (v[0] + v[1] != 1) return;
    const double got = v[0] == 1 ? slope([&](Tensor a) { return betainc(a, v[3], v[4]); }, v[2])
                                 : slope([&](Tensor b) { return betainc(v[2], b, v[4]); }, v[3]);
    EXPECT_NEAR(got, static_cast<double>(value), 1e-12 * std::abs(static_cast<double>(value))) << v[2] << " " << v[3];
  });
  for_each_line("zeta_derivative", [](const std::vector<double>& v, long double value) {
    if (v[0] != 1) return;
    const double got = slope([&](Tensor s) { return zeta(s, v[2]); }, v[1]);
    EXPECT_NEAR(got, static_cast<double>(value), 1e-14 * std::abs(static_cast<double>(value))) << v[1] << " " << v[2];
  });
}

/// The value of a function of one number in float64.
template <class F>
double at(F f, double x) {
  return f(tensor(x, float64)).template item<double>();
}

// SciPy 1.17's results.
TEST(SpecialValues, EdgesAreSciPys) {
  EXPECT_EQ(at([](Tensor x) { return gammainc(0, x); }, 1), 1);
  EXPECT_TRUE(std::isnan(at([](Tensor x) { return gammainc(0, x); }, 0)));
  EXPECT_TRUE(std::isnan(at([](Tensor x) { return gammainc(-1, x); }, 1)));
  EXPECT_EQ(at([](Tensor x) { return gammainc(1, x); }, infinity), 1);
  EXPECT_EQ(at([](Tensor x) { return gammaincc(1, x); }, infinity), 0);
  EXPECT_EQ(at([](Tensor x) { return betainc(0, 1, x); }, 0.5), 1);
  EXPECT_EQ(at([](Tensor x) { return betainc(1, 0, x); }, 0.5), 0);
  EXPECT_TRUE(std::isnan(at([](Tensor x) { return betainc(1, 1, x); }, -1)));
  EXPECT_EQ(at(ndtri, 0), -infinity);
  EXPECT_EQ(at(ndtri, 1), infinity);
  EXPECT_TRUE(std::isnan(at(ndtri, 2)));
  EXPECT_EQ(at(erfcinv, 2), -infinity);
  EXPECT_EQ(at(expi, 0), -infinity);
  EXPECT_EQ(at(exp1, 0), infinity);
  EXPECT_TRUE(std::isnan(at(exp1, -1)));
  EXPECT_EQ(at([](Tensor x) { return expn(2, x); }, 0), 1);
  EXPECT_EQ(at(bessel_y0, 0), -infinity);
  EXPECT_TRUE(std::isnan(at(bessel_y0, -1)));
  EXPECT_EQ(at(bessel_k1, 0), infinity);
  EXPECT_EQ(at([](Tensor x) { return poch(x, 1); }, -2), -2);
  EXPECT_EQ(at([](Tensor x) { return poch(x, 3); }, -2), 0);
  EXPECT_EQ(at([](Tensor x) { return poch(x, -1); }, 1), infinity);
  EXPECT_EQ(at([](Tensor x) { return rel_entr(x, 1); }, 0), 0);
  EXPECT_EQ(at([](Tensor x) { return rel_entr(x, 0); }, 1), infinity);
  EXPECT_EQ(at([](Tensor x) { return kl_div(x, 1); }, 0), 1);
  EXPECT_EQ(at([](Tensor x) { return lambertw(x); }, infinity), infinity);
  EXPECT_EQ(at([](Tensor x) { return lambertw(x, -1); }, 0), -infinity);
  EXPECT_EQ(at([](Tensor x) { return sici(x).second; }, 0), -infinity);
  EXPECT_EQ(at([](Tensor x) { return fresnel(x).second; }, infinity), 0.5);
  EXPECT_EQ(at([](Tensor x) { return hyp1f1(1, 0, x); }, 1), infinity);
  EXPECT_EQ(at([](Tensor x) { return hyp1f1(-1, -2, x); }, 1), 1.5);
  EXPECT_EQ(at([](Tensor x) { return hyp2f1(1, 2, 4, x); }, 1), 3);
  EXPECT_EQ(at([](Tensor x) { return hyp2f1(-2, 2, 3, x); }, 1.5), 0.125);
  EXPECT_EQ(at([](Tensor x) { return hyp2f1(1, 2, 3, x); }, 1), infinity);
  EXPECT_EQ(at(gammasgn, -1.5), 1);
  EXPECT_EQ(at(gammasgn, -0.5), -1);
  EXPECT_TRUE(std::isnan(at(gammasgn, -1)));
  EXPECT_EQ(at(sinc, 3), 0);
}

}  // namespace special_values_test
