// Chains of elementwise operations: one after another, and recorded as one (handlers/elementwise_op.h). Beside them JAX, which compiles
// them, with a fresh result and, where it may, into its argument (peer_operations.py).
#include "bench.h"

namespace {

using namespace stave_bench;

constexpr Index large = Index{1} << 24, cached = Index{1} << 16;

// Eight operations that take no longer than memory does.
const auto cheap = [](const Tensor& x) { return square(maximum((x * 1.5 + 0.25) * x - 0.5, 0)) * x + 1; };
const auto with_functions = [](const Tensor& x) { return tanh(x * 0.5) * exp(-square(x)) + log(square(x) + 1); };
const auto fused_cheap_function = elementwise_op("cheap", cheap);
const auto fused_exp_function = elementwise_op("with_functions", with_functions);

template <class F>
void measure_chain(benchmark::State& state, F&& f, Index count) {
  const Tensor x = scattered({count});
  measure(state, [&] { return f(x); });
  state.counters["norm"] = norm(f(x)).template item<double>();
}

void eager_cheap(benchmark::State& state) { measure_chain(state, cheap, large); }
void fused_cheap(benchmark::State& state) { measure_chain(state, fused_cheap_function, large); }
void fused_exp(benchmark::State& state) { measure_chain(state, fused_exp_function, large); }
void fused_exp_cached(benchmark::State& state) { measure_chain(state, fused_exp_function, cached); }

BENCHMARK(eager_cheap)->UseRealTime();
BENCHMARK(fused_cheap)->UseRealTime();
BENCHMARK(fused_exp)->UseRealTime();
BENCHMARK(fused_exp_cached)->UseRealTime();

}  // namespace
