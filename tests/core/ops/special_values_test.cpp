// Special functions at edges of their domains, as SciPy has them, and over their whole range
// against mpmath's values in tests/data/special_functions.csv.

#include <stave/core/ops/special.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/handlers/transforms/grad.h>

#include "special_values.h"

namespace special_values_test {

using namespace stave;

using namespace stave_test;

constexpr double infinity = std::numeric_limits<double>::infinity();

TEST(SpecialValues, AreMpmathsInFloat64) {
  for (const SpecialFunction& f : special_functions()) {
    const int lines = for_each_value_of(f, [&](const std::vector<double>& v, long double value) {
      const double got = f.call(tensors_of(v, float64)).item<double>();
      EXPECT_LE(special_error(f, v, got, value), f.ulps) << f.name << " of " << ::testing::PrintToString(v);
    });
    EXPECT_GT(lines, 20) << f.name;
  }
}

TEST(SpecialValues, AreMpmathsInFloat32) {
  for (const SpecialFunction& f : special_functions())
    for_each_value_of(f, [&](const std::vector<double>& v, long double value) {
      for (const double x : v)
        if (static_cast<double>(static_cast<float>(x)) != x) return;
      const double size = std::abs(static_cast<double>(value));
      if (size < 1e-37 || size > 3e38) return;
      const double got = f.call(tensors_of(v, float32)).item<float>();
      EXPECT_LE(std::abs(got - value), std::ldexp(0.51, std::ilogb(size) - 23))
          << f.name << " of " << ::testing::PrintToString(v);
    });
}

// A result does not depend on the other elements, which share its vector.
TEST(SpecialValues, DoNotDependOnNeighbours) {
  for (const SpecialFunction& f : special_functions()) {
    if (std::string(f.name) == "bessel_jn" || std::string(f.name) == "expn" || std::string(f.name) == "lambertw")
      continue;
    std::vector<std::vector<double>> columns;
    std::vector<double> alone;
    for_each_value_of(f, [&](const std::vector<double>& v, long double) {
      columns.resize(v.size());
      for (std::size_t i = 0; i < v.size(); ++i) columns[i].push_back(v[i]);
      alone.push_back(f.call(tensors_of(v, float64)).item<double>());
    });
    std::vector<Tensor> together;
    for (const std::vector<double>& column : columns) together.push_back(from(column));
    EXPECT_EQ(f.call(together).to_vector<double>(), alone) << f.name;
  }
}

/// The derivative with respect to the first argument, computed by `grad`.
double slope(const std::function<Tensor(Tensor)>& f, double x) { return grad(f)(tensor(x, float64)).item<double>(); }

TEST(SpecialValues, DerivativesByParametersAreMpmaths) {
  for_each_special_value("gammainc_derivative", [](const std::vector<double>& v, long double value) {
    if (v[0] > 2) return;
    const auto first = [&](Tensor a) { return gammainc(a, v[2]); };
    const auto second = [&](Tensor a) { return grad(first)(a); };
    const double got = v[0] == 1 ? slope(first, v[1]) : slope(second, v[1]);
    EXPECT_NEAR(got, static_cast<double>(value), 1e-12 * std::abs(static_cast<double>(value)) + 1e-17)
        << v[1] << " " << v[2];
  });
  for_each_special_value("betainc_derivative", [](const std::vector<double>& v, long double value) {
    if (v[0] + v[1] != 1) return;
    const double got = v[0] == 1 ? slope([&](Tensor a) { return betainc(a, v[3], v[4]); }, v[2])
                                 : slope([&](Tensor b) { return betainc(v[2], b, v[4]); }, v[3]);
    EXPECT_NEAR(got, static_cast<double>(value), 1e-12 * std::abs(static_cast<double>(value))) << v[2] << " " << v[3];
  });
  for_each_special_value("zeta_derivative", [](const std::vector<double>& v, long double value) {
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
