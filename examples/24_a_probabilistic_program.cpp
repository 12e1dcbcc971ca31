// A probabilistic program: eight schools (Rubin, "Estimation in parallel randomized experiments",
// 1981). The model says which values are drawn and which are observed. Handlers outside turn it
// into draws, a density, or the density's gradient. Hamiltonian Monte Carlo is a plain function of
// one chain, and vmap runs many chains.
#include <cmath>
#include <cstdint>
#include <iostream>
#include <vector>

#include <stave/stave.h>

#include "check.h"

using namespace stave;

struct Schools {
  Tensor effects, errors;
};

Tensor schools(const Schools& data) {
  const Tensor mu = sample("mu", Normal{0, 5}), tau = sample("tau", HalfCauchy{5});
  const Tensor eta = sample("eta", Normal{zeros({8}), 1});  // so that the density has no funnel
  const Tensor theta = mu + tau * eta;
  observe("y", Normal{theta, data.errors}, data.effects);
  return theta;
}

// Leapfrog steps of Hamilton's equations, and an acceptance step that preserves the density. Neal,
// "MCMC using Hamiltonian dynamics", 2011.
template <class LogDensity>
NamedTensors transition(const LogDensity& log_p, const NamedTensors& start, const Key& key, double step, int steps) {
  const auto [momentum_key, choice_key] = split(key);
  const auto [from, unravel] = ravel(start);
  const auto potential = [&, unravel = unravel](const Tensor& q) { return -log_p(unravel(q)); };
  const auto energy = [&](const Tensor& q, const Tensor& p) { return potential(q) + sum(square(p)) / 2; };
  Tensor q = from, p = normal(momentum_key, q.shape());
  const Tensor before = energy(q, p);
  p = p - step / 2 * grad(potential)(q);
  for (int i = 0; i < steps; ++i) {
    q = q + step * p;
    p = p - (i + 1 < steps ? step : step / 2) * grad(potential)(q);
  }
  const Tensor accepted = log(uniform(choice_key)) < before - energy(q, p);
  return unravel(where(accepted, q, from));
}

int main() {
  const Schools data{tensor({28., 8., -3., 7., -1., 1., 18., 12.}), tensor({15., 10., 16., 11., 9., 11., 10., 18.})};

  // Draws from the prior need only a key.
  const auto [theta, sites] = sites_of(seed(schools, Key(0)))(data);
  std::cout << "sites:";
  for (const auto& [name, site] : sites) std::cout << " " << name << (site.observed ? " (observed)" : "");
  std::cout << "\n";
  check(sites.size() == 4 && sites.at("y").observed && array_equal(sites.at("y").value, data.effects), "four sites");
  check(allclose(theta, sites.at("mu").value + sites.at("tau").value * sites.at("eta").value), "theta is of the sites");

  // The log density of given values. scipy.stats: norm(0, 5).logpdf(1.5) +
  // halfcauchy(scale=5).logpdf(2.25) + ...
  const NamedTensors values{{"mu", tensor(1.5)}, {"tau", tensor(2.25)}, {"eta", linspace(-1, 1, 8)}};
  const Tensor density = log_density(schools, values)(data);
  std::cout << "log density " << density << "\n";
  check(allclose(density, tensor(-44.80720565530797), 1e-6), "the density is SciPy's");

  // In unconstrained space tau is exp(u), so the density is defined on all of R^10.
  const auto log_p = [&](const NamedTensors& u) { return unconstrained_log_density(schools, u)(data); };
  const NamedTensors slope = grad(log_p)(unconstrain(schools, values)(data));
  std::cout << "its gradient by log tau " << slope.at("tau") << "\n";

  constexpr Index chains = 256;
  const auto one = [&](const NamedTensors& u, const Key& key) { return transition(log_p, u, key, 0.2, 8); };
  const auto all = compile(vmap(one));
  NamedTensors now{{"mu", zeros({chains})}, {"tau", zeros({chains})}, {"eta", zeros({chains, 8})}};
  std::vector<Tensor> mus, taus;
  const auto constrained = vmap([&](const NamedTensors& u) { return constrain(schools, u)(data); });
  for (std::uint64_t i = 0; i < 120; ++i) {
    now = all(now, Key(split(Key(i), chains)));
    if (i < 20) continue;
    const NamedTensors drawn = constrained(now);
    mus.push_back(drawn.at("mu"));
    taus.push_back(log(drawn.at("tau")));
  }
  const double mu = mean(stack(mus)).item<double>(), log_tau = mean(stack(taus)).item<double>();
  std::cout << "posterior means: mu " << mu << ", log tau " << log_tau << "\n";
  // By quadrature over mu and tau, with theta integrated out, the means are 4.3968 and 0.8021, and
  // the standard deviations 3.3 and 1.2.
  check(std::abs(mu - 4.3968) < 0.2 && std::abs(log_tau - 0.8021) < 0.1, "the posterior is that of quadrature");
}
