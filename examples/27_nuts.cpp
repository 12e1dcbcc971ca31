// Three posteriors by the No-U-Turn Sampler, in 128 chains each: eight schools, a logistic
// regression of handwritten digits, and a funnel, whose neck the sampler cannot enter, which it
// reports. Each chain is a plain recursion with a tree of its own. The density is computed together
// for all chains that wait for it.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <iostream>
#include <limits>

#include <stave/stave.h>

#include "check.h"
#include "digits.h"

using namespace stave;

// ---- models -------------------------------------------------------------------------------------

// Rubin, "Estimation in parallel randomized experiments", 1981.
struct Schools {
  Tensor effects, errors;
};
void schools(const Schools& data) {
  const Tensor mu = sample("mu", Normal{0, 5}), tau = sample("tau", HalfCauchy{5});
  const Tensor eta = sample("eta", Normal{zeros({8}), 1});
  observe("y", Normal{mu + tau * eta, data.errors}, data.effects);
}

struct Digits16 {
  Tensor features, is_eight;
};
void logistic(const Digits16& data) {
  const Tensor bias = sample("bias", Normal{0, 2}), weights = sample("weights", Normal{zeros({16}), 1});
  observe("y", Bernoulli{matmul(data.features, weights) + bias}, data.is_eight);
}
// The digits 3 and 8. Each image is reduced to the means of 16 squares of 2x2 pixels.
Digits16 threes_and_eights() {
  const Digits digits = read_digits(STAVE_EXAMPLE_DATA "/digits.csv");
  const Tensor places = nonzero(logical_or(digits.labels == 3, digits.labels == 8))[0];
  const Tensor pixels = reshape(take(digits.pixels, places, 0), {places.size(), 4, 2, 4, 2});
  return {reshape(mean(pixels, {2, 4}), {places.size(), 16}), take(digits.labels, places, 0) == 8};
}

// Neal, "Slice sampling", 2003. The scale of x falls with v without bound.
void funnel() {
  const Tensor v = sample("v", Normal{0, 3});
  sample("x", Normal{zeros({9}), exp(v / 2)});
}
// The same distribution in the coordinates z, with x = exp(v / 2) z.
void funnel_without_neck() {
  sample("v", Normal{0, 3});
  sample("z", Normal{zeros({9}), 1});
}

// ---- inference ----------------------------------------------------------------------------------

// Returns the posterior's draws in the model's own parameters: tau, not its logarithm.
NamedTensors infer(const char* title, const std::function<void()>& model, const NamedTensors& start,
                   const NutsOptions& options) {
  const auto log_p = [&](const NamedTensors& u) { return unconstrained_log_density(model, u)(); };
  const auto begin = std::chrono::steady_clock::now();
  const auto run = nuts(compile(log_p), start, Key(0), options);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;

  const auto constrained = [&](const NamedTensors& u) { return constrain(model, u)(); };
  NamedTensors draws = vmap(vmap(constrained))(run.draws);
  std::cout << title << "\n" << summary_of(run, draws);
  double least = std::numeric_limits<double>::infinity();
  for (const auto& [name, sizes] : ess_bulk(draws)) least = std::min(least, min(sizes).item<double>());
  std::cout << static_cast<int>(least / seconds.count())
            << " effective draws a second, warm-up and compilation included\n\n";
  return draws;
}

void check_mean(const Tensor& draws, double mean, double sd, const char* what) {
  const double found = stave::mean(draws).item<double>(), error = sd / std::sqrt(ess_bulk(draws).item<double>());
  check(std::abs(found - mean) < 4 * error, what);
}

void infer_all() {
  const NutsOptions options{.chains = 128, .warmup = 200, .draws = 200};
  const Schools data{tensor({28., 8., -3., 7., -1., 1., 18., 12.}), tensor({15., 10., 16., 11., 9., 11., 10., 18.})};
  const NamedTensors drawn = infer(
      "eight schools", [&] { schools(data); }, {{"mu", zeros({})}, {"tau", zeros({})}, {"eta", zeros({8})}}, options);
  // The expected values come from quadrature: tests/data/mcmc.py.
  check_mean(drawn.at("mu"), 4.3968, 3.3177, "mu is that of quadrature");
  check_mean(log(drawn.at("tau")), 0.8021, 1.1712, "log tau is that of quadrature");
  for (const auto& [name, r] : rhat(drawn)) check(max(r).item<double>() < 1.02, "all chains found the same");

  const Digits16 digits = threes_and_eights();
  const NamedTensors regression =
      infer("the digits 3 and 8", [&] { logistic(digits); }, {{"bias", zeros({})}, {"weights", zeros({16})}},
            {.chains = 128, .warmup = 150, .draws = 50});
  check_mean(regression.at("bias"), 0.1809, 1.5234, "the bias is that of a long run of NumPyro's");
  check_mean(regression.at("weights")(ellipsis, 5), 3.7834, 0.5702, "so is a weight");

  const NamedTensors neck = infer("a funnel", funnel, {{"v", zeros({})}, {"x", zeros({9})}}, options);
  check(max(rhat(neck.at("v"))).item<double>() > 1.02, "chains did not find the same, and R-hat says so");
  const NamedTensors other =
      infer("the same by other parameters", funnel_without_neck, {{"v", zeros({})}, {"z", zeros({9})}}, options);
  check_mean(other.at("v"), 0, 3, "v has mean 0");
  check(std::abs(stave::std(other.at("v")).item<double>() - 3) < 0.1, "and a standard deviation of 3");
}

int main() { with(PrintProgress(), infer_all); }
