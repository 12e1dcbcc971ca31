// What an operation costs, by handler: time for each operation of a chain of scalar multiplications.
//
//   build/ci/tests/stave_bench                  (cmake --preset ci; medians: --benchmark_repetitions=9)
//
// The counter `per_op` is the figure; `plain` is the baseline of the same run: the same chain with no handler.

#include <benchmark/benchmark.h>

#include <stave/stave.h>

using namespace stave;

namespace {

constexpr int length = 1000;

struct Forward : Handler {
  Outputs handle(Call& call) override { return perform(std::move(call)); }
};

Tensor chain(const Tensor& x) {
  static const Tensor factor = tensor(1.0001f);
  Tensor y = x;
  for (int i = 0; i < length; ++i) y = y * factor;
  return y;
}

void count_operations(benchmark::State& state) {
  state.counters["per_op"] =
      benchmark::Counter(length, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

template <class F>
void measure(benchmark::State& state, F f, const Tensor& x = tensor(1.f)) {
  for (auto _ : state) benchmark::DoNotOptimize(f(x));
  count_operations(state);
}

void plain(benchmark::State& state) { measure(state, chain); }

void literal(benchmark::State& state) {
  measure(state, [](const Tensor& x) {
    Tensor y = x;
    for (int i = 0; i < length; ++i) y = y + 1.0f;
    return y;
  });
}

void broadcast(benchmark::State& state) {
  const Tensor column = ones({4, 1}), row = ones({1, 4});
  measure(state, [&](const Tensor&) {
    Tensor y;
    for (int i = 0; i < length; ++i) y = column + row;
    return y;
  });
}

// `depth` user-written handlers that pass everything on.
template <class F>
Tensor nested(F f, const Tensor& x, int depth) {
  if (depth == 0) return f(x);
  Forward forward;
  return with(forward, [&] { return nested(f, x, depth - 1); });
}
void forwarders(benchmark::State& state) {
  measure(state, [&](const Tensor& x) { return nested(chain, x, static_cast<int>(state.range(0))); });
}

void grad_chain(benchmark::State& state) { measure(state, grad(chain)); }
void jvp_chain(benchmark::State& state) {
  measure(state, [](const Tensor& x) { return jvp(chain, x, x).second; });
}
void vmap_chain(benchmark::State& state) { measure(state, vmap(chain), ones({16})); }
void vmap_grad_chain(benchmark::State& state) { measure(state, vmap(grad(chain)), ones({16})); }
void grad_grad_chain(benchmark::State& state) { measure(state, grad(grad(chain))); }

BENCHMARK(plain);
BENCHMARK(literal);
BENCHMARK(broadcast);
BENCHMARK(forwarders)->Arg(1)->Arg(10);
BENCHMARK(grad_chain);
BENCHMARK(jvp_chain);
BENCHMARK(vmap_chain);
BENCHMARK(vmap_grad_chain);
BENCHMARK(grad_grad_chain);

}  // namespace
