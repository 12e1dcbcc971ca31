// The cost of an operation under each handler: the time for each operation of a chain on single
// numbers, whose arithmetic is negligible. The baseline is `plain`: the same chain without a
// handler.
#include "bench.h"

namespace {

using namespace stave_bench;

constexpr int length = 1000;

Tensor chain_of(int operations, const Tensor& x) {
  static const Tensor factor = tensor(1.0001f);
  Tensor y = x;
  for (int i = 0; i < operations; ++i) y = y * factor;
  return y;
}
Tensor chain(const Tensor& x) { return chain_of(length, x); }

template <class F>
void measure_chain(benchmark::State& state, const F& f, const Tensor& x = tensor(1.f), int operations = length) {
  measure(
      state, [&] { return f(x); }, operations);
}

// ---- no handler ---------------------------------------------------------------------------------

void plain(benchmark::State& state) { measure_chain(state, chain); }

void scalar_add(benchmark::State& state) {
  const Tensor one = tensor(1.f);
  measure_chain(state, [&](const Tensor& x) {
    Tensor y = x;
    for (int i = 0; i < length; ++i) y = y + one;
    return y;
  });
}

void scalar_add_literal(benchmark::State& state) {
  measure_chain(state, [](const Tensor& x) {
    Tensor y = x;
    for (int i = 0; i < length; ++i) y = y + 1.0f;
    return y;
  });
}

void broadcast_add(benchmark::State& state) {
  const Tensor column = ones({4, 1}), row = ones({1, 4});
  measure_chain(state, [&](const Tensor&) {
    Tensor y;
    for (int i = 0; i < length; ++i) y = column + row;
    return y;
  });
}

// ---- user-defined handlers ----------------------------------------------------------------------

struct CountOps : Handler {
  long count = 0;
  Outputs handle(Call& call) override {
    ++count;
    return perform(std::move(call));
  }
};

struct Question {
  using Result = int;
};
struct AnswersQuestions : Handles<Question> {
  int handle(Question&) override { return 42; }
};

/// Runs f under `depth` handlers of type H.
template <class H, class F>
Tensor nested(const F& f, const Tensor& x, int depth) {
  if (depth == 0) return f(x);
  H handler;
  return with(handler, [&] { return nested<H>(f, x, depth - 1); });
}

void forwarders(benchmark::State& state) {
  const int depth = static_cast<int>(state.range(0));
  measure_chain(state, [&](const Tensor& x) { return nested<CountOps>(chain, x, depth); });
}

void idle_handlers(benchmark::State& state) {
  const int depth = static_cast<int>(state.range(0));
  measure_chain(state, [&](const Tensor& x) { return nested<AnswersQuestions>(chain, x, depth); });
}

/// Two concurrent computations, where each operation ends a turn.
void turns(benchmark::State& state) {
  const auto both = [](const Tensor& x) {
    return std::get<0>(concurrently([&] { return chain(x); }, [&] { return chain(x); }));
  };
  measure_chain(state, both, tensor(1.f), 2 * length);
}

void install(benchmark::State& state) {
  CountOps counting;
  Handler* handler = &counting;
  // Hides the handler's type from the compiler, so that the virtual call stays.
  benchmark::DoNotOptimize(handler);
  settle();
  for (auto _ : state) with(*handler, [] { benchmark::ClobberMemory(); });
  count_operations(state, 1);
}

// ---- transforms ---------------------------------------------------------------------------------

void grad_chain(benchmark::State& state) { measure_chain(state, grad(chain)); }
/// A chain as long as a program of many steps: the tape has left the caches by the time the
/// backward pass reads it.
void grad_chain_100k(benchmark::State& state) {
  constexpr int many = 100'000;
  const auto f = [](const Tensor& x) { return chain_of(many, x); };
  measure_chain(state, grad(f), tensor(1.f), many);
}
void jvp_chain(benchmark::State& state) {
  measure_chain(state, [](const Tensor& x) { return jvp(chain, x, x).second; });
}
void vmap_chain(benchmark::State& state) { measure_chain(state, vmap(chain), ones({16})); }
void vmap_grad_chain(benchmark::State& state) { measure_chain(state, vmap(grad(chain)), ones({16})); }
void grad_grad_chain(benchmark::State& state) { measure_chain(state, grad(grad(chain))); }
/// Second derivatives of a power of x. The chain above is linear in x, so that its outer backward
/// pass has nothing to do; here each multiplication becomes fourteen operations.
void grad_grad_power(benchmark::State& state) {
  const auto power = [](const Tensor& x) {
    Tensor y = x;
    for (int i = 0; i < length; ++i) y = y * x;
    return y;
  };
  measure_chain(state, grad(grad(power)), tensor(1.0001f));
}

BENCHMARK(plain)->UseRealTime();
BENCHMARK(scalar_add)->UseRealTime();
BENCHMARK(scalar_add_literal)->UseRealTime();
BENCHMARK(broadcast_add)->UseRealTime();
BENCHMARK(forwarders)->Arg(1)->Arg(10)->UseRealTime();
BENCHMARK(idle_handlers)->Arg(9)->UseRealTime();
BENCHMARK(turns)->UseRealTime();
BENCHMARK(install)->UseRealTime();
BENCHMARK(grad_chain)->UseRealTime();
BENCHMARK(grad_chain_100k)->UseRealTime();
BENCHMARK(jvp_chain)->UseRealTime();
BENCHMARK(vmap_chain)->UseRealTime();
BENCHMARK(vmap_grad_chain)->UseRealTime();
BENCHMARK(grad_grad_chain)->UseRealTime();
BENCHMARK(grad_grad_power)->UseRealTime();

}  // namespace
