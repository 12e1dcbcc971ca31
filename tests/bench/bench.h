// Definitions shared by the benchmarks.
#pragma once

#include <benchmark/benchmark.h>

#include <chrono>
#include <cmath>
#include <ctime>
#include <thread>

#include <stave/stave.h>

namespace stave_bench {

using namespace stave;

/// Sets the counter `per_op`: the time for each of `count` operations in an iteration.
inline void count_operations(benchmark::State& state, int count) {
  using benchmark::Counter;
  state.counters["per_op"] = Counter(count, Counter::kIsIterationInvariantRate | Counter::kInvert);
}

/// Waits until no thread of this process works any more. Threads of OpenBLAS and oneTBB spin for a
/// while after their work, and would take cores from the next measurement.
inline void settle() {
  constexpr int most_waits = 200;
  for (int i = 0; i < most_waits; ++i) {
    const std::clock_t before = std::clock();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (std::clock() - before < CLOCKS_PER_SEC / 1000) return;
  }
}

/// Measures f(), which performs `operations` operations. The destruction of its result is part of
/// the measured time.
template <class F>
void measure(benchmark::State& state, F&& f, int operations = 1) {
  settle();
  { [[maybe_unused]] auto first = f(); }  // wakes the threads and fills the caches
  for (auto _ : state) {
    auto result = f();
    benchmark::DoNotOptimize(result);
  }
  count_operations(state, operations);
}

/// Measures f. The counter `norm` is the norm of f's results, all leaves together; the peers' norms
/// must agree with it.
template <class F, class... A>
void compare(benchmark::State& state, const F& f, const A&... arguments) {
  double squares = 0;
  f(arguments...);  // records f; the next call is a replay
  for (const Tensor& x : tree_leaves(f(arguments...)))
    squares += std::pow(norm(astype(x, float32)).template item<double>(), 2);
  state.counters["norm"] = std::sqrt(squares);
  measure(state, [&] { return f(arguments...); });
}

/// Returns numbers from -size / 2 to size / 2 in an irregular order, the same as in peers.py: size
/// ((7919 i mod 1009) / 1009 - 1/2).
inline Tensor scattered(const Shape& shape, double size = 1) {
  const Tensor i = arange(shape.elements()) % 1009;  // avoids overflow in the product
  return reshape((astype(i * 7919 % 1009, float32) / 1009 - 0.5) * size, shape);
}

}  // namespace stave_bench
