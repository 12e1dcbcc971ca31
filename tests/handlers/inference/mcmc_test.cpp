// NUTS and HMC: known posteriors (tests/data/mcmc.csv), the independence of chains,
// and the statistics that a run reports.
#include <cmath>
#include <map>
#include <thread>

#include <stave/handlers/inference/warmup.h>
#include <stave/stave.h>

#include "../examples/digits.h"
#include "bits.h"
#include "matchers.h"
#include "rows_by_name.h"
#include "separate_backend.h"

namespace mcmc_test {

using namespace stave;
using namespace stave_test;
using testing::HasSubstr;

// ---- models -------------------------------------------------------------------------------------

struct Schools {
  Tensor effects, errors;
};
Schools schools_data(Dtype dtype) {
  return {tensor({28., 8., -3., 7., -1., 1., 18., 12.}, dtype), tensor({15., 10., 16., 11., 9., 11., 10., 18.}, dtype)};
}
void schools(const Schools& data) {
  const Tensor mu = sample("mu", Normal{0, 5}), tau = sample("tau", HalfCauchy{5});
  const Tensor eta = sample("eta", Normal{zeros_like(data.effects), 1});
  observe("y", Normal{mu + tau * eta, data.errors}, data.effects);
}
auto density_of_schools(Dtype dtype) {
  return [data = schools_data(dtype)](const NamedTensors& u) { return unconstrained_log_density(schools, u)(data); };
}
NamedTensors start_of_schools(Dtype dtype) {
  return {{"mu", zeros({}, dtype)}, {"tau", zeros({}, dtype)}, {"eta", zeros({8}, dtype)}};
}

// The digits 3 and 8, each by the means of its 16 squares of 2x2 pixels.
struct Threes {
  Tensor features, is_eight;
};
Threes threes_and_eights() {
  const Digits digits = read_digits(STAVE_SOURCE_DIR "/examples/data/digits.csv");
  const Tensor places = nonzero(logical_or(digits.labels == 3, digits.labels == 8))[0];
  const Tensor pixels = take(digits.pixels, places, 0);
  const Tensor squares = mean(reshape(pixels, {pixels.shape(0), 4, 2, 4, 2}), {2, 4});
  return {reshape(squares, {pixels.shape(0), 16}), take(digits.labels, places, 0) == 8};
}
void logistic(const Threes& data) {
  const Tensor bias = sample("bias", Normal{0, 2}), weights = sample("weights", Normal{zeros({16}), 1});
  observe("y", Bernoulli{matmul(data.features, weights) + bias}, data.is_eight);
}
auto density_of_logistic() {
  return [data = threes_and_eights()](const NamedTensors& u) { return unconstrained_log_density(logistic, u)(data); };
}
NamedTensors start_of_logistic() { return {{"bias", zeros({})}, {"weights", zeros({16})}}; }

// The source is Neal, "Slice sampling", 2003.
Tensor funnel(const NamedTensors& u) {
  const Tensor &v = u.at("v"), &x = u.at("x");
  return Normal{0., 3.}.log_prob(v) + sum(Normal{0., exp(v / 2)}.log_prob(x));
}
NamedTensors start_of_funnel() { return {{"v", zeros({})}, {"x", zeros({9})}}; }

Tensor standard_normal(const Tensor& x) { return -sum(square(x)) / 2; }

// ---- expectations -------------------------------------------------------------------------------

struct Reference {
  double mean, sd, error;
};
std::map<std::string, Reference> references() {
  std::map<std::string, Reference> found;
  for (const auto& [name, row] : rows_by_name("mcmc.csv")) found[name] = {row.at(0), row.at(1), row.at(2)};
  return found;
}

// Checks that the mean of the draws is `mean` and that their mean squared distance from it is
// `sd`^2, both within 4.5 standard errors.
void expect_moments(const Tensor& draws, const Reference& known, const std::string& name) {
  const Tensor x = astype(draws, float64), squares = square(x - known.mean);
  const auto error = [](const Tensor& t) {
    return stave::std(t).item<double>() / std::sqrt(ess_bulk(t).item<double>());
  };
  EXPECT_NEAR(mean(x).item<double>(), known.mean, 4.5 * std::hypot(error(x), known.error)) << name;
  EXPECT_NEAR(mean(squares).item<double>(), known.sd * known.sd,
              4.5 * std::hypot(error(squares), 2 * known.sd * known.error))
      << name;
}

// ---- posteriors ---------------------------------------------------------------------------------

TEST(Nuts, EightSchoolsPosteriorEqualsQuadrature) {
  const auto known = references();
  const auto run = nuts(compile(density_of_schools(float32)), start_of_schools(float32), Key(0),
                        {.chains = 128, .warmup = 200, .draws = 100});
  expect_moments(run.draws.at("mu"), known.at("schools mu"), "mu");
  // The unconstrained value of tau is log tau.
  expect_moments(run.draws.at("tau"), known.at("schools log tau"), "log tau");
  for (Index i = 0; i < 8; ++i)
    expect_moments(run.draws.at("eta")(ellipsis, i), known.at("schools eta[" + std::to_string(i) + "]"), "eta");
  for (const auto& [name, r] : rhat(run.draws)) EXPECT_LT(max(r).item<double>(), 1.03) << name;
}

TEST(Nuts, LogisticRegressionPosteriorEqualsNumPyro) {
  const auto known = references();
  const auto run =
      nuts(compile(density_of_logistic()), start_of_logistic(), Key(0), {.chains = 64, .warmup = 100, .draws = 20});
  expect_moments(run.draws.at("bias"), known.at("logistic bias"), "bias");
  for (Index i = 0; i < 16; ++i)
    expect_moments(run.draws.at("weights")(ellipsis, i), known.at("logistic weights[" + std::to_string(i) + "]"),
                   "weight " + std::to_string(i));
  EXPECT_EQ(run.divergences(), 0);
}

// In the funnel's neck every step size is too large: the draws miss the neck, and the run reports
// this. After a change of parameters the density is that of independent normal variables.
TEST(Nuts, FunnelIsReportedAndItsReparametrizationIsExact) {
  const NutsOptions options{.chains = 128, .warmup = 150, .draws = 50};
  const auto centred = nuts(compile(funnel), start_of_funnel(), Key(0), options);
  EXPECT_GT(centred.divergences(), 20);
  EXPECT_EQ(centred.divergences(), count_nonzero(centred.diverged).item<Index>());
  EXPECT_GT(max(rhat(centred.draws.at("v"))).item<double>(), 1.05);
  EXPECT_THAT(summary_of(centred), HasSubstr("trajectories that diverged"));

  const auto of_normals = [](const NamedTensors& u) {
    const Tensor &v = u.at("v"), &z = u.at("x");
    const auto volume = 9 * v / 2;  // x = exp(v / 2) z
    return funnel({{"v", v}, {"x", exp(v / 2) * z}}) + volume;
  };
  const auto run = nuts(compile(of_normals), start_of_funnel(), Key(1), options);
  EXPECT_EQ(run.divergences(), 0);
  expect_moments(run.draws.at("v"), {0, 3, 0}, "v");
  for (Index i = 0; i < 9; ++i) expect_moments(run.draws.at("x")(ellipsis, i), {0, 1, 0}, "z");
  EXPECT_THAT(summary_of(run), testing::Not(HasSubstr("diverged")));
}

// The density drops by a factor of e^-1000, the divergence threshold, at a point. Trajectories end
// there with an energy slightly above or below the threshold. Whether they end must not depend on
// which of their points they started from. E|x| = sqrt(2 / pi).
TEST(Nuts, DivergenceThresholdCausesNoBias) {
  const auto wall = [](const Tensor& x) { return -.5 * square(x) - where(x > 0., 1000., 0.); };
  const NutsOptions options{.chains = 16, .warmup = 300, .draws = 1500, .max_depth = 6, .spread = .4};
  const auto run = nuts(compile(wall), tensor(-.5, float64), Key(7), options);
  const double error = std::sqrt((1 - 2 / M_PI) / ess_bulk(run.draws).item<double>());
  EXPECT_LT(error, 0.02);
  EXPECT_NEAR(mean(abs(run.draws)).item<double>(), std::sqrt(2 / M_PI), 4 * error);
  EXPECT_GT(run.divergences(), 100);
}

// The chain starts where the density is e^-2000 of its value elsewhere,
// and must still leave that region.
TEST(Nuts, ChainsLeaveAStartOfTinyDensity) {
  const auto wall = [](const Tensor& x) { return -.5 * square(x) - where(x > 0., 2000., 0.); };
  const auto run = nuts(compile(wall), tensor(.5, float64), Key(1), {.chains = 4, .warmup = 300, .draws = 100});
  EXPECT_TRUE(bool(all(run.draws <= 0.)));
}

struct Pair {
  Tensor a, b;
};

// A correlated normal distribution with standard deviations from 0.01 to 100. Its moments are
// known. The draws form a tree with two dtypes.
TEST(Mcmc, NormalDistributionsOfAnyScaleHaveTheirMoments) {
  const Tensor scales = tensor({0.01, 1., 100.}, float64);
  const auto density = [&](const Pair& p) {
    const Tensor x = p.a / scales;
    // b is x(1) plus independent noise e of the same variance.
    return standard_normal(x) - square(astype(p.b, float64) - x(1)) / 2;
  };
  const Pair start{zeros({3}, float64), zeros({}, float32)};
  const auto expect = [&](const Sampled<Pair>& run, const char* by) {
    EXPECT_EQ(run.draws.a.dtype(), float64);
    EXPECT_EQ(run.draws.b.dtype(), float32);
    for (Index i = 0; i < 3; ++i) expect_moments(run.draws.a(ellipsis, i), {0, scales(i).item<double>(), 0}, by);
    expect_moments(run.draws.b, {0, std::sqrt(2.), 0}, by);
    // x (x + e) has mean 1 and variance 2 + 1.
    expect_moments(run.draws.a(ellipsis, 1) * run.draws.b, {1, std::sqrt(3.), 0}, by);
    // The variances that warm-up estimated match the scales.
    const Tensor variance = mean(run.variance.a, 0) / square(scales);
    for (const Index i : {1, 2}) EXPECT_NEAR(variance(i).item<double>(), 1, 0.3) << by;
    EXPECT_EQ(run.variance.b.shape(), Shape({16}));
  };
  expect(nuts(compile(density), start, Key(3), {.chains = 16, .warmup = 500, .draws = 500}), "nuts");
  expect(hmc(compile(density), start, Key(4), {.chains = 16, .warmup = 500, .draws = 500}), "hmc");
}

TEST(Hmc, EightSchoolsPosteriorEqualsQuadrature) {
  const auto known = references();
  const auto run = hmc(compile(density_of_schools(float64)), start_of_schools(float64), Key(0),
                       {.chains = 128, .warmup = 200, .draws = 150});
  expect_moments(run.draws.at("mu"), known.at("schools mu"), "mu");
  expect_moments(run.draws.at("tau"), known.at("schools log tau"), "log tau");
  expect_moments(run.draws.at("eta")(ellipsis, 0), known.at("schools eta[0]"), "eta[0]");
}

// ---- chains and keys ----------------------------------------------------------------------------

template <class F>
void expect_alone(const F& density, const NamedTensors& start, NutsOptions options, bool to_the_bit = true) {
  options.chains = 128;
  const auto all = nuts(compile(density), start, Key(5), options);
  options.chains = 1;
  for (const Index chain : {0, 5, 76, 127}) {
    options.first_chain = chain;
    const auto one = nuts(compile(density), start, Key(5), options);
    const auto expect_same = [&](const Tensor& a, const Tensor& b, const std::string& what) {
      EXPECT_TRUE(to_the_bit ? bytes_of(a) == bytes_of(b) : allclose(a, b, 1e-6)) << what << " of chain " << chain;
    };
    for (const auto& [name, draws] : one.draws) expect_same(draws(0), all.draws.at(name)(chain), name);
    expect_same(one.step_size(0), all.step_size(chain), "step size");
    expect_same(one.log_density(0), all.log_density(chain), "log density");
    EXPECT_TRUE(array_equal(one.steps(0), all.steps(chain)));
    EXPECT_TRUE(array_equal(one.diverged(0), all.diverged(chain)));
  }
}
TEST(Nuts, AChainIsTheSameAloneAndAmongOthers) {
  const NutsOptions options{.warmup = 60, .draws = 40}, few{.warmup = 0, .draws = 3};
  expect_alone(density_of_schools(float32), start_of_schools(float32), options);
  expect_alone(funnel, start_of_funnel(), options);
  // A larger batch rounds sums or matrix products differently. The chains then agree only for
  // the first few draws, and only nearly.
  expect_alone(density_of_schools(float64), start_of_schools(float64), few, false);
}

TEST(Nuts, ChainsAreTheSameOnSeveralThreads) {
  NutsOptions options{.chains = 13, .warmup = 60, .draws = 40};
  const auto density = compile(density_of_schools(float32));
  const auto one = nuts(density, start_of_schools(float32), Key(2), options);
  for (const int threads : {2, 4, 50}) {
    options.threads = threads;
    const auto several = nuts(density, start_of_schools(float32), Key(2), options);
    for (const auto& [name, draws] : one.draws) EXPECT_TRUE(bytes_of(draws) == bytes_of(several.draws.at(name)));
    EXPECT_TRUE(bytes_of(one.step_size) == bytes_of(several.step_size));
  }
  // An error on another thread reaches the caller.
  const auto thread = std::this_thread::get_id();
  const auto fails_elsewhere = [&](const Tensor& x) {
    if (std::this_thread::get_id() != thread) throw std::runtime_error("elsewhere");
    return standard_normal(x);
  };
  EXPECT_THROW(nuts(fails_elsewhere, zeros({2}), Key(0), options), std::runtime_error);
}

TEST(Nuts, DrawsDependOnlyOnTheKey) {
  const NutsOptions options{.chains = 3, .warmup = 30, .draws = 20};
  const Tensor start = zeros({2}), a = nuts(standard_normal, start, Key(0), options).draws,
               b = nuts(compile(standard_normal), start, Key(0), options).draws,
               c = nuts(standard_normal, start, Key(1), options).draws;
  EXPECT_EQ(a.shape(), Shape({3, 20, 2}));
  EXPECT_TRUE(bytes_of(a) == bytes_of(b));
  EXPECT_FALSE(bytes_of(a) == bytes_of(c));
  EXPECT_FALSE(bytes_of(a(0)) == bytes_of(a(1)));
}

// ---- statistics of trajectories -----------------------------------------------------------------

TEST(Nuts, TrajectoryStatisticsAreReported) {
  const auto run = nuts(compile(standard_normal), zeros({20}, float64), Key(0),
                        {.chains = 8, .warmup = 300, .draws = 200, .target_accept = 0.9});
  for (const Tensor& x : {run.log_density, run.accept_rate, run.steps, run.depth, run.diverged})
    EXPECT_EQ(x.shape(), Shape({8, 200}));
  EXPECT_EQ(run.step_size.shape(), Shape({8}));
  EXPECT_THAT(run.log_density, IsNear(-sum(square(run.draws), -1) / 2.));
  EXPECT_NEAR(mean(run.accept_rate).item<double>(), 0.93, 0.04);
  // A complete tree of depth d has 2^d - 1 steps. A tree whose last subtree turned
  // back has fewer than twice as many.
  const Tensor whole = astype(pow(2., astype(run.depth, float64)), int32);
  EXPECT_TRUE(bool(all(run.steps >= whole - 1)));
  EXPECT_TRUE(bool(all(run.steps < 2 * whole)));
  EXPECT_GE(min(run.steps).item<int>(), 1);
  // A trajectory turns back after half an orbit, which has length pi.
  EXPECT_LT(mean(astype(run.steps, float64)).item<double>() * mean(run.step_size).item<double>(), 2 * 3.15);

  const auto shallow = nuts(compile(standard_normal), zeros({20}), Key(0), {.warmup = 50, .draws = 50, .max_depth = 1});
  EXPECT_TRUE(bool(all(shallow.steps == 1)));
  EXPECT_TRUE(bool(all(shallow.depth <= 1)));
}

struct Heard : Handles<Progress> {
  std::vector<long> done;
  long total = 0;
  void handle(Progress& progress) override {
    done.push_back(progress.done);
    total = progress.total;
  }
};
TEST(Mcmc, ReportsItsProgress) {
  const auto log_p = [](const Tensor& x) { return -sum(x * x) / 2; };
  for (const int threads : {1, 2}) {
    Heard heard;
    with(heard, [&] {
      nuts(log_p, zeros({2}, float64), Key(0), {.chains = 3, .warmup = 20, .draws = 30, .threads = threads});
    });
    EXPECT_EQ(heard.total, 3 * 50);
    EXPECT_EQ(heard.done.back(), heard.total);
    EXPECT_EQ(std::count(heard.done.begin(), heard.done.end(), heard.total), 1);
    EXPECT_TRUE(std::is_sorted(heard.done.begin(), heard.done.end()));
    EXPECT_GT(heard.done.size(), 50u) << "again and again";
  }
}

TEST(Mcmc, WarmUpMayBeOmitted) {
  const auto run = nuts(compile(standard_normal), zeros({2}), Key(0), {.chains = 64, .warmup = 0, .draws = 200});
  expect_moments(run.draws(ellipsis, 0), {0, 1, 0}, "x");
  EXPECT_TRUE(array_equal(run.variance, ones({64, 2})));
}

// Where the density is 0 and its logarithm is -inf, trajectories diverge, so no draw lies there.
TEST(Mcmc, NoDrawLiesWhereTheDensityIsZero) {
  const auto density = [](const Tensor& x) { return where(x > 0, -x, tensor(-INFINITY)); };
  const auto run = nuts(compile(density), tensor(3.), Key(0), {.chains = 64, .warmup = 100, .draws = 100});
  EXPECT_GT(min(run.draws).item<double>(), 0);
  EXPECT_GT(run.divergences(), 100);
  const auto by_hmc = hmc(compile(density), tensor(3.), Key(0),
                          {.chains = 64, .warmup = 100, .draws = 100, .length = 1, .max_steps = 20});
  EXPECT_GT(min(by_hmc.draws).item<double>(), 0);
  EXPECT_GT(by_hmc.divergences(), 100);
  EXPECT_LE(max(by_hmc.steps).item<int>(), 20);
}

// The schedule is that of "Warmup" in Stan's reference manual: 75 draws, windows of 25, 50, 100,
// 200 and 500 draws, and 50 draws.
TEST(WarmUp, WindowsEqualStan) {
  const auto ends = [](Index warmup) {
    stave_detail::mcmc::Windows windows(warmup);
    std::vector<Index> found;
    for (Index i = 0; i < warmup; ++i)
      if (windows.ends_with(i)) found.push_back(i + 1);
    return found;
  };
  EXPECT_THAT(ends(1000), testing::ElementsAre(100, 150, 250, 450, 950));
  EXPECT_THAT(ends(150), testing::ElementsAre(100));
  EXPECT_THAT(ends(100), testing::ElementsAre(90));  // 15, 75 and 10 draws
  EXPECT_THAT(ends(19), testing::IsEmpty());
}

// ---- kinds of densities -------------------------------------------------------------------------

struct AskScale {
  using Result = double;
};
struct Scale : Handles<AskScale> {
  int asked = 0;
  double handle(AskScale&) override { return ++asked, 2; }
};

TEST(Mcmc, DensityMayBranchAndPerformEffects) {
  const NutsOptions options{.chains = 32, .warmup = 200, .draws = 300};
  // One half of a normal distribution of scale 1, and one half of scale 2.
  const auto density = [](const Tensor& x) {
    if (x > 0) return -square(x / perform(AskScale())) / 2;
    return -square(x) / 2;
  };
  Scale scale;
  const auto run = with(scale, [&] { return nuts(density, tensor(0.5), Key(0), options); });
  EXPECT_GT(scale.asked, 300);
  const double above = mean(astype(run.draws > 0, float64)).item<double>();
  EXPECT_NEAR(above, 2. / 3, 0.03);
}

TEST(Mcmc, Bfloat16StartGivesBfloat16Draws) {
  const auto run =
      nuts(compile(standard_normal), zeros({3}, bfloat16), Key(0), {.chains = 16, .warmup = 200, .draws = 200});
  EXPECT_EQ(run.draws.dtype(), bfloat16);
  EXPECT_NEAR(stave::std(astype(run.draws, float64)).item<double>(), 1, 0.1);
}

TEST(Mcmc, DrawsOnADeviceEqualThoseOnTheHost) {
  const NutsOptions options{.chains = 8, .warmup = 30, .draws = 20};
  const auto here = nuts(standard_normal, zeros({3}), Key(0), options);
  SeparateBackend backend{0};
  const auto there = nuts(standard_normal, zeros({3}, float32, cuda(0)), Key(0), options);
  EXPECT_EQ(there.draws.device(), cuda(0));
  EXPECT_EQ(there.variance.device(), cuda(0));
  EXPECT_TRUE(bytes_of(to(there.draws, cpu)) == bytes_of(here.draws));
}

// ---- errors -------------------------------------------------------------------------------------

TEST(Mcmc, Errors) {
  const auto run = [](const auto& density, const Tensor& start, const NutsOptions& options = {}) {
    return message_of<Error>([&] { nuts(density, start, Key(0), options); });
  };
  EXPECT_THAT(run([](const Tensor& x) { return -square(x); }, zeros({2})),
              HasSubstr("nuts: the log density has shape [2]; it must be one number: sum it"));
  EXPECT_THAT(run([](const Tensor& x) { return astype(sum(x), int32); }, zeros({2})),
              HasSubstr("nuts: the log density is int32; it must be of a floating dtype"));
  EXPECT_THAT(run(standard_normal, zeros({2}, int32)), HasSubstr("nuts: the start holds int32"));
  EXPECT_THAT(run(standard_normal, zeros({0})), HasSubstr("nuts: the start has no elements"));
  const auto nowhere = [](const Tensor& x) { return log(-square(x) - 1); };
  EXPECT_THAT(run(nowhere, zeros({})),
              HasSubstr("nuts: the log density is nan where chain 0 begins, after 100 attempts "
                        "within 2 of the start: it is not finite\n  inside nuts"));
  EXPECT_THAT(run(nowhere, zeros({}), {.spread = 0, .first_chain = 7}),
              HasSubstr("nuts: the log density is nan at the start of chain 7"));
  EXPECT_THAT(run([](const Tensor& x) { return sqrt(x); }, zeros({}), {.spread = 0}),
              HasSubstr("its gradient is not finite"));
  for (const NutsOptions& options :
       {NutsOptions{.chains = 0}, NutsOptions{.draws = 0}, NutsOptions{.warmup = -1}, NutsOptions{.target_accept = 1},
        NutsOptions{.max_depth = 0}, NutsOptions{.spread = -1}, NutsOptions{.first_chain = -1},
        NutsOptions{.threads = 0}})
    EXPECT_THAT(run(standard_normal, zeros({}), options), HasSubstr("nuts: "));
  EXPECT_THAT(message_of<Error>([] { hmc(standard_normal, zeros({}), Key(0), {.length = 0}); }),
              HasSubstr("hmc: trajectories have length 0, and at most 1000 steps; both must be positive"));
  const NamedTensors misspelt{{"mu", zeros({})}, {"tua", zeros({})}, {"eta", zeros({8})}};
  EXPECT_THAT(message_of<Error>([&] { nuts(density_of_schools(float32), misspelt, Key(0)); }), HasSubstr("\"tau\""));
}

TEST(Mcmc, ExceptionOfTheDensityPropagates) {
  int calls = 0;
  const auto density = [&](const Tensor& x) {
    if (++calls == 20) throw std::runtime_error("enough");
    return standard_normal(x);
  };
  EXPECT_THROW(nuts(density, zeros({2}), Key(0)), std::runtime_error);
  EXPECT_EQ(calls, 20);
}

}  // namespace mcmc_test
