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
  // Wakes the threads and fills the caches. A compiled function is recorded, and then planned.
  for (int i = 0; i < 2; ++i) {
    [[maybe_unused]] auto first = f();
  }
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
  // Records f and replays it until its machine code is made, which takes many calls if it is long.
  const auto start = std::chrono::steady_clock::now();
  for (int calls = 0; calls < 1000; ++calls) {
    f(arguments...);
    if (std::chrono::steady_clock::now() - start > std::chrono::milliseconds(300)) break;
  }
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
