// The No-U-Turn Sampler, 128 chains, beside NumPyro's (peer_nuts.py): the time for an effective
// draw of the coordinate with the fewest, warm-up included. Stave's time includes compilation;
// NumPyro's excludes it, because it takes longer than everything else. The models are those of
// examples/27.
#include <sched.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "../../examples/digits.h"
#include "bench.h"

namespace {

using namespace stave_bench;

struct Schools {
  Tensor effects = tensor({28., 8., -3., 7., -1., 1., 18., 12.}),
         errors = tensor({15., 10., 16., 11., 9., 11., 10., 18.});
  void operator()() const {
    const Tensor mu = sample("mu", Normal{0, 5}), tau = sample("tau", HalfCauchy{5});
    const Tensor eta = sample("eta", Normal{zeros({8}), 1});
    observe("y", Normal{mu + tau * eta, errors}, effects);
  }
};

// The digits 3 and 8, with the means of 16 squares of 2x2 pixels as features.
struct Logistic {
  Tensor features, is_eight;
  Logistic() {
    const Digits digits = read_digits("examples/data/digits.csv");
    const Tensor places = nonzero(logical_or(digits.labels == 3, digits.labels == 8))[0];
    const Tensor pixels = reshape(take(digits.pixels, places, 0), {places.size(), 4, 2, 4, 2});
    features = reshape(mean(pixels, {2, 4}), {places.size(), 16});
    is_eight = take(digits.labels, places, 0) == 8;
  }
  void operator()() const {
    const Tensor bias = sample("bias", Normal{0, 2}), weights = sample("weights", Normal{zeros({16}), 1});
    observe("y", Bernoulli{matmul(features, weights) + bias}, is_eight);
  }
};

struct Funnel {
  void operator()() const {
    const Tensor v = sample("v", Normal{0, 3});
    sample("x", Normal{zeros({9}), exp(v / 2)});
  }
};

/// Returns the number of cores that this process may use.
int cores() {
  cpu_set_t allowed;
  return sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
}

template <class Model>
void measure_nuts(benchmark::State& state, const NamedTensors& start) {
  const Model model;
  const auto log_p = compile([&](const NamedTensors& u) { return unconstrained_log_density(model, u)(); });
  const NutsOptions options{.chains = 128, .warmup = 100, .draws = 100, .threads = cores()};
  const auto draws = [&](std::uint64_t seed) { return nuts(log_p, start, Key(seed), options).draws; };
  settle();
  draws(0);  // records the program and wakes the threads
  double effective = 0;
  std::uint64_t seed = 0;
  for (auto _ : state) {
    const NamedTensors drawn = draws(++seed);
    state.PauseTiming();
    double least = std::numeric_limits<double>::infinity();
    for (const auto& [name, sizes] : ess_bulk(drawn)) least = std::min(least, min(sizes).template item<double>());
    effective += least;
    state.ResumeTiming();
  }
  using benchmark::Counter;
  state.counters["per_op"] = Counter(effective, Counter::kIsRate | Counter::kInvert);
}

void nuts_schools(benchmark::State& state) {
  measure_nuts<Schools>(state, {{"mu", zeros({})}, {"tau", zeros({})}, {"eta", zeros({8})}});
}
void nuts_logistic(benchmark::State& state) {
  measure_nuts<Logistic>(state, {{"bias", zeros({})}, {"weights", zeros({16})}});
}
void nuts_funnel(benchmark::State& state) { measure_nuts<Funnel>(state, {{"v", zeros({})}, {"x", zeros({9})}}); }

BENCHMARK(nuts_schools)->UseRealTime();
BENCHMARK(nuts_logistic)->UseRealTime();
BENCHMARK(nuts_funnel)->UseRealTime();

}  // namespace
