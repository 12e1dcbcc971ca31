// Distributions: draws, supports and transforms of them.
#include <cmath>

#include <stave/stave.h>

#include "matchers.h"

namespace sample_test {

using namespace stave;
using namespace stave_test;
using testing::HasSubstr;

using T = const Tensor&;

// Checks that the share of draws that are at most `at` is `share`, to 4.5 standard errors.
void expect_share(T drawn, double at, double share, const std::string& what) {
  const double n = static_cast<double>(drawn.size());
  const double got = mean(astype(drawn <= at, float64)).item<double>();
  EXPECT_NEAR(got, share, 4.5 * std::sqrt(share * (1 - share) / n)) << what << " at " << at;
}

struct Quantiles {
  const char* name;
  Distribution distribution;
  double at[5];  // the quantiles of 0.05, 0.25, 0.5, 0.75 and 0.95
};
// The quantiles come from scipy.stats: norm(1, 2).ppf(0.05) and so on.
std::vector<Quantiles> quantiles() {
  return {{"Normal{1, 2}",
           Normal{1., 2.},
           {-2.2897072539029457, -0.3489795003921634, 1.0, 2.348979500392163, 4.289707253902945}},
          {"HalfNormal{2}",
           HalfNormal{2.},
           {0.1254135558864277, 0.6372787279287503, 1.3489795003921634, 2.3006987607520157, 3.919927969080108}},
          {"Cauchy{1, 2}",
           Cauchy{1., 2.},
           {-11.627503029350088, -1.0000000000000004, 1.0, 3.0000000000000004, 13.627503029350075}},
          {"HalfCauchy{2}",
           HalfCauchy{2.},
           {0.15740341364923688, 0.8284271247461901, 1.9999999999999998, 4.82842712474619, 25.412409472349392}},
          {"StudentT{3, 1, 2}",
           StudentT{3., 1., 2.},
           {-3.7067268696036484, -0.5297846568086888, 1.0, 2.5297846568086886, 5.706726869603647}},
          {"LogNormal{0.5, 0.75}",
           LogNormal{0.5, 0.75},
           {0.480157924309527, 0.9941498664170534, 1.6487212707001282, 2.734277718364351, 5.661224548918914}},
          {"Exponential{2}",
           Exponential{2.},
           {0.025646647193775268, 0.14384103622589045, 0.34657359027997264, 0.6931471805599453, 1.497866136776995}},
          {"Gamma{0.25, 2}",
           Gamma{0.25, 2.},
           {2.1092877101314967e-06, 0.001321088552046699, 0.0218369011764367, 0.13031300098911633, 0.6050580687223814}},
          {"Gamma{1, 2}",
           Gamma{1., 2.},
           {0.025646647193775265, 0.14384103622589045, 0.34657359027997275, 0.6931471805599453, 1.4978661367769948}},
          {"Gamma{7.5, 2}",
           Gamma{7.5, 2.},
           {1.8152359819175081, 2.759134414772752, 3.5847148777391613, 4.5612714006037836, 6.248947534932154}},
          {"Beta{0.5, 0.75}",
           Beta{0.5, 0.75},
           {0.0035867027717873313, 0.08836930361468325, 0.3367003734519298, 0.6890253593911975, 0.9602124495114163}},
          {"Beta{2, 5}",
           Beta{2., 5.},
           {0.06284989170835438, 0.16116291679032652, 0.26444998329566005, 0.3894794852007245, 0.5818034092520259}},
          {"Uniform{-1, 3}", Uniform{-1., 3.}, {-0.8, 0.0, 1.0, 2.0, 2.8}}};
}

TEST(Draws, HaveTheQuantilesOfSciPy) {
  constexpr double shares[] = {0.05, 0.25, 0.5, 0.75, 0.95};
  std::uint64_t seed = 0;
  for (const Quantiles& q : quantiles()) {
    const Tensor drawn = q.distribution.sample(Key(++seed), {20000});
    EXPECT_EQ(drawn.dtype(), float32);
    for (int i = 0; i < 5; ++i) expect_share(drawn, q.at[i], shares[i], q.name);
  }
}

// The shares come from scipy.stats.poisson(rate).cdf.
TEST(Draws, OfPoissonHaveTheCdfOfSciPy) {
  const struct {
    double rate, at[3], share[3];
  } cases[] = {{0.5, {0, 1, 2}, {0.6065306597126334, 0.9097959895689501, 0.9856123220330293}},
               {4, {1, 4, 7}, {0.0915781944436709, 0.6288369351798734, 0.9488663842071527}},
               {9.75, {5, 9, 14}, {0.07715536847740502, 0.4895712391149851, 0.9289131896055768}},
               {12, {7, 12, 17}, {0.08950449684017583, 0.5759652485730645, 0.9370337032260297}},
               {300, {275, 300, 325}, {0.07712414831439018, 0.5153487572629238, 0.9280727335902424}}};
  for (const auto& c : cases) {
    const Tensor drawn = Poisson{c.rate}.sample(Key(1), {20000});
    EXPECT_EQ(drawn.dtype(), int32);
    for (int i = 0; i < 3; ++i) expect_share(drawn, c.at[i], c.share[i], "rate " + std::to_string(c.rate));
  }
}

TEST(Draws, OfDiscreteDistributionsHaveTheirProbabilities) {
  const Tensor coins = Bernoulli{tensor({-1., 2.})}.sample(Key(1), {20000});
  EXPECT_EQ(coins.dtype(), bool_);
  EXPECT_THAT(mean(astype(coins, float64), 0), IsNear(sigmoid(tensor({-1., 2.}, float64)), 0.01));
  const Tensor logits = tensor({{0., 1., 2.}, {3., 0., -1.}}), classes = Categorical{logits}.sample(Key(2), {20000});
  EXPECT_EQ(classes.shape(), Shape({20000, 2}));
  EXPECT_THAT(mean(one_hot(classes, 3, float32), 0), IsNear(softmax(logits), 0.01));
}

TEST(Draws, OfVectorsHaveTheirMoments) {
  const Tensor m = tensor({1., -1.}), l = tensor({{2., 0.}, {1., 0.5}});
  const Tensor x = MultivariateNormal{m, l}.sample(Key(1), {40000});
  EXPECT_EQ(x.shape(), Shape({40000, 2}));
  EXPECT_THAT(mean(x, 0), IsNear(m, 0.04));
  EXPECT_THAT(matmul(transpose(x - m), x - m) / 40000., IsNear(matmul(l, transpose(l)), 0.04));
  // Dirichlet(a) with s = sum(a) has mean a / s and variance a (s - a) / (s^2 (s + 1)).
  const Tensor a = tensor({0.25, 1., 4.}), p = Dirichlet{a}.sample(Key(2), {40000});
  EXPECT_THAT(sum(p, -1), IsNear(ones({40000}), 1e-5));
  EXPECT_THAT(mean(p, 0), IsNear(a / 5.25, 0.005));
  EXPECT_THAT(var(p, 0), IsNear(a * (5.25 - a) / (5.25 * 5.25 * 6.25), 0.003));
}

TEST(Draws, HaveTheShapeAndDtypeOfParameters) {
  EXPECT_EQ((Normal{tensor({1., 2.}), tensor({{1.}, {2.}, {3.}})}.sample(Key(0), {4}).shape()), Shape({4, 3, 2}));
  EXPECT_EQ((Normal{}.sample(Key(0)).shape()), Shape());
  for (const Dtype dtype : {float16, bfloat16, float32, float64}) {
    const Tensor one = ones({3}, dtype);
    for (const Distribution& d :
         {Distribution(Normal{one, 2}), Distribution(StudentT{one, 1, 2}), Distribution(Gamma{one, 2}),
          Distribution(Beta{one, one}), Distribution(Dirichlet{one}), Distribution(Uniform{0, one}),
          Distribution(MultivariateNormal{one, eye(3, dtype)})}) {
      const Tensor drawn = d.sample(Key(0), {2});
      EXPECT_EQ(drawn.dtype(), dtype);
      EXPECT_EQ(drawn.shape(), Shape({2, 3}));
      EXPECT_EQ(d.log_prob(drawn).dtype(), dtype);
    }
  }
  EXPECT_EQ((Normal{0.1, 1}.log_prob(tensor(0.1, float64)).dtype()), float64);
  EXPECT_THAT((Normal{0.1, 1}.log_prob(tensor(0.1, float64))), IsNumber(-std::log(2 * M_PI) / 2, 1e-15));
}

TEST(Draws, UnderVmapEqualALoopOverKeys) {
  const Tensor keys = split(Key(3), 5), parameters = arange(1, 6, 1, float32);
  const auto check = [&](auto draw) {
    const Tensor lanes = vmap(draw)(Key(keys), parameters);
    for (Index i = 0; i < 5; ++i) EXPECT_THAT(lanes[i], Equals(draw(Key(keys[i]), parameters[i])));
  };
  check([](const Key& key, T a) { return Gamma{a * 0.4, 2}.sample(key, {7}); });
  check([](const Key& key, T a) { return Poisson{a * a}.sample(key, {7}); });
  check([](const Key& key, T a) { return StudentT{a, 1, a}.sample(key, {7}); });
  check([](const Key& key, T a) { return Dirichlet{stack({a, a + 1.})}.sample(key, {7}); });
}

TEST(Draws, HaveDerivativesWhereTheyAreSmooth) {
  const auto pathwise = [](T m, T s) { return sum(Normal{m, s}.sample(Key(1), {4})); };
  const Tensor z = Normal{}.sample(Key(1), {4});
  const auto [dm, ds] = grad<0, 1>(pathwise)(tensor(1.), tensor(2.));
  EXPECT_THAT(dm, IsNumber(4));
  EXPECT_THAT(ds, IsNear(sum(z)));
  const auto by_rate = grad([](T r) { return sum(Gamma{2., r}.sample(Key(1), {4})); });
  EXPECT_THAT(by_rate(tensor(2.)), IsNear(-sum(Gamma{2., 1}.sample(Key(1), {4})) / 4., 1e-5));
}

TEST(Distributions, AreTreesAndCanBeVmapped) {
  const Normal normal_of{tensor({1., 2.}), tensor({3., 4.})};
  EXPECT_EQ(tree_leaves(normal_of).size(), 2u);
  EXPECT_EQ(tree_leaves(Normal{tensor(1.), 2}).size(), 1u);
  const auto density = [](const Normal& d, T x) { return d.log_prob(x); };
  const Tensor x = tensor({0., 5.});
  EXPECT_THAT(vmap(density)(normal_of, x), IsNear(normal_of.log_prob(x)));
  const Normal slope = grad([&](const Normal& d) { return sum(d.log_prob(x)); })(normal_of);
  EXPECT_THAT(slope.location.tensor(), IsNear((x - normal_of.location.tensor()) / square(normal_of.scale.tensor())));
}

TEST(Support, UnconstrainInvertsConstrain) {
  const Tensor u = tensor({{-2., 0.5, 3.}, {0., 1., -1.}}, float64);
  const auto jacobian_of = [](const Support& support, T v) {
    return jacfwd([&](T w) { return support.constrain(w); })(v);
  };
  for (const Support& support : {Support::real(), Support::positive(), Support::interval(-1, tensor(3., float64))}) {
    EXPECT_THAT(support.unconstrain(support.constrain(u)), IsNear(u));
    for (Index i = 0; i < 2; ++i)
      EXPECT_THAT(sum(support.log_det(u[i])), IsNear(slogdet(jacobian_of(support, u[i])).second, 1e-10));
  }
  const Support simplex = Support::simplex();
  const Tensor p = simplex.constrain(u);
  EXPECT_THAT(sum(p, -1), IsNear(ones({2}, float64)));
  EXPECT_THAT(simplex.unconstrain(p), IsNear(u, 1e-10));
  EXPECT_THAT(simplex.constrain(zeros({3}, float64)), IsNear(full({4}, 0.25, float64)));
  // The Jacobian leaves out the last part, which the other parts determine.
  for (Index i = 0; i < 2; ++i)
    EXPECT_THAT(simplex.log_det(u[i]), IsNear(slogdet(jacobian_of(simplex, u[i])(slice(none, 3))).second, 1e-10));
  EXPECT_THAT(message_of<TransformError>([&] { Support::discrete().constrain(u); }), HasSubstr("has no map from R^n"));
}

}  // namespace sample_test
