// Chains of elementwise operations: one after another, and recorded as one operation
// (handlers/compile/elementwise_op.h). Beside them JAX, which compiles them, with a new result and,
// where possible, with its argument's memory for the result (peer_operations.py).
#include "bench.h"
#include "own_functions.h"

namespace stave_bench {

extern const ElementwiseOperation<1> own_sigmoid_function, own_gelu_function;

}  // namespace stave_bench

namespace {

using namespace stave_bench;

constexpr Index large = Index{1} << 24, cached = Index{1} << 16;

// Eight operations whose arithmetic takes no longer than the memory transfers.
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
// Each call takes the result of the call before.
void fused_cheap_donated(benchmark::State& state) {
  settle();
  Tensor x = scattered({large});
  state.counters["norm"] = norm(fused_cheap_function(x)).item<double>();
  for (auto _ : state) x = fused_cheap_function(std::move(x));
}

// A sum at the end of a region, which core/program/region.h builds.
RegionPtr cheap_and_sum() {
  const IntrusivePtr<Region> region(new Region({float32}));
  const auto number = [&](double x) { return region->add(x, float32); };
  const int line = region->add(op_add, {region->add(op_multiply, {0, number(1.5)}), number(0.25)});
  const int curve = region->add(op_subtract, {region->add(op_multiply, {line, 0}), number(0.5)});
  const int positive = region->add(op_maximum, {curve, number(0)});
  const int cubic = region->add(op_multiply, {region->add(op_square, {positive}), 0});
  region->set_outputs({region->reduce(op_sum, region->add(op_add, {cubic, number(1)}), {-1})});
  return region;
}
void fused_sum(benchmark::State& state) {
  const RegionPtr region = cheap_and_sum();
  const Tensor x = scattered({large});
  measure(state, [&] { return fused(region, {x})[0]; });
  state.counters["norm"] = fused(region, {x})[0].item<double>();
}

// A few elements: the cost of an operation without its arithmetic.
constexpr Index few = 8;
void eager_few(benchmark::State& state) { measure_chain(state, cheap, few); }
void fused_few(benchmark::State& state) { measure_chain(state, fused_cheap_function, few); }

void fused_exp(benchmark::State& state) { measure_chain(state, fused_exp_function, large); }
void fused_exp_cached(benchmark::State& state) { measure_chain(state, fused_exp_function, cached); }

// User-defined operations beside the built-in ones: recorded functions, and functions compiled as
// loops.
const auto open_sigmoid_function = elementwise_op("open_sigmoid", written_sigmoid);
const auto open_gelu_function = elementwise_op("open_gelu", written_gelu);
void open_sigmoid(benchmark::State& state) { measure_chain(state, open_sigmoid_function, cached); }
void open_gelu(benchmark::State& state) { measure_chain(state, open_gelu_function, cached); }
void own_sigmoid(benchmark::State& state) { measure_chain(state, own_sigmoid_function, cached); }
void own_gelu(benchmark::State& state) { measure_chain(state, own_gelu_function, cached); }
void builtin_sigmoid(benchmark::State& state) {
  measure_chain(
      state, [](const Tensor& x) { return sigmoid(x); }, cached);
}
void builtin_gelu(benchmark::State& state) {
  measure_chain(
      state, [](const Tensor& x) { return gelu(x); }, cached);
}
BENCHMARK(open_sigmoid)->UseRealTime();
BENCHMARK(open_gelu)->UseRealTime();
BENCHMARK(own_sigmoid)->UseRealTime();
BENCHMARK(own_gelu)->UseRealTime();
BENCHMARK(builtin_sigmoid)->UseRealTime();
BENCHMARK(builtin_gelu)->UseRealTime();

// 2^16 elements on one thread: in parts that are too short for a second thread.
template <class F>
void measure_kernel(benchmark::State& state, F&& f, double shift = 0) {
  constexpr Index parts = 4;
  const Tensor x = scattered({cached}) + shift;
  std::vector<Tensor> of_x;
  for (Index i = 0; i < parts; ++i) of_x.push_back(contiguous(x(slice(i * cached / parts, (i + 1) * cached / parts))));
  settle();
  for (auto _ : state)
    for (const Tensor& part : of_x) benchmark::DoNotOptimize(f(part));
  state.counters["norm"] = norm(f(x)).template item<double>();
}
void exp_kernel(benchmark::State& state) {
  measure_kernel(state, [](const Tensor& x) { return exp(x); });
}
void log_kernel(benchmark::State& state) {
  measure_kernel(
      state, [](const Tensor& x) { return log(x); }, 1);
}
void tanh_kernel(benchmark::State& state) {
  measure_kernel(state, [](const Tensor& x) { return tanh(x); });
}

BENCHMARK(exp_kernel)->UseRealTime();
BENCHMARK(log_kernel)->UseRealTime();
BENCHMARK(tanh_kernel)->UseRealTime();
BENCHMARK(eager_cheap)->UseRealTime();
BENCHMARK(fused_cheap)->UseRealTime();
BENCHMARK(fused_cheap_donated)->UseRealTime();
BENCHMARK(fused_sum)->UseRealTime();
BENCHMARK(eager_few)->UseRealTime();
BENCHMARK(fused_few)->UseRealTime();
BENCHMARK(fused_exp)->UseRealTime();
BENCHMARK(fused_exp_cached)->UseRealTime();

}  // namespace
