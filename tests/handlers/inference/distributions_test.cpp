// Distributions: derivatives and transforms of their members, and compound distributions.
#include <cmath>
#include <limits>

#include <stave/stave.h>

#include "matchers.h"

namespace distributions_test {

using namespace stave;
using namespace stave_test;
using testing::HasSubstr;
using testing::ThrowsMessage;

using T = const Tensor&;

Tensor f64(double value) { return tensor(value, float64); }

// Checks the derivatives, with respect to x and to all parameters, of each member that the
// distribution has, at the points `xs` inside of its support.
template <class D>
void check_members(const char* name, const D& d, T xs, double tolerance = 1e-4) {
  SCOPED_TRACE(name);
  const CheckGradsOptions options{.order = 2, .tolerance = tolerance};
  // Members are function pointers, so that the transforms are instantiated once for a distribution.
  const auto check = [&](const char* member, Tensor (*f)(const D&, T)) {
    SCOPED_TRACE(member);
    try {
      check_grads([&](const D& e, T x) { return f(e, x); }, std::tuple(d, xs), options);
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
    const Tensor x = xs[0];
    EXPECT_THAT(vmap([&](T y) { return f(d, y); })(xs), IsNear(f(d, xs), 1e-12));
    const auto slope = [&](T y) { return grad([&](T z) { return sum(f(d, z)); })(y); };
    EXPECT_THAT(compile(slope)(xs), IsNear(slope(xs), 1e-9));
  };
  check("log_prob", [](const D& e, T x) { return e.log_prob(x); });
  if constexpr (requires { d.cdf(xs); }) {
    check("cdf", [](const D& e, T x) { return e.cdf(x); });
    check("sf", [](const D& e, T x) { return e.sf(x); });
    check("log_cdf", [](const D& e, T x) { return e.log_cdf(x); });
  }
  if constexpr (requires { d.quantile(xs); }) {
    check("quantile", [](const D& e, T x) { return e.quantile(sigmoid(x)); });
    EXPECT_THAT(d.cdf(d.quantile(sigmoid(xs))), IsNear(sigmoid(xs), 1e-10));
  }
  // The moments of Cauchy are NaN or infinite.
  const auto exists = [](T moment) { return all(isfinite(moment)).item<bool>(); };
  if constexpr (requires { d.mean(); })
    if (exists(d.mean())) check("mean", [](const D& e, T x) { return e.mean() + x * 0; });
  if constexpr (requires { d.variance(); })
    if (exists(d.variance())) check("variance", [](const D& e, T x) { return e.variance() + x * 0; });
  if constexpr (requires { d.entropy(); }) check("entropy", [](const D& e, T x) { return e.entropy() + x * 0; });
}

const Tensor& real_points() {
  static const Tensor points = tensor({-1.5, 0.25, 0.625, 2.}, float64);
  return points;
}
const Tensor& positive_points() {
  static const Tensor points = tensor({0.25, 0.625, 1.25, 3.}, float64);
  return points;
}

TEST(Distributions, OfRealNumbersHaveDerivatives) {
  const Tensor &x = real_points(), m = f64(0.375), s = f64(1.25);
  check_members("Normal", Normal{m, s}, x);
  check_members("TruncatedNormal", TruncatedNormal{m, s, f64(-2), f64(3)}, x);
  check_members("GeneralizedNormal", GeneralizedNormal{f64(1.5), m, s}, x);
  check_members("Cauchy", Cauchy{m, s}, x);
  check_members("TruncatedCauchy", TruncatedCauchy{m, s, f64(-2), f64(3)}, x);
  check_members("StudentT", StudentT{f64(3.5), m, s}, x);
  check_members("Laplace", Laplace{m, s}, x);
  check_members("Logistic", Logistic{m, s}, x);
  check_members("Gumbel", Gumbel{m, s}, x);
  check_members("VonMises", VonMises{m, s}, x);
}

TEST(Distributions, OfPositiveNumbersHaveDerivatives) {
  const Tensor &x = positive_points(), a = f64(3.375), s = f64(1.25);
  check_members("HalfNormal", HalfNormal{s}, x);
  check_members("LogNormal", LogNormal{f64(0.25), f64(0.75)}, x);
  check_members("HalfCauchy", HalfCauchy{s}, x);
  check_members("Exponential", Exponential{s}, x);
  check_members("Gamma", Gamma{a, s}, x);
  check_members("InverseGamma", InverseGamma{a, s}, x);
  check_members("ChiSquared", ChiSquared{a}, x);
  check_members("FDistribution", FDistribution{a, f64(6.5)}, x);
  check_members("Pareto", Pareto{a, f64(0.125)}, x);
  check_members("Weibull", Weibull{f64(1.75), s}, x);
  const Tensor shares = tensor({0.125, 0.375, 0.5, 0.875}, float64);
  check_members("Beta", Beta{a, f64(1.5)}, shares);
  check_members("Uniform", Uniform{f64(-0.5), f64(1.5)}, shares);
}

TEST(Distributions, OfIntegersHaveDerivativesByParameters) {
  const auto check = [&](const char* name, const auto& d, T k = tensor({0, 1, 3, 4})) {
    SCOPED_TRACE(name);
    using D = std::remove_cvref_t<decltype(d)>;
    check_grads([&](const D& e) { return e.log_prob(k); }, d, {.order = 2, .tolerance = 1e-4});
    check_grads([&](const D& e) { return e.mean() + e.variance(); }, d, {.order = 2, .tolerance = 1e-4});
    if constexpr (requires { d.cdf(k); })
      check_grads([&](const D& e) { return e.cdf(k) + e.log_cdf(k) + square(e.sf(k)); }, d,
                  {.order = 2, .tolerance = 1e-4});
    if constexpr (requires { d.entropy(); })
      check_grads([&](const D& e) { return e.entropy(); }, d, {.order = 2, .tolerance = 1e-4});
    if constexpr (requires { d.quantile(k); }) {
      const auto quantile = [&](T q) { return d.quantile(sigmoid(q)); };
      const Tensor q = tensor({-3., -0.25, 0.5, 4.}, float64);
      EXPECT_THAT(grad([&](T x) { return sum(quantile(x)); })(q), Equals(zeros({4}, float64)));
      for (const Tensor& slope : tree_leaves(grad([&](const D& e) { return sum(e.quantile(sigmoid(q))); })(d)))
        EXPECT_THAT(slope, Equals(zeros_like(slope)));
      EXPECT_THAT(vmap(quantile)(q), Equals(quantile(q)));
      EXPECT_THAT(compile(quantile)(q), Equals(quantile(q)));
    }
  };
  check("Bernoulli", Bernoulli{f64(0.75)}, tensor({0, 1, 0, 1}));
  check("Poisson", Poisson{f64(2.5)});
  check("Binomial", Binomial{8, f64(0.75)});
  check("NegativeBinomial", NegativeBinomial{f64(3.5), f64(0.75)});
  check("Geometric", Geometric{f64(0.75)});
  check("BetaBinomial", BetaBinomial{8, f64(1.5), f64(2.5)});
  check("Categorical", Categorical{tensor({0.5, -1., 2., 0.25, 0.}, float64)});
}

// The derivative of E[f(K)] with respect to the rate is E[f(K + 1) - f(K)], and the mean of the
// score is 0, so the derivative of the entropy is E[log((K + 1) / rate)]. Binomial has the same
// formula with one trial less.
TEST(Distributions, OfCountsHaveEntropiesWithExactDerivatives) {
  const Tensor k = arange(0, 600, 1, float64);
  const Tensor rates = tensor({0.0009765625, 0.125, 2., 30., 63.875, 64.125, 300.}, float64);
  const Tensor p = exp(Poisson{expand_dims(rates, -1)}.log_prob(k));
  const auto of_rates = [](T r) { return Poisson{r}.entropy(); };
  const Tensor slopes = grad([&](T r) { return sum(of_rates(r)); })(rates);
  EXPECT_THAT(slopes, IsNear(sum(p * log((k + 1) / expand_dims(rates, -1)), -1), 1e-11));
  EXPECT_THAT(vmap(grad(of_rates))(rates), IsNear(slopes, 1e-13));
  EXPECT_THAT(compile(vmap(grad(of_rates)))(rates), IsNear(slopes, 1e-13));

  const double n = 520;
  const Tensor logits = tensor({-9., -3., -1.9375, -1.75, 0., 2.}, float64), column = expand_dims(logits, -1);
  const Tensor less = exp(Binomial{n - 1, column}.log_prob(k)), inside = k < n;
  const Tensor change = where(inside, log((k + 1) / where(inside, n - k, 1)) - column, 0);
  const auto of_logits = [&](T l) { return Binomial{n, l}.entropy(); };
  const Tensor by_logits = grad([&](T l) { return sum(of_logits(l)); })(logits);
  EXPECT_THAT(by_logits, IsNear(n * sigmoid(logits) * sigmoid(-logits) * sum(less * change, -1), 1e-11));
  EXPECT_THAT(compile(vmap(grad(of_logits)))(logits), IsNear(by_logits, 1e-12));

  const auto of_both = [](T count, T l) { return NegativeBinomial{count, l}.entropy(); };
  for (const double count : {0.25, 1., 3.5, 80.})
    for (const double l : {-4., -1., 0.5, 6.})
      check_grads(of_both, std::tuple(f64(count), f64(l)), {.order = 2, .tolerance = 1e-4});
}

// Counts of one draw are those of a class, and counts of two classes are binomial. A beta
// distribution that is uniform makes all counts equally probable.
TEST(Distributions, OfCountsHaveEntropiesOfSpecialCases) {
  const Tensor logits = tensor({{0.5, -1., 2.}, {0., 40., -3.}}, float64);
  EXPECT_THAT((Multinomial{1, logits}.entropy()), IsNear(Categorical{logits}.entropy(), 1e-13));
  const Tensor counts = tensor({0., 1., 20., 63., 65., 500., 1e6}, float64),
               odds = tensor({-9., -0.5, 0., 3.}, float64);
  const Tensor n = expand_dims(counts, -1);
  const auto of_two = [](T count, T l) { return Multinomial{count, stack({l, zeros_like(l)}, -1)}.entropy(); };
  const auto binomial = [](T count, T l) { return Binomial{count, l}.entropy(); };
  EXPECT_THAT(of_two(n, odds), IsNear(binomial(n, odds), 1e-12));
  const Tensor columns = broadcast_to(odds, {7, 4});
  const auto slopes = [&](auto f) { return grad([&](T l) { return sum(f(n, l)); })(columns); };
  EXPECT_THAT(slopes(of_two), IsNear(slopes(binomial), 1e-8));
  EXPECT_THAT((BetaBinomial{counts[slice(0, 6)], 1, 1}.entropy()), IsNear(log(counts[slice(0, 6)] + 1), 1e-12));
  EXPECT_THAT((BetaBinomial{1, f64(1.5), f64(2.5)}.entropy()),
              IsNear(Bernoulli{log(f64(1.5) / f64(2.5))}.entropy(), 1e-14));
  EXPECT_THAT((Hypergeometric{f64(30), f64(50), f64(1)}.entropy()),
              IsNear(Bernoulli{log(f64(30) / f64(50))}.entropy(), 1e-14));
  EXPECT_THAT((Hypergeometric{zeros({0}), 3, 2}.entropy()), Equals(zeros({0})));
  EXPECT_EQ((Multinomial{3, tensor({0.5F, 1.F})}.entropy().dtype()), float32);
}

TEST(Distributions, SumsOfEntropiesPassThroughTransforms) {
  const Tensor counts = tensor({3., 0., 12., 3.}, float64), a = tensor({0.5, 1., 2.5, 4.}, float64);
  const auto of_beta = [](T n, T p) { return BetaBinomial{n, p, 1.5}.entropy(); };
  const Tensor slopes = grad<1>([&](T n, T p) { return sum(of_beta(n, p)); })(counts, a);
  EXPECT_THAT(vmap(of_beta)(counts, a), IsNear(of_beta(counts, a), 1e-14));
  EXPECT_THAT(vmap(grad<1>(of_beta))(counts, a), IsNear(slopes, 1e-13));
  EXPECT_THAT(vmap(of_beta, {.in_axes = {unmapped, 0}})(counts(2), a), IsNear(of_beta(counts(2), a), 1e-14));
  const auto compiled = compile(grad<1>(of_beta));
  for (const Index i : {0, 2, 0, 3}) EXPECT_THAT(compiled(counts(i), a(i)), IsNear(slopes(i), 1e-13));
  EXPECT_THAT(compile(vmap(grad<1>(of_beta)))(counts, a), IsNear(slopes, 1e-13));
  for (const Tensor& by :
       {grad<0>(of_beta)(counts(2), a(2)),
        jvp([&](T n) { return of_beta(n, a(2)); }, std::tuple(counts(2)), std::tuple(f64(1))).second})
    EXPECT_THAT(by, Equals(f64(0)));

  const auto of_draws = [](T n) { return Hypergeometric{9, 5, n}.entropy(); };
  EXPECT_THAT(vmap(of_draws)(counts), IsNear(of_draws(counts), 1e-14));
  EXPECT_THAT(compile(vmap(of_draws))(counts), IsNear(of_draws(counts), 1e-14));
  EXPECT_THAT([&] { of_beta(f64(std::numeric_limits<double>::infinity()), a); },
              ThrowsMessage<Error>(HasSubstr("BetaBinomial::entropy: it is a sum over all counts, but the greatest")));

  const Tensor logits = tensor({{0.5, -1., 2.}, {0., 4., -3.}}, float64);
  const auto of_classes = [](T n, T l) { return Multinomial{n, l}.entropy(); };
  for (const double n : {0.5, 3., 80., 2000.}) {
    const Tensor by_logits = grad<1>([&](T m, T l) { return sum(of_classes(m, l)); })(f64(n), logits);
    check_grads(of_classes, std::tuple(f64(n), logits), {.order = 2, .tolerance = 1e-4});
    EXPECT_THAT(vmap(grad<1>(of_classes), {.in_axes = {unmapped, 0}})(f64(n), logits), IsNear(by_logits, 1e-12));
    EXPECT_THAT(compile(vmap(grad<1>(of_classes), {.in_axes = {unmapped, 0}}))(f64(n), logits),
                IsNear(by_logits, 1e-12));
  }
}

// A search through all counts finds the same quantiles.
TEST(Distributions, OfCountsHaveTheLeastQuantiles) {
  const Tensor k = arange(0, 3000, 1, float64);
  const Tensor shares = uniform(Key(1), {40, 1}, 0, 1, float64), small = exp(-uniform(Key(2), {20, 1}, 0, 25, float64));
  const Tensor q = concat({shares, small, 1 - small, reshape(tensor({1e-300, 1 - 0x1p-40}, float64), {2, 1})}, 0);
  const auto check = [&](const char* name, const auto& d, const auto& columns) {
    SCOPED_TRACE(name);
    const Tensor below = columns.cdf(k) < expand_dims(q, -1);
    EXPECT_THAT(d.quantile(q), Equals(sum(astype(below, float64), -1)));
    // The cdf of a count is a share of which it is the quantile, and the next float is not.
    const Tensor at = floor(d.mean()), share = d.cdf(at), next = nextafter(share, 1.);
    EXPECT_THAT(d.quantile(share), Equals(sum(astype(columns.cdf(k) < expand_dims(share, -1), float64), -1)));
    EXPECT_THAT(d.quantile(next), Equals(sum(astype(columns.cdf(k) < expand_dims(next, -1), float64), -1)));
  };
  const auto column = [](T x) { return expand_dims(x, -1); };
  const Tensor rates = tensor({0.001, 0.5, 7., 64., 1000.}, float64);
  check("Poisson", Poisson{rates}, Poisson{column(rates)});
  const Tensor n = tensor({1., 5., 40., 900., 2500.}, float64), l = tensor({0.5, -6., 3., -1., 0.}, float64);
  check("Binomial", Binomial{n, l}, Binomial{column(n), column(l)});
  const Tensor r = tensor({0.01, 0.5, 3., 80., 900.}, float64), m = tensor({3., 2., 1., -1., -3.}, float64);
  check("NegativeBinomial", NegativeBinomial{r, m}, NegativeBinomial{column(r), column(m)});
  check("Geometric", Geometric{-m}, Geometric{column(-m)});
}

TEST(Distributions, OfCountsHaveQuantilesInTheDtypeOfTheirParameters) {
  EXPECT_EQ(Poisson{3}.quantile(tensor(0.5)).dtype(), float32);
  EXPECT_THAT(Poisson{3}.quantile(tensor({0.F, 0.5F, 1.F})),
              Equals(tensor({-1.F, 3.F, std::numeric_limits<float>::infinity()})));
  EXPECT_THAT(isnan(Poisson{3}.quantile(tensor({-0.5F, 1.5F, std::nanf("")}))), Equals(ones({3}, bool_)));
  const Tensor k = arange(0, 12, 1);
  EXPECT_THAT((Binomial{11, -0.5}.quantile(Binomial{11, -0.5}.cdf(k))), Equals(astype(k, float32)));
  const Categorical classes{tensor({{0.5, -1., 2.}, {0., 0., 0.}})};
  EXPECT_THAT(classes.quantile(tensor({{0.05F}, {0.2F}, {0.5F}})),
              Equals(tensor({{0.F, 0.F}, {1.F, 0.F}, {2.F, 1.F}})));
  EXPECT_THAT(classes.cdf(tensor({0, 2})), IsNear(tensor({0.175290F, 1.F}), 1e-5));
  EXPECT_THAT(classes.sf(classes.quantile(tensor(0.5))) < 0.5, Equals(tensor({true, true})));
}

TEST(Distributions, OfDiscreteNumbersSumToOne) {
  const Tensor k = arange(0, 400, 1, float64);
  const auto check = [&](const char* name, const auto& d) {
    SCOPED_TRACE(name);
    const Tensor p = exp(d.log_prob(k));
    EXPECT_THAT(sum(p), IsNumber(1, 1e-12));
    EXPECT_THAT(sum(p * k), IsNear(d.mean(), 1e-11));
    EXPECT_THAT(sum(p * square(k - d.mean())), IsNear(d.variance(), 1e-10));
    if constexpr (requires { d.cdf(k); }) {
      EXPECT_THAT(cumulative_sum(p), IsNear(d.cdf(k), 1e-11));
      EXPECT_THAT(d.cdf(k + 0.5), IsNear(d.cdf(k)));
      EXPECT_THAT(d.cdf(k) + d.sf(k), IsNear(ones_like(k)));
    }
  };
  check("Bernoulli", Bernoulli{f64(0.75)});
  check("Poisson", Poisson{f64(20)});
  check("Binomial", Binomial{f64(30), f64(0.75)});
  check("NegativeBinomial", NegativeBinomial{f64(3.5), f64(0.75)});
  check("Geometric", Geometric{f64(-1)});
  check("BetaBinomial", BetaBinomial{f64(30), f64(1.5), f64(2.5)});
  check("Hypergeometric", Hypergeometric{f64(20), f64(12), f64(15)});
}

TEST(Distributions, OfStudentHaveDerivativesOfTheCdfAtTheMedian) {
  const auto cdf = [](T x, T n) { return StudentT{n}.cdf(x); };
  const Tensor zero = f64(0), n = f64(2.5), density = exp(StudentT{n}.log_prob(zero));
  EXPECT_THAT(grad([&](T x) { return cdf(x, n); })(zero), IsNear(density));
  const auto by_both = grad([&](T m) { return grad([&](T x) { return cdf(x, m); })(zero); })(n);
  EXPECT_THAT(by_both, IsNear(grad([&](T m) { return exp(StudentT{m}.log_prob(zero)); })(n)));
  EXPECT_THAT(grad([&](T p) { return StudentT{n}.quantile(p); })(f64(0.5)), IsNear(1 / density, 1e-10));
}

// ---- compound distributions --------------------------------------------------------------

TEST(Mixture, IsALogarithmOfASumOfDensities) {
  const Tensor logits = tensor({0.5, -1., 2.}, float64), m = tensor({-1., 0., 3.}, float64);
  const Mixture mixture{logits, Normal{m, 0.5}};
  const Tensor x = tensor({-1., 0.25, 4.}, float64);
  const Tensor by_hand = sum(softmax(logits) * exp(Normal{m, 0.5}.log_prob(expand_dims(x, -1))), -1);
  EXPECT_THAT(exp(mixture.log_prob(x)), IsNear(by_hand));
  EXPECT_EQ(tree_leaves(mixture).size(), 2u);
  const Mixture slope = grad([&](const Mixture& d) { return sum(d.log_prob(x)); })(mixture);
  const auto of_means = [&](T means) { return sum(Mixture{logits, Normal{means, 0.5}}.log_prob(x)); };
  EXPECT_THAT(tree_leaves(slope)[1], IsNear(grad(of_means)(m)));
  const auto compiled = compile([](const Mixture& d, T y) { return d.log_prob(y); });
  EXPECT_THAT(compiled(mixture, x), IsNear(mixture.log_prob(x)));
  EXPECT_THAT(compiled(Mixture{logits, Normal{m * 2., 0.5}}, x),
              IsNear(Mixture{logits, Normal{m * 2., 0.5}}.log_prob(x)));
  EXPECT_EQ(compiled.recordings(), 1u);
}

TEST(Mixture, OfVectorsChoosesWholeVectors) {
  const Tensor logits = log(tensor({0.25, 0.75})), m = tensor({{-10., -20.}, {10., 20.}});
  const Mixture mixture{logits, Independent{Normal{m, 1}, 1}};
  EXPECT_EQ(mixture.event_rank(), 1);
  const Tensor x = mixture.sample(Key(1), {4000});
  EXPECT_EQ(x.shape(), Shape({4000, 2}));
  EXPECT_THAT(mean(astype((x(ellipsis, 0) > 0) == (x(ellipsis, 1) > 0), float32)), IsNumber(1));
  EXPECT_THAT(mean(astype(x(ellipsis, 0) > 0, float32)), IsNumber(0.75, 0.03));
  EXPECT_EQ(mixture.log_prob(x).shape(), Shape({4000}));
  // A batch of mixtures has the batch of the logits.
  const Mixture batch{zeros({3, 2}), Normal{tensor({-1., 1.}), 0.1}};
  EXPECT_EQ(batch.sample(Key(2), {5}).shape(), Shape({5, 3}));
  EXPECT_EQ((Mixture{zeros({3, 2}), Normal{zeros({3, 2}), 1}}.sample(Key(2), {5}).shape()), Shape({5, 3}));
  EXPECT_THAT(message_of<ShapeError>([&] {
                Mixture{zeros({3, 2}), Normal{zeros({1, 2}), 1}}.sample(Key(2));
              }),
              HasSubstr("the components need the batch"));
}

TEST(Independent, SumsTheDensityOverAxes) {
  const Normal base{zeros({2, 3}), 1};
  const Independent d{base, 1};
  const Tensor x = base.sample(Key(1));
  EXPECT_THAT(d.log_prob(x), IsNear(sum(base.log_prob(x), -1)));
  EXPECT_EQ(d.event_rank(), 1);
  EXPECT_EQ(d.sample(Key(1), {4}).shape(), Shape({4, 2, 3}));
}

TEST(Transformed, HasTheDensityOfTheImage) {
  const Tensor x = tensor({-1., 0., 0.25, 4.}, float64);
  const Transformed d{Normal{0.5, 0.75}, Bijector::exp()};
  EXPECT_THAT(d.log_prob(x), IsNear(LogNormal{0.5, 0.75}.log_prob(x)));
  EXPECT_THAT(grad([&](T y) { return sum(d.log_prob(y)); })(x(slice(2, none))), IsNear(grad([&](T y) {
                return sum(LogNormal{0.5, 0.75}.log_prob(y));
              })(x(slice(2, none)))));
  EXPECT_THAT(d.sample(Key(1), {4}), IsNear(LogNormal{0.5, 0.75}.sample(Key(1), {4})));
  EXPECT_THAT(d.support().constrain(x), IsNear(exp(x)));
  // The density of l z for standard normal z is that of a multivariate normal distribution.
  const Tensor l = tensor({{2., 0.}, {1., 0.5}}, float64), m = tensor({1., -1.}, float64);
  const Transformed vectors{Normal{zeros({2}, float64), 1}, Bijector::lower_triangular_affine(m, l)};
  const Tensor y = tensor({{0.5, 2.}, {1., 1.}, {-3., 0.}}, float64);
  EXPECT_THAT(vectors.log_prob(y), IsNear(MultivariateNormal{m, l}.log_prob(y)));
  EXPECT_EQ(vectors.event_rank(), 1);
  // log_det is summed over the events of the base.
  const Transformed positive{MultivariateNormal{m, l}, Bijector::exp()};
  EXPECT_THAT(positive.log_prob(exp(y)), IsNear(MultivariateNormal{m, l}.log_prob(y) - sum(y, -1)));
}

TEST(Transformed, IsATreeOfTheParametersOfBoth) {
  const Transformed d{Normal{f64(0.5), f64(0.75)}, Bijector::affine(f64(1), f64(2))};
  EXPECT_EQ(tree_leaves(d).size(), 4u);
  const Tensor y = tensor({0.5, 2.}, float64);
  const Transformed slope = grad([&](const Transformed& e) { return sum(e.log_prob(y)); })(d);
  const auto by_hand = [&](T location) { return sum(Normal{0.5 * 2 + location, 1.5}.log_prob(y)); };
  EXPECT_THAT(tree_leaves(slope)[2], IsNear(grad(by_hand)(f64(1))));
}

// ---- divergences -------------------------------------------------------------------------

TEST(Divergence, IsTheMeanOfTheDifferenceOfLogDensities) {
  const auto check = [](const char* name, const auto& p, const auto& q) {
    SCOPED_TRACE(name);
    const Tensor x = p.sample(Key(7), {40000}), terms = p.log_prob(x) - q.log_prob(x);
    const double error = std::sqrt(var(terms).template item<double>() / 40000);
    EXPECT_NEAR(mean(terms).template item<double>(), kl_divergence(p, q).template item<double>(), 4.5 * error);
    EXPECT_NEAR(kl_divergence(p, p).template item<double>(), 0, 1e-6);
  };
  check("Normal", Normal{0.5, 1}, Normal{0, 2});
  check("LogNormal", LogNormal{0.5, 1}, LogNormal{0, 2});
  check("Laplace", Laplace{0.5, 1}, Laplace{0, 2});
  check("Exponential", Exponential{0.5}, Exponential{2});
  check("Gamma", Gamma{2, 3}, Gamma{1.5, 1});
  check("Beta", Beta{2, 3}, Beta{1.5, 1});
  check("Uniform", Uniform{0, 1}, Uniform{-1, 2});
  check("Bernoulli", Bernoulli{0.5}, Bernoulli{-1});
  check("Geometric", Geometric{0.5}, Geometric{-1});
  check("Poisson", Poisson{2.5}, Poisson{1});
  check("Categorical", Categorical{tensor({0.5, 1., -1.})}, Categorical{tensor({1., -1., 2.})});
  const Tensor l = tensor({{2., 0.}, {1., 0.5}}), k = tensor({{1., 0.}, {-1., 2.}});
  check("MultivariateNormal", MultivariateNormal{tensor({0.5, 1.}), l}, MultivariateNormal{tensor({0., 2.}), k});
  check("Dirichlet", Dirichlet{tensor({2., 1., 3.})}, Dirichlet{tensor({1., 1., 2.})});
  EXPECT_EQ((kl_divergence(Uniform{0, 2}, Uniform{0, 1}).item<double>()), std::numeric_limits<double>::infinity());
}

// ---- samplers ----------------------------------------------------------------------------

TEST(Distributions, WithNewSupportsCanBeSampledByNuts) {
  const auto model = [] {
    sample("factor", LKJCholesky{3, 2});
    sample("matrix", Wishart{5., eye(2, float64)});
    sample("pareto", Pareto{3., tensor(2., float64)});
    sample("angle", VonMises{0.5, 4.});
    sample("mixture", Mixture{tensor({0., 1.}), Normal{tensor({-1., 2.}), 1}});
  };
  NamedTensors start{{"factor", zeros({3}, float64)},
                     {"matrix", zeros({3}, float64)},
                     {"pareto", zeros({}, float64)},
                     {"angle", zeros({}, float64)},
                     {"mixture", zeros({}, float64)}};
  const auto log_p = [&](const NamedTensors& u) { return unconstrained_log_density(model, u)(); };
  const NamedTensors slope = grad(log_p)(start), values = constrain(model, start)();
  EXPECT_THAT(values.at("factor"), IsNear(eye(3, float64)));
  EXPECT_THAT(values.at("pareto"), IsNumber(3));
  EXPECT_THAT(unconstrain(model, values)().at("matrix"), IsNear(start.at("matrix")));
  EXPECT_TRUE(all(isfinite(slope.at("matrix"))).item<bool>());
  const auto run = nuts(compile(log_p), start, Key(0), {.chains = 8, .warmup = 200, .draws = 200});
  const auto constrained = [&](const NamedTensors& u) { return constrain(model, u)(); };
  const NamedTensors draws = vmap(vmap(constrained))(run.draws);
  EXPECT_THAT(mean(draws.at("matrix"), {0, 1}), IsNear(5 * eye(2, float64), 0.25));
  EXPECT_THAT(mean(draws.at("mixture")), IsNumber(2 - 3 / (1 + std::exp(1)), 0.15));
  EXPECT_THAT(mean(draws.at("angle")), IsNumber(0.5, 0.05));
  EXPECT_THAT(mean(draws.at("pareto")), IsNumber(3, 0.1));
}

// The guide to probabilistic programs quotes these lines.
TEST(Guide, DistributionsAreMadeOfDistributions) {
  const Transformed share{Normal{0, 1.5}, Bijector::sigmoid()};
  const Mixture price{tensor({0., 1.}), LogNormal{tensor({-1., 2.}), 0.5}};
  const LKJCholesky correlations{3, 2};

  const Tensor above = Gamma{2, tensor({0.5, 1.})}.sf(tensor(3.)), draws = price.sample(Key(0), {1000});
  const Tensor quartile = StudentT{3}.quantile(tensor(0.25)), spread = Beta{2, 5}.variance();
  const Tensor divergence = kl_divergence(Normal{0, 1}, Normal{1, 2});

  EXPECT_THAT(above, IsNear(tensor({0.5578254003710746, 0.1991482734714558})));
  EXPECT_THAT(quartile, IsNumber(-0.7648923284043453));
  EXPECT_THAT(spread, IsNumber(10. / 392));
  EXPECT_THAT(divergence, IsNumber(std::log(2.) + 2. / 8 - 0.5));
  EXPECT_THAT(share.log_prob(tensor(0.5)), IsNumber(std::log(4) - std::log(1.5) - std::log(2 * M_PI) / 2));
  EXPECT_EQ(correlations.sample(Key(0)).shape(), Shape({3, 3}));
  EXPECT_EQ(draws.shape(), Shape({1000}));
}

}  // namespace distributions_test
