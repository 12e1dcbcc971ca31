// Draws of distributions against their own cdf, probabilities and moments, which other tests
// compare with SciPy.
#include <cmath>

#include <stave/stave.h>

#include "matchers.h"

namespace distribution_draws_test {

using namespace stave;
using namespace stave_test;

using T = const Tensor&;
constexpr Index count = 20000;

// The test of Kolmogorov and Smirnov: the greatest distance of the cdf and the share of draws
// below. It exceeds 2.2 / sqrt(n) in one of 8000 runs.
template <class D>
void expect_cdf(const char* name, const D& d) {
  SCOPED_TRACE(name);
  static std::uint64_t seed = 100;
  const Tensor x = sort(d.sample(Key(++seed), {count})), p = astype(d.cdf(x), float64);
  EXPECT_EQ(x.dtype(), float32);
  const Tensor share = (arange(0, count, 1, float64) + 0.5) / static_cast<double>(count);
  EXPECT_LT(max(abs(p - share)).template item<double>(), 2.2 / std::sqrt(static_cast<double>(count)));
}

TEST(DistributionDraws, HaveTheirCdf) {
  expect_cdf("Laplace", Laplace{1, 2});
  expect_cdf("Logistic", Logistic{1, 2});
  expect_cdf("Gumbel", Gumbel{1, 2});
  expect_cdf("Pareto", Pareto{2.5, 2});
  expect_cdf("Weibull", Weibull{0.75, 2});
  expect_cdf("InverseGamma", InverseGamma{2.5, 2});
  expect_cdf("ChiSquared", ChiSquared{3});
  expect_cdf("FDistribution", FDistribution{3, 5});
  expect_cdf("TruncatedNormal", TruncatedNormal{1, 2, -1, 4});
  expect_cdf("TruncatedNormal in a tail", TruncatedNormal{0, 1, 4, 5});
  expect_cdf("TruncatedNormal above", TruncatedNormal{0, 1, -1});
  expect_cdf("TruncatedCauchy", TruncatedCauchy{1, 2, -1, 14});
  expect_cdf("Normal", Normal{1, 2});
  expect_cdf("StudentT", StudentT{3, 1, 2});
  expect_cdf("Beta", Beta{0.5, 2});
}

TEST(DistributionDraws, HaveTheirMoments) {
  const Tensor x = GeneralizedNormal{1.5, 1, 2}.sample(Key(1), {count});
  EXPECT_THAT(mean(x), IsNumber(1, 0.03));
  EXPECT_THAT(var(x), IsNear(GeneralizedNormal{1.5, 1, 2}.variance(), 0.03));
  for (const double k : {1e-6, 0.5, 4., 1000.}) {
    const VonMises d{0.5, k};
    const Tensor angle = d.sample(Key(2), {count});
    EXPECT_TRUE(all(abs(angle) <= 3.1415928).item<bool>());
    EXPECT_THAT(mean(cos(angle - 0.5)), IsNear(1 - d.variance(), 0.015));
    EXPECT_THAT(mean(sin(angle - 0.5)), IsNumber(0, 0.025));
  }
}

// Compares the shares of the integers first, first + 1, ... with their probabilities, to 4.5
// standard errors. The last integer stands for all beyond it.
template <class D>
void expect_probabilities(const char* name, const D& d, Index first, Index last) {
  SCOPED_TRACE(name);
  static std::uint64_t seed = 200;
  const Tensor k = d.sample(Key(++seed), {count});
  EXPECT_EQ(k.dtype(), int32);
  const Tensor inside = minimum(maximum(k, first), last) - static_cast<int>(first);
  const Tensor shares = astype(bincount(inside, last - first + 1), float64) / static_cast<double>(count);
  const Tensor p = exp(d.log_prob(arange(first, last, 1, float64)));
  for (Index i = 1; i + first < last; ++i) {
    const double want = p[i].item<double>(), got = shares[i].item<double>();
    EXPECT_NEAR(got, want, 4.5 * std::sqrt(want * (1 - want) / count) + 1e-4) << "at " << i + first;
  }
}

TEST(DistributionDraws, OfIntegersHaveTheirProbabilities) {
  expect_probabilities("Geometric", Geometric{-1}, -1, 20);
  expect_probabilities("Binomial", Binomial{7, 0.5}, -1, 8);
  expect_probabilities("Binomial of few", Binomial{1000, -6}, -1, 12);
  expect_probabilities("Binomial of many", Binomial{100, 0.5}, 40, 85);
  expect_probabilities("Binomial at the limit", Binomial{21, 0}, 0, 22);
  expect_probabilities("NegativeBinomial", NegativeBinomial{3.5, 0.5}, -1, 30);
  expect_probabilities("BetaBinomial", BetaBinomial{10, 1.5, 0.5}, -1, 11);
  expect_probabilities("Hypergeometric", Hypergeometric{7, 5, 4}, -1, 5);
  expect_probabilities("Hypergeometric of most", Hypergeometric{7, 5, 9}, 3, 8);
  expect_probabilities("Hypergeometric of bad", Hypergeometric{5, 30, 20}, -1, 6);
  expect_probabilities("Hypergeometric of many", Hypergeometric{400, 600, 300}, 90, 150);
  expect_probabilities("Zipf", Zipf{2.5}, 0, 20);
}

TEST(DistributionDraws, OfDegenerateCountsAreExact) {
  EXPECT_THAT((Binomial{0, 0.5}.sample(Key(1), {100})), Equals(zeros({100}, int32)));
  EXPECT_THAT((Binomial{5, 200}.sample(Key(1), {100})), Equals(full({100}, 5, int32)));
  EXPECT_THAT((Hypergeometric{1, 0, 1}.sample(Key(1), {100})), Equals(ones({100}, int32)));
  EXPECT_THAT((Hypergeometric{4, 3, 7}.sample(Key(1), {100})), Equals(full({100}, 4, int32)));
}

TEST(DistributionDraws, OfVectorsAndMatricesHaveTheirMoments) {
  const Tensor l = tensor({{2., 0.}, {1., 0.5}}), m = tensor({1., -1.});
  const Tensor counts = Multinomial{40, tensor({{0.5, 1., -1.}, {0., 0., 9.}})}.sample(Key(1), {4000});
  EXPECT_EQ(counts.shape(), Shape({4000, 2, 3}));
  EXPECT_THAT(sum(counts, -1), Equals(full({4000, 2}, 40, int32)));
  const Multinomial multinomial{40, tensor({{0.5, 1., -1.}, {0., 0., 9.}})};
  EXPECT_THAT(mean(astype(counts, float32), 0), IsNear(multinomial.mean(), 0.05));
  EXPECT_THAT(var(astype(counts, float32), 0), IsNear(multinomial.variance(), 0.1));
  const Tensor t = MultivariateStudentT{6, m, l}.sample(Key(2), {40000}), off = t - m;
  EXPECT_THAT(matmul(transpose(off), off) / 40000., IsNear(matmul(l, transpose(l)) * 1.5, 0.08));
  const Tensor w = Wishart{3.5, l}.sample(Key(3), {20000});
  EXPECT_EQ(w.shape(), Shape({20000, 2, 2}));
  EXPECT_THAT(mean(w, 0), IsNear(Wishart{3.5, l}.mean(), 0.05));
  // The variance of an element is degrees (v_ij^2 + v_ii v_jj), for v = l l^T.
  const Tensor v = matmul(l, transpose(l)), d = diagonal(v);
  EXPECT_THAT(var(w, 0), IsNear(3.5 * (square(v) + expand_dims(d, 1) * d), 0.1));
  EXPECT_TRUE(all(isfinite(Wishart{3.5, l}.log_prob(w))).item<bool>());
}

// Each correlation of LKJ with concentration c and dimension n is 2 b - 1, for b of Beta{a, a} with
// a = c - 1 + n / 2; its variance is 1 / (2 a + 1).
TEST(DistributionDraws, OfCorrelationsHaveTheirMarginals) {
  const Tensor factor = LKJCholesky{4, 1.5}.sample(Key(1), {20000});
  EXPECT_EQ(factor.shape(), Shape({20000, 4, 4}));
  const Tensor r = matmul(factor, matrix_transpose(factor));
  EXPECT_THAT(diagonal(r), IsNear(ones({20000, 4}), 1e-5));
  EXPECT_THAT(factor, Equals(tril(factor)));
  const double a = 1.5 - 1 + 2;
  for (Index i = 1; i < 4; ++i)
    for (Index j = 0; j < i; ++j) {
      const Tensor p = sort(Beta{a, a}.cdf((r(ellipsis, i, j) + 1) / 2));
      const Tensor share = (arange(0, count, 1, float32) + 0.5) / static_cast<double>(count);
      EXPECT_LT(max(abs(p - share)).item<double>(), 2.2 / std::sqrt(static_cast<double>(count)));
    }
  EXPECT_EQ((LKJCholesky{3, tensor({1., 2.})}.sample(Key(1), {5}).shape()), Shape({5, 2, 3, 3}));
  EXPECT_THAT((LKJCholesky{1}.sample(Key(1))), Equals(ones({1, 1})));
  EXPECT_THAT((LKJCholesky{1}.log_prob(ones({1, 1}))), IsNumber(0));
}

TEST(DistributionDraws, HaveTheShapeAndDtypeOfParameters) {
  for (const Dtype dtype : {float16, bfloat16, float32, float64}) {
    const Tensor one = ones({3}, dtype), zero = zeros({3}, dtype);
    for (const Distribution& d :
         {Distribution(Laplace{one, 2}), Distribution(Logistic{one, 2}), Distribution(Gumbel{one, 2}),
          Distribution(Pareto{one, 2}), Distribution(Weibull{one, 2}), Distribution(ChiSquared{one}),
          Distribution(InverseGamma{one, 2}), Distribution(FDistribution{one, 2}),
          Distribution(TruncatedNormal{one, 2, 0, 5}), Distribution(TruncatedCauchy{one, 2, 0, 5}),
          Distribution(GeneralizedNormal{one, 2}), Distribution(VonMises{zero, one}),
          Distribution(Mixture{zeros({3, 2}, dtype), Normal{zeros({3, 2}, dtype), 1}}),
          Distribution(Transformed{Normal{one, 1}, Bijector::exp()})}) {
      const Tensor drawn = d.sample(Key(0), {2});
      EXPECT_EQ(drawn.dtype(), dtype);
      EXPECT_EQ(drawn.shape(), Shape({2, 3}));
      EXPECT_EQ(d.log_prob(drawn).dtype(), dtype);
      EXPECT_TRUE(all(isfinite(d.log_prob(drawn))).item<bool>());
    }
  }
}

TEST(DistributionDraws, UnderVmapEqualALoopOverKeys) {
  const Tensor keys = split(Key(3), 4), parameters = arange(1, 5, 1, float32);
  const auto check = [&](const char* name, auto draw) {
    SCOPED_TRACE(name);
    const Tensor lanes = vmap(draw)(Key(keys), parameters);
    for (Index i = 0; i < 4; ++i) EXPECT_THAT(lanes[i], Equals(draw(Key(keys[i]), parameters[i])));
  };
  check("Binomial", [](const Key& key, T a) { return Binomial{a * 20., a - 2.}.sample(key, {7}); });
  check("Hypergeometric", [](const Key& key, T a) { return Hypergeometric{a * 20., 30, 12}.sample(key, {7}); });
  check("Multinomial", [](const Key& key, T a) { return Multinomial{9, stack({a, a * 0., a}, -1)}.sample(key, {7}); });
  check("VonMises", [](const Key& key, T a) { return VonMises{a, a}.sample(key, {7}); });
  check("LKJCholesky", [](const Key& key, T a) { return LKJCholesky{3, a}.sample(key, {7}); });
}

TEST(DistributionDraws, HaveDerivativesWhereTheyAreSmooth) {
  const Tensor m = tensor(0.5, float64), s = tensor(1.5, float64), low = tensor(-1., float64),
               high = tensor(2., float64);
  const auto check = [&](auto draw, auto... parameters) {
    check_grads([&](const auto&... p) { return draw(p...).sample(Key(1), {4}); }, std::tuple(parameters...),
                {.order = 2, .tolerance = 1e-4});
  };
  check([](T a, T b) { return Laplace{a, b}; }, m, s);
  check([](T a, T b) { return Logistic{a, b}; }, m, s);
  check([](T a, T b) { return Gumbel{a, b}; }, m, s);
  check([](T a, T b) { return Pareto{a, b}; }, m, s);
  check([](T a, T b) { return Weibull{a, b}; }, m, s);
  check([](T a, T b, T l, T h) { return TruncatedNormal{a, b, l, h}; }, m, s, low, high);
  check([](T a, T b, T l, T h) { return TruncatedCauchy{a, b, l, h}; }, m, s, low, high);
}

// A draw keeps the probability that a draw is smaller, so its derivative with respect to a
// parameter is minus that of the cdf, divided by the density.
TEST(DistributionDraws, HaveImplicitDerivativesByConcentrations) {
  const double h = 1e-6;
  const auto check = [&](auto of, double parameter) {
    const auto draw = [&](T a) { return of(a).sample(Key(1), {50}); };
    const auto at = [&](double a) { return of(tensor(a, float64)); };
    const Tensor x = draw(tensor(parameter, float64));
    const Tensor slope = (at(parameter + h).cdf(x) - at(parameter - h).cdf(x)) / (2 * h);
    EXPECT_THAT(jacfwd(draw)(tensor(parameter, float64)), IsNear(-slope / exp(at(parameter).log_prob(x)), 1e-5));
  };
  for (const double a : {0.3, 1., 4.5}) {
    check([](T k) { return Gamma{k, 1}; }, a);
    check([](T k) { return InverseGamma{k, 2}; }, a);
    check([](T k) { return ChiSquared{k}; }, a);
  }
}

// The mean of draws has the derivative of the mean, up to the error of 10^5 draws.
TEST(DistributionDraws, HaveTheDerivativesOfTheirMeans) {
  const auto check = [](auto of, double parameter, double tolerance) {
    const auto mean_of_draws = [&](T a) { return mean(of(a).sample(Key(2), {100000})); };
    const auto exact = [&](T a) { return of(a).mean(); };
    const Tensor a = tensor(parameter, float64);
    EXPECT_NEAR(grad(mean_of_draws)(a).template item<double>(), grad(exact)(a).template item<double>(), tolerance);
  };
  check([](T a) { return Beta{a, 2}; }, 1.5, 2e-3);
  check([](T b) { return Beta{0.7, b}; }, 2, 2e-3);
  check([](T d) { return FDistribution{5, d}; }, 20, 2e-3);
  check([](T a) { return Gamma{a, 3}; }, 0.8, 5e-3);
}

}  // namespace distribution_draws_test
