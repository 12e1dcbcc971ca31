// Sorting 2^20 random floats, and cumulative sums of them. The baseline of the same run is
// std::sort on a copy.
//
//   build/ci/tests/stave_bench --benchmark_filter=2_20

#include <algorithm>

#include <benchmark/benchmark.h>

#include <stave/stave.h>

using namespace stave;

namespace {

const Tensor& floats() {
  static const Tensor x = normal(Key(1), {1 << 20});
  return x;
}

void std_sort_2_20(benchmark::State& state) {
  const std::vector<float> x = floats().to_vector<float>();
  for (auto _ : state) {
    std::vector<float> copy = x;
    std::sort(copy.begin(), copy.end());
    benchmark::DoNotOptimize(copy.data());
  }
}

template <class F>
void measure(benchmark::State& state, const Tensor& x, F f) {
  for (auto _ : state) benchmark::DoNotOptimize(f(x));
}

void sort_2_20(benchmark::State& state) {
  measure(state, floats(), [](const Tensor& x) { return sort(x); });
}
void argsort_2_20(benchmark::State& state) {
  measure(state, floats(), [](const Tensor& x) { return argsort(x); });
}
void sort_float64_2_20(benchmark::State& state) {
  measure(state, astype(floats(), float64), [](const Tensor& x) { return sort(x); });
}
void sort_rows_of_512_2_20(benchmark::State& state) {
  measure(state, reshape(floats(), {2048, 512}), [](const Tensor& x) { return sort(x); });
}
void sort_rows_of_1024_2_20(benchmark::State& state) {
  measure(state, reshape(floats(), {1024, 1024}), [](const Tensor& x) { return sort(x); });
}
void cumulative_sum_2_20(benchmark::State& state) {
  measure(state, floats(), [](const Tensor& x) { return cumulative_sum(x); });
}
void cumulative_sum_of_columns_2_20(benchmark::State& state) {
  measure(state, reshape(floats(), {1024, 1024}), [](const Tensor& x) { return cumulative_sum(x, 0); });
}

BENCHMARK(std_sort_2_20);
BENCHMARK(sort_2_20);
BENCHMARK(argsort_2_20);
BENCHMARK(sort_float64_2_20);
BENCHMARK(sort_rows_of_512_2_20);
BENCHMARK(sort_rows_of_1024_2_20);
BENCHMARK(cumulative_sum_2_20);
BENCHMARK(cumulative_sum_of_columns_2_20);

}  // namespace
