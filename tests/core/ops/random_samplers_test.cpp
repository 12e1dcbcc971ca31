// Samplers: distributions that jax.random lacks against scipy.stats, lanes of vmap, compiled draws,
// derivatives and errors. oracle_random_test.cpp compares the others with jax.random.

#include <cmath>
#include <functional>
#include <numbers>

#include <stave/core/ops/random_samplers.h>
#include <stave/core/ops/special.h>
#include <stave/stave.h>

#include "matchers.h"

using namespace stave;
using namespace stave_test;
using testing::HasSubstr;
using testing::ThrowsMessage;

namespace {

const Key key(42);

/// The share of draws that are at most x differs from p by at most five standard deviations.
void expect_share(const Tensor& draws, double x, double p, const std::string& what) {
  const double share = mean(astype(draws <= x, float64)).item<double>();
  EXPECT_NEAR(share, p, 5 * std::sqrt(p * (1 - p) / static_cast<double>(draws.size())) + 1e-6) << what << " at " << x;
}

// scipy.stats.vonmises.cdf(x, k)
TEST(VonMises, IsDistributedAsInScipy) {
  const std::vector<double> wide = {-2, -1, -0.25, 0, 0.1, 0.6, 1.5, 2.5},
                            narrow = {-0.08, -0.03, -0.01, 0, 0.005, 0.02, 0.04, 0.1};
  const std::vector<std::pair<double, std::vector<double>>> distributions = {
      {0, {0.18169, 0.340845, 0.460211, 0.5, 0.515915, 0.595493, 0.738732, 0.897887}},
      {0.5, {0.115177, 0.271523, 0.438634, 0.5, 0.524653, 0.643794, 0.816142, 0.939745}},
      {4, {0.00087, 0.033226, 0.31548, 0.5, 0.576376, 0.872129, 0.995068, 0.999777}},
      {1000, {0.005722, 0.17143, 0.37593, 0.5, 0.562809, 0.736426, 0.897005, 0.999213}}};
  for (const auto& [k, expected] : distributions) {
    const Tensor draws = von_mises(key, 0, k, {200000});
    for (std::size_t i = 0; i < expected.size(); ++i)
      expect_share(draws, (k == 1000 ? narrow : wide)[i], expected[i], "concentration " + std::to_string(k));
  }
}

TEST(VonMises, TurnsWithItsLocation) {
  const Tensor around_0 = von_mises(key, 0, 2., {1000}), around_3 = von_mises(key, 3., 2., {1000});
  EXPECT_TRUE(all(abs(around_3) <= 3.1415928).item<bool>());
  EXPECT_THAT(cos(around_3), IsNear(cos(around_0 + 3.), 1e-5));
  EXPECT_THAT(values(von_mises(key, 0, tensor({-1., 1e30}, float64))),
              testing::ElementsAre(testing::IsNan(), testing::DoubleNear(0, 1e-13)));
}

// scipy.stats.hypergeom(good + bad, good, drawn): mean, variance and three quantiles
TEST(Hypergeometric, IsDistributedAsInScipy) {
  struct Case {
    int good, bad, drawn;
    double mean, variance;
    std::vector<std::pair<int, double>> shares;
  };
  for (const Case& c : {Case{5, 7, 4, 1.6666666667, 0.7070707071, {{1, 0.424242}, {2, 0.848485}, {3, 0.989899}}},
                        Case{30, 20, 25, 15, 3.0612244898, {{13, 0.193423}, {15, 0.613356}, {17, 0.92592}}},
                        Case{1000, 3000, 500, 125, 82.0517629407, {{113, 0.101286}, {125, 0.524752}, {137, 0.915327}}},
                        Case{50000,
                             100,
                             40000,
                             39920.1596806387,
                             16.0637471849,
                             {{39915, 0.120304}, {39920, 0.543598}, {39925, 0.906003}}},
                        Case{8, 2, 9, 7.2, 0.16, {{7, 0.8}}}}) {
    const std::string what =
        std::to_string(c.drawn) + " of " + std::to_string(c.good) + " and " + std::to_string(c.bad);
    const Tensor draws = hypergeometric(key, c.good, c.bad, c.drawn, {100000});
    ASSERT_EQ(draws.dtype(), int32);
    EXPECT_NEAR(mean(astype(draws, float64)).item<double>(), c.mean, 5 * std::sqrt(c.variance / 1e5)) << what;
    EXPECT_NEAR(var(astype(draws, float64)).item<double>() / c.variance, 1, 0.05) << what;
    for (const auto& [k, p] : c.shares) expect_share(draws, k, p, what);
  }
  EXPECT_THAT(values(hypergeometric(key, 3, 0, tensor({0, 2, 3, 4, -1}))), testing::ElementsAre(0, 2, 3, -1, -1));
}

// The distributions whose numbers equal JAX's in few draws have the right mean in many.
TEST(Samplers, HaveTheirMeans) {
  const Shape many{200000};
  const auto mean_of = [](const Tensor& x) { return mean(astype(x, float64)).item<double>(); };
  EXPECT_NEAR(mean_of(gamma(key, 0.3, many)), 0.3, 0.007);
  EXPECT_NEAR(mean_of(gamma(key, 7, many)), 7, 0.04);
  EXPECT_NEAR(mean_of(loggamma(key, 1e-3, many)), digamma(tensor(1e-3, float64)).item<double>(), 15);
  EXPECT_NEAR(mean_of(beta(key, 2, 3, many)), 0.4, 0.003);
  EXPECT_NEAR(mean_of(poisson(key, 3.5, many)), 3.5, 0.025);
  EXPECT_NEAR(mean_of(poisson(key, 1e6, many)), 1e6, 12);
  EXPECT_NEAR(mean_of(binomial(key, 20, 0.3, many)), 6, 0.03);
  EXPECT_NEAR(mean_of(binomial(key, 1000000, 0.7, many)), 7e5, 6);
  EXPECT_NEAR(mean_of(geometric(key, 0.2, many)), 5, 0.06);
  EXPECT_NEAR(mean_of(wald(key, 2, many)), 2, 0.04);
}

TEST(Samplers, TakeParametersAtTheEdgeOfTheirDomain) {
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  using testing::ElementsAre, testing::IsNan;
  EXPECT_THAT(values(gamma(key, tensor({-1., nan, 0., infinity}))), ElementsAre(IsNan(), IsNan(), 0, infinity));
  EXPECT_THAT(values(loggamma(key, tensor({-1., 0.}))), ElementsAre(IsNan(), -infinity));
  EXPECT_THAT(values(poisson(key, tensor({0., -1., nan, 1e12, infinity}))),
              ElementsAre(0, -1, -1, 2147483647, 2147483647));
  EXPECT_THAT(values(binomial(key, tensor({-1., nan, 0., 7., 7., infinity}), tensor({0.5, 0.5, 0.5, 0., 1., 0.5}))),
              ElementsAre(-1, -1, 0, 0, 7, 2147483647));
  EXPECT_THAT(values(binomial(key, 2000000001, tensor({1., nan, -0.5, 1.5}))), ElementsAre(2000000001, -1, -1, -1));
  EXPECT_THAT(values(geometric(key, tensor({1., 0., 2., nan}))), ElementsAre(1, -1, -1, -1));
  EXPECT_TRUE(all(isfinite(loggamma(key, 1e-6, {1000}))).item<bool>());
}

TEST(Samplers, HaveTheDtypeAndShapeOfTheirParameters) {
  for (const Dtype dtype : {float16, bfloat16, float32, float64}) {
    EXPECT_EQ(gamma(key, full({3}, 2, dtype)).dtype(), dtype);
    EXPECT_EQ(beta(key, full({2, 1}, 2, dtype), full({3}, 2, dtype)).shape(), Shape(2, 3));
    EXPECT_EQ(exponential(key, {2}, dtype).dtype(), dtype);
    EXPECT_EQ(poisson(key, full({3}, 2, dtype)).dtype(), int32);
  }
  EXPECT_THAT(gamma(key, full({100}, 2, bfloat16)), Equals(astype(gamma(key, full({100}, 2, float32)), bfloat16)));
  EXPECT_EQ(gamma(key, 2).dtype(), float32);
  EXPECT_EQ(gamma(key, tensor({1, 2})).dtype(), float32);
  EXPECT_EQ(gamma(key, 2, {0, 3}).shape(), Shape(0, 3));
  EXPECT_EQ(poisson(key, zeros({0})).shape(), Shape(0));
  EXPECT_EQ(multinomial(key, 5, ones({2, 3}) / 3).shape(), Shape(2, 3));
  EXPECT_EQ(multinomial(key, tensor({5, 6}), ones({3}) / 3).shape(), Shape(2, 3));
  EXPECT_THAT(sum(multinomial(key, tensor({5, 6}), ones({3}) / 3), -1), Equals(tensor({5, 6})));
}

// ---- lanes and programs -------------------------------------------------------------------------

using Draw = std::function<Tensor(const Key&, const Tensor&)>;

const std::vector<std::pair<std::string, Draw>> draws = {
    {"gamma", [](const Key& k, const Tensor& a) { return gamma(k, a, {4}); }},
    {"loggamma", [](const Key& k, const Tensor& a) { return loggamma(k, a, {4}); }},
    {"beta", [](const Key& k, const Tensor& a) { return beta(k, a, 2, {4}); }},
    {"student_t", [](const Key& k, const Tensor& a) { return student_t(k, a, {4}); }},
    {"dirichlet",
     [](const Key& k, const Tensor& a) {
       return dirichlet(k, stack({a, a + 1, 2 * a}), {2});
     }},
    {"von_mises", [](const Key& k, const Tensor& a) { return von_mises(k, a, a, {4}); }},
    {"poisson", [](const Key& k, const Tensor& a) { return poisson(k, 6 * a, {9}); }},
    {"binomial", [](const Key& k, const Tensor& a) { return binomial(k, 30, a / 8, {9}); }},
    {"hypergeometric", [](const Key& k, const Tensor& a) { return hypergeometric(k, 40, 50, round(9 * a), {4}); }},
    {"multinomial",
     [](const Key& k, const Tensor& a) {
       return multinomial(k, 10, stack({a, a + 1}) / (2 * a + 1));
     }},
    {"randint", [](const Key& k, const Tensor& a) { return randint(k, {5}, 0, astype(7 * a, int32)); }},
    {"geometric", [](const Key& k, const Tensor& a) { return geometric(k, a / 8, {5}); }},
    {"truncated_normal", [](const Key& k, const Tensor& a) { return truncated_normal(k, -a, a, {5}); }},
    {"triangular", [](const Key& k, const Tensor& a) { return triangular(k, 0, a / 2, a, {5}); }},
    {"wald", [](const Key& k, const Tensor& a) { return wald(k, a, {5}); }},
    {"ball", [](const Key& k, const Tensor& a) { return a * ball(k, 2); }},
    {"orthogonal", [](const Key& k, const Tensor& a) { return a * orthogonal(k, 3); }},
    {"multivariate_normal",
     [](const Key& k, const Tensor& a) {
       return multivariate_normal(k, stack({a, a}), a * eye(2), {3});
     }},
    {"choice", [](const Key& k, const Tensor& a) { return a * choice(k, arange(6.), {3}, {.replace = false}); }},
    {"choice by p",
     [](const Key& k, const Tensor& a) {
       return choice(k, 3, {4}, {.p = stack({a, a, a + 1})});
     }},
    {"shuffle",
     [](const Key& k, const Tensor& a) {
       return shuffle(k, a * reshape(arange(6.), {3, 2}), 0);
     }},
    {"categorical_without_replacement",
     [](const Key& k, const Tensor& a) { return categorical_without_replacement(k, a * arange(6.), 3); }},
};

// Each lane gets the numbers of a call with its key and its parameter, also if lanes share one.
TEST(Samplers, GiveEachLaneTheNumbersOfALoop) {
  const Tensor keys = split(key, 4), parameters = tensor({0.5, 1., 2.5, 4.});
  for (const auto& [name, draw] : draws) {
    const auto f = [&draw = draw](const Tensor& data, const Tensor& a) { return draw(Key(data), a); };
    std::vector<Tensor> lanes, of_one_key, of_one_parameter;
    for (int i = 0; i < 4; ++i) {
      lanes.push_back(f(keys[i], parameters[i]));
      of_one_key.push_back(f(keys[0], parameters[i]));
      of_one_parameter.push_back(f(keys[i], parameters[1]));
    }
    EXPECT_THAT(vmap(f)(keys, parameters), Equals(stack(lanes))) << name;
    EXPECT_THAT(vmap([&](const Tensor& a) { return f(keys[0], a); })(parameters), Equals(stack(of_one_key))) << name;
    EXPECT_THAT(vmap([&](const Tensor& k) { return f(k, parameters[1]); })(keys), Equals(stack(of_one_parameter)))
        << name;
    const auto nested = vmap(vmap(f))(reshape(keys, {2, 2, 2}), reshape(parameters, {2, 2}));
    EXPECT_THAT(reshape(nested, stack(lanes).shape()), Equals(stack(lanes))) << name;
  }
}

TEST(Samplers, CompiledGiveTheSameNumbers) {
  for (const auto& [name, draw] : draws) {
    const auto f = [&draw = draw](const Tensor& data, const Tensor& a) { return draw(Key(data), a); };
    auto compiled = compile(f);
    for (int i = 0; i < 3; ++i)
      EXPECT_THAT(compiled(split(key, 3)[i], tensor(1.5)), Equals(f(split(key, 3)[i], tensor(1.5)))) << name;
  }
}

// ---- derivatives --------------------------------------------------------------------------------

double number(const Tensor& x) { return x.item<double>(); }

// dx/da = -(dP/da) / (dP/dx) at fixed probability. For small a the draw is (P Gamma(a + 1))^(1/a),
// and for large a it is nearly a + sqrt(a) z for a normal z.
TEST(GammaDerivative, HoldsTheProbability) {
  for (const double a : {1e-4, 1e-2, 0.3, 1., 4., 60., 1e3, 1e5}) {
    const auto f = [](const Tensor& y) { return loggamma(key, y); };
    const Tensor at = tensor(a, float64);
    const double l = number(f(at)), slope = number(grad(f)(at));
    if (l < -40) {
      EXPECT_NEAR(slope, (number(digamma(at + 1)) - l) / a, 1e-10 * std::abs(slope)) << a;
    }
    if (a < 100 && l > -40) {
      const double h = 1e-5 * a, x = std::exp(l);
      const double above = number(gammainc(a + h, x * std::exp(h * slope))),
                   below = number(gammainc(a - h, x * std::exp(-h * slope)));
      EXPECT_NEAR(above, below, 1e-9) << a;
    }
    if (a >= 1e3) {
      EXPECT_NEAR(slope, (1 + (std::exp(l) - a) / (2 * a)) / std::exp(l), 2 / (a * a)) << a;
    }
    const auto linear = [](const Tensor& y) { return gamma(key, y); };
    const double x = number(linear(at));
    EXPECT_NEAR(number(grad(linear)(at)), x * slope, 1e-9 * x * slope) << a;
  }
  EXPECT_EQ(number(grad([](const Tensor& y) { return gamma(Key(1), y); })(tensor(1e-6, float64))), 0);
}

// The table of operations compares second derivatives with those of the quantile function.
TEST(GammaDerivative, HasHigherOrders) {
  const auto of_draw = [](const Tensor& a) { return sum(gamma(key, a, {5})) + sum(beta(key, a, 2 * a, {3})); };
  const Tensor second = grad(grad(of_draw))(tensor(1.7, float64));
  const Tensor forward = jacfwd(grad(of_draw))(tensor(1.7, float64));
  EXPECT_TRUE(std::isfinite(number(second)));
  EXPECT_NEAR(number(second), number(forward), 1e-8);
}

// For a large concentration k, a draw is nearly z / sqrt(k) for a normal z; at 0 its derivative is
// -sin(x).
TEST(VonMisesDerivative, HasItsLimits) {
  const auto slopes = [](double k) {
    return grad([](const Tensor& c) { return sum(von_mises(key, 0, c)); })(full({50}, k, float64));
  };
  const Tensor at_0 = von_mises(key, 0, full({50}, 0, float64)), far = von_mises(key, 0, full({50}, 1e8, float64));
  EXPECT_THAT(slopes(0), IsNear(-sin(at_0), 1e-12));
  EXPECT_THAT(slopes(1e8) * 1e8, IsNear(-0.5 * far, 1e-9));
  const Tensor by_location =
      grad([](const Tensor& m) { return sum(von_mises(key, m, 2., {50})); })(tensor(3., float64));
  EXPECT_EQ(number(by_location), 50);
}

// The distribution function stays the same along the derivative: by Simpson's rule.
TEST(VonMisesDerivative, HoldsTheProbability) {
  const auto density_integral = [](double k, double x) {
    constexpr int n = 20000;
    const auto f = [&](double t) { return std::exp(k * (std::cos(t) - 1)); };
    const auto integral = [&](double end) {
      double sum = f(0) + f(end);
      for (int i = 1; i < n; ++i) sum += (i % 2 ? 4 : 2) * f(end * i / n);
      return sum * end / n / 3;
    };
    return integral(x) / integral(std::numbers::pi);
  };
  for (const double k : {0.05, 0.7, 2., 9., 40., 500.}) {
    const auto f = [](const Tensor& c) { return von_mises(key, 0, c); };
    const Tensor at = full({20}, k, float64), x = f(at), slope = grad([&](const Tensor& c) { return sum(f(c)); })(at);
    for (Index i = 0; i < 20; ++i) {
      const double h = 1e-4 * k, angle = number(x[i]), rate = number(slope[i]);
      const double above = density_integral(k + h, angle + h * rate), below = density_integral(k - h, angle - h * rate);
      EXPECT_NEAR(above, below, 2e-11) << k << " at " << angle;
    }
  }
}

TEST(Samplers, CountsHaveDerivativeZero) {
  const auto f = [](const Tensor& a) {
    return sum(astype(poisson(key, a, {5}), float32)) + sum(astype(binomial(key, 9, a / 9, {5}), float32)) +
           sum(astype(geometric(key, a / 9, {5}), float32));
  };
  EXPECT_EQ(grad(f)(tensor(2.)).item<float>(), 0);
}

// ---- errors -------------------------------------------------------------------------------------

template <class F>
auto refuses(F f, const std::string& text) {
  EXPECT_THAT(f, ThrowsMessage<Error>(HasSubstr(text)));
}

TEST(Samplers, SayWhatIsWrong) {
  refuses(
      [] {
        gamma(key, tensor({1., 2.}), {3});
      },
      "gamma: the parameters have shape [2], which does not broadcast to [3]");
  refuses([] { gamma(key, ones({2, 3}), {3}); }, "gamma: the parameters have shape [2,3], which does not broadcast");
  refuses([] { beta(key, ones({2}), ones({3})); }, "beta: ");
  refuses([] { gamma(split(key, 3), 2.); }, "gamma: an array of keys [3,2]: vmap over it");
  refuses([] { poisson(split(key, 3), 2.); }, "poisson: an array of keys [3,2]: vmap over it");
  refuses([] { gamma(key, Tensor()); }, "gamma: ");
  refuses([] { gamma(key, 2., {-1}); }, "gamma: shape [-1] has a negative length");
  refuses([] { exponential(key, {2}, int32); }, "exponential: int32 is not a floating dtype");
  refuses([] { rademacher(key, {2}, uint8); }, "rademacher: uint8 does not hold -1 and 1");
  refuses([] { dirichlet(key, tensor(1.)); }, "dirichlet: concentrations of rank 0");
  refuses([] { multinomial(key, 3, tensor(1.)); }, "multinomial: probabilities of rank 0");
  refuses(
      [] {
        multivariate_normal(key, ones({2}), ones({3, 3}));
      },
      "multivariate_normal: a mean [2] and a covariance");
  refuses([] { ball(key, 0); }, "ball: the dimension is 0");
  refuses([] { orthogonal(key, -1); }, "orthogonal: matrices of -1 rows");
  refuses([] { randint(key, {2}, 0, 1.5); }, "randint: a bound is float32, not an integer");
  refuses([] { randint(key, {2}, 0, 5, float32); }, "randint: float32 is not an integer dtype");
  refuses([] { randint(key, {2}, 0, tensor({1, 2, 3})); }, "randint: the parameters have shape [3]");
  refuses([] { choice(key, 0, {2}); }, "choice: there are 0 entries to choose from");
  refuses([] { choice(key, 3, {2, 2}, {.replace = false}); }, "choice: 4 of 3 entries cannot be drawn");
  refuses([] { choice(key, 3, {2}, {.p = ones({2})}); }, "choice: p has shape [2], but there are 3 entries");
  refuses([] { choice(key, ones({2, 3}), {2}, {.axis = 2}); }, "choice");
  refuses([] { categorical_without_replacement(key, ones({3}), 4); }, "4 of 3 positions are requested");
}

}  // namespace
