// Operations that are as fast as memory allows: add, exp and sum of 2^24 floats beside copies and
// reads (streams.h). The same operations on as many floats as the caches hold show the time of the
// arithmetic alone. Whether memory or arithmetic is the limit depends on the machine.
#include <cmath>
#include <cstring>

#include "bench.h"
#include "streams.h"

namespace {

using namespace stave_bench;

constexpr Index count = Index{1} << 24;
constexpr std::size_t bytes = count * sizeof(float);
constexpr Index cached = count / 128;  // bars.cpp uses the same ratio

void measure_add(benchmark::State& state, Index n) {
  const Tensor a = full({n}, 1.f), b = full({n}, 2.f);
  measure(state, [&] { return a + b; });
}
void add_large(benchmark::State& state) { measure_add(state, count); }
void add_cached(benchmark::State& state) { measure_add(state, cached); }

void measure_exp(benchmark::State& state, Index n) {
  const Tensor x = linspace(-10, 10, n);
  measure(state, [&] { return exp(x); });
}
void exp_large(benchmark::State& state) { measure_exp(state, count); }
void exp_cached(benchmark::State& state) { measure_exp(state, cached); }
void exp_one_thread(benchmark::State& state) { measure_exp(state, 1 << 12); }

// Masks: the operation writes or reads one byte for each element of four bytes.
constexpr Index few = 1 << 14;
template <class F>
void measure_few(benchmark::State& state, F f) {
  const Tensor a = remainder(arange(0, few, 1, float32), 7.f), b = remainder(arange(0, few, 1, float32), 5.f),
               mask = a > b;
  measure(state, [&] { return f(a, b, mask); });
}
void add_one_thread(benchmark::State& state) {
  measure_few(state, [](const Tensor& a, const Tensor& b, const Tensor&) { return a + b; });
}
void greater_one_thread(benchmark::State& state) {
  measure_few(state, [](const Tensor& a, const Tensor& b, const Tensor&) { return a > b; });
}
void where_one_thread(benchmark::State& state) {
  measure_few(state, [](const Tensor& a, const Tensor& b, const Tensor& mask) { return where(mask, a, b); });
}

void measure_sum(benchmark::State& state, Index n) {
  const Tensor x = full({n}, 0.5f);
  measure(state, [&] { return sum(x); });
}
void sum_large(benchmark::State& state) { measure_sum(state, count); }
void sum_cached(benchmark::State& state) { measure_sum(state, cached); }

/// Copies between buffers of the tensors' allocator. Both have been written before, so that their
/// pages are mapped.
void copy(benchmark::State& state, void (*copy)(float*, const float*, Index)) {
  const StoragePtr from = allocate_storage(cpu, uint8, Shape(bytes), "bench");
  const StoragePtr to = allocate_storage(cpu, uint8, Shape(bytes), "bench");
  auto* in = static_cast<float*>(from->data);
  auto* out = static_cast<float*>(to->data);
  for (Index i = 0; i < count; ++i) in[i] = static_cast<float>(i);
  std::memset(out, 0, bytes);
  measure(state, [&] {
    copy(out, in, count);
    return out[0];
  });
  if (std::memcmp(out, in, bytes) != 0) state.SkipWithError("the copy is not what was copied");
}

void read(benchmark::State& state, float (*read)(const float*, Index)) {
  const Tensor x = full({count}, 0.5f);
  const float* in = x.data<float>().data();
  measure(state, [&] { return read(in, count); });
  if (read(in, count) != 0.5f * count) state.SkipWithError("not everything was read");
}

BENCHMARK(add_large)->UseRealTime();
BENCHMARK(add_cached)->UseRealTime();
BENCHMARK(exp_large)->UseRealTime();
BENCHMARK(exp_cached)->UseRealTime();
BENCHMARK(exp_one_thread)->UseRealTime();
BENCHMARK(add_one_thread)->UseRealTime();
BENCHMARK(greater_one_thread)->UseRealTime();
BENCHMARK(where_one_thread)->UseRealTime();
BENCHMARK(sum_large)->UseRealTime();
BENCHMARK(sum_cached)->UseRealTime();

#define STAVE_STREAM(kind, how)                                                                \
  void kind##_by_##how(benchmark::State& state) { kind(state, stave_bench::kind##_by_##how); } \
  BENCHMARK(kind##_by_##how)->UseRealTime();
STAVE_STREAM(copy, memcpy)
STAVE_STREAM(copy, loop)
STAVE_STREAM(copy, stream)
STAVE_STREAM(read, loop)
STAVE_STREAM(read, prefetch)
#undef STAVE_STREAM

}  // namespace
