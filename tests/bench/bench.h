// What the benchmarks share.
#pragma once

#include <benchmark/benchmark.h>

#include <chrono>
#include <ctime>
#include <thread>

#include <stave/stave.h>

namespace stave_bench {

using namespace stave;

/// The counter `per_op`: the time for each of `count` operations in an iteration.
inline void count_operations(benchmark::State& state, int count) {
  using benchmark::Counter;
  state.counters["per_op"] = Counter(count, Counter::kIsIterationInvariantRate | Counter::kInvert);
}

/// Waits until no thread of this process works any more. Those of OpenBLAS and oneTBB go on spinning after their work, and
/// would take the cores from what is measured next.
inline void settle() {
  constexpr int most_waits = 200;
  for (int i = 0; i < most_waits; ++i) {
    const std::clock_t before = std::clock();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (std::clock() - before < CLOCKS_PER_SEC / 1000) return;
  }
}

/// Times f(), `operations` of them at a time. Its result is destroyed within the measured time.
template <class F>
void measure(benchmark::State& state, F&& f, int operations = 1) {
  settle();
  { [[maybe_unused]] auto first = f(); }  // wakes the threads, fills the caches
  for (auto _ : state) {
    auto result = f();
    benchmark::DoNotOptimize(result);
  }
  count_operations(state, operations);
}

/// Numbers from -size / 2 to size / 2 without order, which peers.py makes as well: size ((7919 i mod 1009) / 1009 - 1/2).
inline Tensor scattered(const Shape& shape, double size = 1) {
  const Tensor i = arange(shape.elements()) % 1009;  // so that no product overflows
  return reshape((astype(i * 7919 % 1009, float32) / 1009 - 0.5) * size, shape);
}

}  // namespace stave_bench
