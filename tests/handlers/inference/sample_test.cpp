// Probabilistic programs: sites and their handlers, and factors of the density.
#include <cmath>

#include <stave/stave.h>

#include "matchers.h"

namespace sample_test {

using namespace stave;
using namespace stave_test;
using testing::ElementsAre;
using testing::HasSubstr;

using T = const Tensor&;

// The data come from Rubin, "Estimation in parallel randomized experiments", 1981.
const std::vector<double> effects{28, 8, -3, 7, -1, 1, 18, 12}, errors{15, 10, 16, 11, 9, 11, 10, 18};
Tensor schools() {
  const Tensor mu = sample("mu", Normal{0, 5}), tau = sample("tau", HalfCauchy{5});
  const Tensor theta = sample("theta", Normal{broadcast_to(mu, {8}), tau});
  observe("y", Normal{theta, from(errors)}, from(effects));
  return theta;
}
NamedTensors values() {
  return {{"mu", tensor(1.5, float64)}, {"tau", tensor(2.25, float64)}, {"theta", linspace(-2, 5, 8, float64)}};
}

// The value comes from scipy.stats:
//   norm(0, 5).logpdf(mu) + halfcauchy(scale=5).logpdf(tau)
//   + norm(mu, tau).logpdf(theta).sum() + norm(theta, errors).logpdf(effects).sum()
constexpr double log_density_of_values = -53.825642406377376;

TEST(LogDensity, IsTheSumOfAllSites) {
  EXPECT_THAT(log_density(schools, values())(), IsNumber(log_density_of_values, 1e-13));
}

TEST(LogDensity, IsDifferentiableByTheValues) {
  const auto f = [](const NamedTensors& v) { return log_density(schools, v)(); };
  const auto by_mu = [&](T mu) {
    NamedTensors v = values();
    v["mu"] = mu;
    return f(v);
  };
  EXPECT_THAT(grad(f)(values()).at("mu"), IsNear(differences(by_mu, tensor(1.5, float64)), 1e-8));
  NamedTensors many;
  for (const auto& [name, value] : values()) many[name] = stack({value, value * 2., value * 3.});
  const Tensor densities = vmap(f)(many);
  for (Index i = 0; i < 3; ++i) {
    const NamedTensors one = tree_map([&](T v) { return v[i]; }, many);
    EXPECT_THAT(densities[i], IsNear(f(one)));
    EXPECT_THAT(vmap(grad(f))(many).at("theta")[i], IsNear(grad(f)(one).at("theta")));
  }
  const auto compiled = compile(grad(f));
  EXPECT_THAT(compiled(values()).at("tau"), IsNear(grad(f)(values()).at("tau")));
  EXPECT_THAT(compiled(tree_map([](T v) { return v * 2.; }, values())).at("tau"),
              IsNear(grad(f)(tree_map([](T v) { return v * 2.; }, values())).at("tau")));
  EXPECT_EQ(compiled.recordings(), 1u);
  const auto checkpointed = [](const NamedTensors& v) { return log_density(checkpoint(schools), v)(); };
  EXPECT_THAT(checkpointed(values()), IsNear(f(values())));
  EXPECT_THAT(grad(checkpointed)(values()).at("tau"), IsNear(grad(f)(values()).at("tau")));
}

TEST(Sample, InACompiledFunctionUsesHandlersInstalledLater) {
  const auto drawn = compile([](T x) { return seed([](T y) { return sample("y", Normal{y, 1}); }, Key(3))(x); });
  const Tensor x = tensor(0.5), alone = drawn(x);
  EXPECT_THAT(drawn(x), Equals(alone));
  EXPECT_EQ(drawn.recordings(), 1u);
  EXPECT_THAT(substitute(drawn, {{"y", tensor(7.)}})(x), Equals(tensor(7.)));
  EXPECT_THAT(drawn(x), Equals(alone));
}

TEST(LogDensity, SumsOverTheLanesOfSitesUnderVmap) {
  const auto lanes = [](T xs, T ys) {
    const Tensor slope = sample("slope", Normal{0, 10});
    return vmap([&](T x, T y) {
      observe("y", Normal{slope * x, 0.5}, y);
      return y;
    })(xs, ys);
  };
  const Tensor xs = tensor({1., 2., 3.}, float64), ys = tensor({2., 3., 7.}, float64), slope = tensor(1.75, float64);
  const auto by_hand = [&](T s) { return Normal{0, 10}.log_prob(s) + sum(Normal{s * xs, 0.5}.log_prob(ys)); };
  const auto f = [&](T s) { return log_density(lanes, {{"slope", s}})(xs, ys); };
  EXPECT_THAT(f(slope), IsNear(by_hand(slope)));
  EXPECT_THAT(grad(f)(slope), IsNear(grad(by_hand)(slope)));
}

TEST(LogDensity, ErrorsNameMissingAndExtraSites) {
  NamedTensors less = values(), more = values();
  less.erase("tau");
  more["rho"] = tensor(1.);
  EXPECT_THAT(message_of<Error>([&] { log_density(schools, less)(); }),
              HasSubstr("log_density: the site \"tau\" is latent, and is given no value"));
  EXPECT_THAT(message_of<Error>([&] { log_density(schools, more)(); }),
              HasSubstr("log_density: there is no latent site \"rho\" without a value here"));
  const auto twice = [] { return sample("x", Normal{}) + sample("x", Normal{}); };
  EXPECT_THAT(message_of<Error>([&] { log_density(twice, {{"x", tensor(0.)}})(); }), HasSubstr("\"x\" is sown twice"));
}

TEST(Unconstrained, DensitiesIncludeTheJacobianDeterminants) {
  const auto f = [](const NamedTensors& v) { return unconstrained_log_density(schools, v)(); };
  NamedTensors u = values();
  u["tau"] = log(u["tau"]);
  EXPECT_THAT(f(u), IsNumber(log_density_of_values + std::log(2.25), 1e-13));
  EXPECT_THAT(constrain(schools, u)().at("tau"), IsNear(values().at("tau")));
  EXPECT_THAT(unconstrain(schools, values())().at("tau"), IsNear(u.at("tau")));
  EXPECT_THAT(constrain(schools, u)().size(), 3u);
  const auto by_tau = [&](T tau) {
    NamedTensors v = u;
    v["tau"] = tau;
    return f(v);
  };
  EXPECT_THAT(grad(f)(u).at("tau"), IsNear(differences(by_tau, u.at("tau")), 1e-7));
  const auto coin = [] { return sample("c", Bernoulli{0.}); };
  EXPECT_THAT(message_of<TransformError>([&] {
                unconstrained_log_density(coin, {{"c", tensor(0.)}})();
              }),
              HasSubstr("a discrete distribution has no map from R^n"));
}

// The support of x depends on another site. A point of the simplex has one more element
// than its unconstrained vector.
TEST(Unconstrained, SupportsMayDependOnOtherSites) {
  const auto model = [] {
    const Tensor high = sample("high", Exponential{1}), x = sample("x", Uniform{0, high});
    sample("p", Dirichlet{tensor({1., 2., 3.}, float64)});
    return x;
  };
  const NamedTensors u{
      {"high", tensor(0.5, float64)}, {"x", tensor(-1., float64)}, {"p", tensor({0.25, -2.}, float64)}};
  const NamedTensors x = constrain(model, u)();
  EXPECT_THAT(x.at("x"), IsNear(exp(u.at("high")) * sigmoid(u.at("x"))));
  EXPECT_EQ(x.at("p").shape(), Shape({3}));
  const NamedTensors back = unconstrain(model, x)();
  for (const auto& [name, value] : u) EXPECT_THAT(back.at(name), IsNear(value, 1e-10));
  const Tensor determinants =
      u.at("high") + log(x.at("x") * (1. - x.at("x") / x.at("high"))) + Support::simplex().log_det(u.at("p"));
  EXPECT_THAT(unconstrained_log_density(model, u)(), IsNear(log_density(model, x)() + determinants, 1e-10));
}

TEST(Sites, ListTheSitesOfARun) {
  const auto [theta, sites] = sites_of(seed(schools, Key(1)))();
  std::vector<std::string> names;
  for (const auto& [name, site] : sites) names.push_back(name);
  EXPECT_THAT(names, ElementsAre("mu", "tau", "theta", "y"));
  EXPECT_TRUE(sites.at("y").observed);
  EXPECT_FALSE(sites.at("mu").observed);
  EXPECT_THAT(sites.at("theta").value, Equals(theta));
  EXPECT_THAT(sites.at("mu").log_prob, IsNear(Normal{0, 5}.log_prob(sites.at("mu").value)));
  NamedTensors drawn;
  for (const auto& [name, site] : sites)
    if (!site.observed) drawn[name] = site.value;
  Tensor total = zeros({}, float64);
  for (const auto& [name, site] : sites) total = total + site.log_prob;
  EXPECT_THAT(log_density(schools, drawn)(), IsNear(total, 1e-5));
  const SampleSites alone = sites_of(seed([] { sample("x", Normal{}); }, Key(1)))();
  EXPECT_THAT(alone.at("x").value, Equals(Normal{}.sample(Key(split(Key(1), 1)[0]))));
}

TEST(Sites, UnderVmapAreStacked) {
  const auto prior = [](T scale) { return sample("x", Normal{0, scale}); };
  const Tensor scales = tensor({1., 10.});
  const auto [x, sites] = sites_of(seed(vmap_with_keys(prior), Key(1)))(scales);
  EXPECT_THAT(sites.at("x").value, Equals(x));
  EXPECT_EQ(sites.at("x").log_prob.shape(), Shape({2}));
  const auto [y, of_lanes] = vmap([&](const Key& key, T s) { return sites_of(seed(prior, key))(s); })(
      Key(split(Key(split(Key(1), 1)[0]), 2)), scales);
  EXPECT_THAT(of_lanes.at("x").value, Equals(x));
}

// ---- factors ------------------------------------------------------------------------------------

// A coin shows heads with probability p, where p has the prior Beta{3, 2}. It is thrown seven
// times, and one of the throws was not seen.
void coin_with_an_unseen_throw() {
  const Tensor p = sample("p", Beta{tensor(3., float64), tensor(2., float64)});
  factor("seen", 4. * log(p) + 2. * log1p(-p));
  const Tensor of_heads = tensor(std::log(0.9), float64), of_tails = tensor(std::log(0.2), float64);
  factor("unseen", logsumexp(stack({log(p) + of_heads, log1p(-p) + of_tails})));
}
// log of p^2 (1 - p) / B(3, 2) * p^4 (1 - p)^2 * (0.9 p + 0.2 (1 - p)), where 1 / B(3, 2) = 12.
double log_density_of_coin(double p) {
  return std::log(12) + 6 * std::log(p) + 3 * std::log(1 - p) + std::log(0.9 * p + 0.2 * (1 - p));
}

TEST(Factor, IsATermOfTheLogDensity) {
  for (const double p : {0.1, 0.4, 0.75}) {
    const NamedTensors values{{"p", tensor(p, float64)}};
    EXPECT_THAT(log_density(coin_with_an_unseen_throw, values)(), IsNumber(log_density_of_coin(p), 1e-12));
    const auto by_p = [](T x) { return log_density(coin_with_an_unseen_throw, {{"p", x}})(); };
    const double slope = 6 / p - 3 / (1 - p) + 0.7 / (0.9 * p + 0.2 * (1 - p));
    EXPECT_THAT(grad(by_p)(tensor(p, float64)), IsNumber(slope, 1e-10));
  }
  const Tensor ps = tensor({0.1, 0.4, 0.75}, float64);
  const Tensor many = vmap([](T p) { return log_density(coin_with_an_unseen_throw, {{"p", p}})(); })(ps);
  EXPECT_THAT(many(1), IsNumber(log_density_of_coin(0.4), 1e-12));
  // In unconstrained space the logarithm of dp/du = p (1 - p) is added.
  const Tensor u = tensor(std::log(0.4 / 0.6), float64);
  EXPECT_THAT(unconstrained_log_density(coin_with_an_unseen_throw, {{"p", u}})(),
              IsNumber(log_density_of_coin(0.4) + std::log(0.4 * 0.6), 1e-12));
}

TEST(Factor, IsAnObservedSite) {
  const SampleSites sites = sites_of(seed(coin_with_an_unseen_throw, Key(3)))();
  const double p = sites.at("p").value.item<double>();
  EXPECT_THAT(sites.at("seen").log_prob, IsNumber(4 * std::log(p) + 2 * std::log(1 - p), 1e-12));
  EXPECT_TRUE(sites.at("unseen").observed);
  double sum = 0;
  for (const auto& [name, site] : sites) sum += site.log_prob.item<double>();
  EXPECT_NEAR(sum, log_density_of_coin(p), 1e-12);
  const auto conditioned = condition(coin_with_an_unseen_throw, {{"p", tensor(0.4, float64)}});
  EXPECT_THAT(log_density(conditioned, {})(), IsNumber(log_density_of_coin(0.4), 1e-12));
  const auto replayed = sites_of(replay(coin_with_an_unseen_throw, sites))();
  EXPECT_THAT(replayed.at("unseen").log_prob, Equals(sites.at("unseen").log_prob));
  const auto blocked = block_sites(coin_with_an_unseen_throw, {"seen"});
  EXPECT_THAT(log_density(blocked, {{"p", tensor(0.4, float64)}})(),
              IsNumber(log_density_of_coin(0.4) - 4 * std::log(0.4) - 2 * std::log(0.6), 1e-12));
  EXPECT_THAT(message_of<Error>([] {
                condition(coin_with_an_unseen_throw, {{"p", ones({})}, {"seen", ones({})}})();
              }),
              HasSubstr("there is no latent site \"seen\" without a value"));
}

TEST(Factor, SumsArraysAndLanesAndHasScopes) {
  const auto model = [](T x) {
    const Scope scope("group");
    vmap([](T lane) {
      factor("lanes", -square(lane));
      return lane;
    })(x);
    factor("array", x);
  };
  const Tensor x = tensor({1., 2., 3.}, float64);
  EXPECT_THAT(log_density(model, {})(x), IsNumber(-14 + 6, 1e-12));
  EXPECT_THAT(sites_of(model)(x).at("group/array").value, Equals(x));
  EXPECT_THAT(log_density([] { factor("never", tensor(-INFINITY)); }, {})(), IsNumber(-INFINITY));
  CountOps count;
  with(count, [&] { factor("alone", x); });  // no handler asks for factors
  EXPECT_EQ(count.n, 0);
}

TEST(Factor, Errors) {
  EXPECT_THAT(message_of<DtypeError>([] {
                factor("n", tensor({1, 2}));
              }),
              HasSubstr("factor: the logarithm of the density at \"n\" is int32 [2]; it must be of a floating dtype"));
  EXPECT_THAT(message_of<Error>([] { factor("n", Tensor()); }), HasSubstr("factor"));
  EXPECT_THAT(message_of<Error>([] {
                log_density(
                    [] {
                      factor("a", ones({}));
                      factor("a", ones({}));
                    },
                    {})();
              }),
              HasSubstr("\"a\""));
}

TEST(Factor, IsSampledByHamiltonianMonteCarlo) {
  // Beta{3, 2} times p^4 (1 - p)^2 is Beta{7, 4}, with mean 7 / 11 and variance 28 / (121 * 12).
  const auto coin = [] {
    const Tensor p = sample("p", Beta{tensor(3., float64), tensor(2., float64)});
    factor("seen", 4. * log(p) + 2. * log1p(-p));
  };
  const auto log_p = [&](const NamedTensors& u) { return unconstrained_log_density(coin, u)(); };
  const auto run = nuts(compile(log_p), NamedTensors{{"p", tensor(0., float64)}}, Key(0),
                        {.chains = 8, .warmup = 200, .draws = 500});
  const Tensor p = sigmoid(run.draws.at("p"));
  EXPECT_NEAR(mean(p).item<double>(), 7. / 11, 0.02);
  EXPECT_NEAR(mean(square(p - 7. / 11)).item<double>(), 28. / (121 * 12), 0.003);
}

TEST(Sample, WithoutAKeyIsAnError) {
  EXPECT_THAT(message_of<Error>([] { schools(); }), HasSubstr("next_key: no handler provides keys"));
}

TEST(Handlers, SubstituteConditionReplayBlock) {
  const auto model = [] {
    const Scope scope("group");
    const Tensor a = sample("a", Normal{});
    return sample("b", Normal{a, 1});
  };
  const Tensor two = tensor(2.);
  const auto latent = sites_of(seed(substitute(model, {{"group/a", two}}), Key(1)))().second;
  EXPECT_THAT(latent.at("group/a").value, Equals(two));
  EXPECT_FALSE(latent.at("group/a").observed);
  const auto observed = sites_of(seed(condition(model, {{"group/a", two}}), Key(1)))().second;
  EXPECT_THAT(observed.at("group/a").value, Equals(two));
  EXPECT_TRUE(observed.at("group/a").observed);
  EXPECT_THAT(log_density(condition(model, {{"group/a", two}}), {{"group/b", two}})(),
              IsNear(Normal{}.log_prob(two) + Normal{}.log_prob(tensor(0.))));
  const auto first = sites_of(seed(model, Key(1)))().second;
  const auto again = sites_of(seed(replay(model, first), Key(2)))().second;
  EXPECT_THAT(again.at("group/b").value, Equals(first.at("group/b").value));
  const auto hidden = sites_of(seed(block_sites(model, {"group/a"}), Key(1)))().second;
  EXPECT_EQ(hidden.size(), 1u);
  // Both draws are the same.
  EXPECT_THAT(hidden.at("group/b").value, Equals(first.at("group/b").value));
  EXPECT_TRUE(sites_of(seed(block_sites(model), Key(1)))().second.empty());
  EXPECT_THAT(message_of<Error>([&] {
                seed(condition(model, {{"a", two}}), Key(1))();
              }),
              HasSubstr("condition: there is no latent site \"a\" without a value"));
  EXPECT_THAT(message_of<Error>([&] {
                seed(condition(condition(model, {{"group/a", two}}), {{"group/a", two}}), Key(1))();
              }),
              HasSubstr("condition: there is no latent site \"group/a\" without a value here"));
}

// A user's class can be a distribution.
struct Point {
  Tensor at;
  Tensor log_prob(T x) const { return where(x == at, 0., -std::numeric_limits<double>::infinity()); }
  Tensor sample(const Key&, const Shape&) const { return at; }
  Support support() const { return Support::real(); }
};
TEST(Sample, DistributionMayBeAUsersClass) {
  EXPECT_THAT(seed([] { return sample("x", Point{tensor(3.)}); }, Key(0))(), IsNumber(3));
}

// Hamiltonian Monte Carlo of many chains with the density of unconstrained_log_density. The
// posterior of a normal mean with a normal prior is known. Its precision is 1 / 4 + 3 / 1, and its
// mean is (1 + 2 + 3) / precision.
TEST(Programs, AreSampledByHamiltonianMonteCarlo) {
  const auto model = [](T ys) {
    const Tensor m = sample("m", Normal{0, 2});
    observe("y", Normal{m, 1}, ys);
    return m;
  };
  const Tensor ys = tensor({1., 2., 3.});
  const auto log_p = [&](const NamedTensors& u) { return unconstrained_log_density(model, u)(ys); };
  const auto transition = [&](const NamedTensors& from_, const Key& key) {
    const auto [of_momentum, of_choice] = split(key);
    Tensor m = from_.at("m"), momentum = normal(of_momentum);
    const auto slope = [&](T at) { return grad(log_p)(NamedTensors{{"m", at}}).at("m"); };
    const Tensor before = log_p(from_) - square(momentum) / 2;
    momentum = momentum + 0.1 * slope(m);
    for (int step = 0; step < 4; ++step) {
      m = m + 0.2 * momentum;
      momentum = momentum + (step < 3 ? 0.2 : 0.1) * slope(m);
    }
    const Tensor after = log_p({{"m", m}}) - square(momentum) / 2;
    return NamedTensors{{"m", where(log(uniform(of_choice)) < after - before, m, from_.at("m"))}};
  };
  const auto step = compile(vmap(transition));
  NamedTensors chains{{"m", zeros({2000})}};
  for (std::uint64_t i = 0; i < 20; ++i) chains = step(chains, Key(split(Key(i), 2000)));
  const double precision = 0.25 + 3, n = 2000;
  EXPECT_NEAR(mean(chains.at("m")).item<double>(), 6 / precision, 5 / std::sqrt(precision * n));
  EXPECT_NEAR(var(chains.at("m")).item<double>(), 1 / precision, 5 * std::sqrt(2 / n) / precision);
}

}  // namespace sample_test
