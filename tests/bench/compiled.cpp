// Recorded programs that are replayed (handlers/compile/compile.h), beside JAX, which compiles them
// (peer_operations.py), and beside the same without compile.
#include "models.h"
#include "programs.h"

namespace {

using namespace stave_bench;

void compiled_mlp_step(benchmark::State& state) {
  const Mlp mlp = make_mlp();
  const Tensor pixels = make_pixels(), labels = make_labels();
  const auto step = compile(value_and_grad(loss));
  step(mlp, pixels, labels);
  const auto [value, gradient] = step(mlp, pixels, labels);
  if (!near(value.item<double>(), mlp_loss) || !near(global_norm(gradient).item<double>(), mlp_gradient_norm))
    return state.SkipWithError("another loss or gradient than NumPy's");
  measure(state, [&] { return step(mlp, pixels, labels); });
}

void compiled_per_example(benchmark::State& state) { measure_per_example(state, compile(gradients_by_vmap)); }

void compiled_softmax(benchmark::State& state) {
  const auto written_out = compile([](const Tensor& x) {
    const Tensor e = exp(x - max(x, -1, keepdims));
    return e / sum(e, -1, keepdims);
  });
  const Tensor x = scattered({4096, 1024});
  measure(state, [&] { return written_out(x); });
}

void compiled_squares(benchmark::State& state) {
  const auto gradient = compile(grad(squares));
  const Tensor x = make_squared();
  measure(state, [&] { return gradient(x); });
}

// Single numbers: the cost of a replayed operation without its arithmetic.
constexpr int steps = 500;
void replay_scalar(benchmark::State& state) {
  const auto chain = compile([](const Tensor& x) {
    Tensor y = x;
    for (int i = 0; i < steps; ++i) y = y * 0.999 + x;
    return y;
  });
  const Tensor x = tensor(0.5);
  measure(
      state, [&] { return chain(x); }, 2 * steps);
}

// A function that reads a value at each step. No value occurs twice, so that compile calls the
// function itself.
Tensor logged(const Tensor& x) {
  Tensor y = x;
  for (int i = 0; i < 20; ++i) {
    y = tanh(y * 1.01) + x * 0.1;
    benchmark::DoNotOptimize(sum(y).item<float>());
  }
  return y;
}
template <class F>
void measure_logged(benchmark::State& state, const F& f) {
  Tensor x = scattered({1024});
  for (int i = 0; i < 32; ++i) x = f(x);
  measure(state, [&] { return x = f(x); });
}
void never_repeats(benchmark::State& state) { measure_logged(state, logged); }
void compiled_never_repeats(benchmark::State& state) { measure_logged(state, compile(logged)); }
// Measures calls before compile has found that values never repeat.
template <class Make>
void measure_first_calls(benchmark::State& state, Make make) {
  const Tensor start = scattered({1024});
  measure(
      state,
      [&] {
        const auto f = make();
        Tensor x = start;
        for (int i = 0; i < 32; ++i) x = f(x);
        return x;
      },
      32);
}
void first_calls(benchmark::State& state) {
  measure_first_calls(state, [] { return logged; });
}
void compiled_first_calls(benchmark::State& state) {
  measure_first_calls(state, [] { return compile(logged); });
}

// The cost of each of the first calls of a long program: the first call records it, the second one
// prepares the replay, the third one replays it.
Tensor thirty_thousand(const Tensor& x) {
  Tensor y = x;
  for (int i = 0; i < 10'000; ++i) y = tanh(y * 1.01) + x;
  return y;
}
void thirty_thousand_eager(benchmark::State& state) {
  const Tensor x = scattered({1024});
  measure(state, [&] { return thirty_thousand(x); });
}
template <int number>
void call_of_thirty_thousand(benchmark::State& state) {
  using Clock = std::chrono::steady_clock;
  const Tensor x = scattered({1024});
  settle();
  for (auto _ : state) {
    const auto f = compile(thirty_thousand);
    for (int before = 1; before < number; ++before) f(x);
    const auto begin = Clock::now();
    benchmark::DoNotOptimize(f(x));
    state.SetIterationTime(std::chrono::duration<double>(Clock::now() - begin).count());
  }
}

Tensor lorenz_path(const Tensor& start) { return lorenz_end(start, 0.01); }

template <class F>
void measure_lorenz(benchmark::State& state, const F& f) {
  const Tensor start = ones({3});
  f(start);
  measure(state, [&] { return f(start); });
}
void compiled_lorenz(benchmark::State& state) { measure_lorenz(state, compile(lorenz_path)); }
void compiled_lorenz_grad(benchmark::State& state) { measure_lorenz(state, compile(grad(lorenz_path))); }
// The time from the function to its first replayed result.
void compiling_lorenz(benchmark::State& state) {
  measure_lorenz(state, [](const Tensor& start) {
    // The first call records the function, the second one prepares the replay.
    const auto slope = compile(grad(lorenz_path));
    slope(start);
    return slope(start);
  });
}

// A filter over a sequence of rows of four numbers.
Tensor scan_loss(const Tensor& a, const Tensor& xs) {
  const auto step = [=](const Tensor& state, const Tensor& x) {
    const Tensor next = a * state + tanh(x);
    return std::pair(next, next);
  };
  return sum(square(scan(step)(zeros({4}), xs).second));
}

template <class F>
void measure_scan(benchmark::State& state, Index steps, const F& f) {
  const Tensor a = tensor(0.9), xs = normal(Key(0), {steps, 4});
  f(a, xs), f(a, xs);
  measure(state, [&] { return f(a, xs); });
}
void compiled_scan(benchmark::State& state) { measure_scan(state, 8000, compile(scan_loss)); }
void compiled_scan_grad(benchmark::State& state) { measure_scan(state, 8000, compile(grad<0, 1>(scan_loss))); }
void short_scan_grad(benchmark::State& state) { measure_scan(state, 2000, grad<0, 1>(scan_loss)); }
void long_scan_grad(benchmark::State& state) { measure_scan(state, 8000, grad<0, 1>(scan_loss)); }

BENCHMARK(compiled_scan)->UseRealTime();
BENCHMARK(compiled_scan_grad)->UseRealTime();
BENCHMARK(short_scan_grad)->UseRealTime();
BENCHMARK(long_scan_grad)->UseRealTime();
BENCHMARK(compiled_lorenz)->UseRealTime();
BENCHMARK(compiled_lorenz_grad)->UseRealTime();
BENCHMARK(compiling_lorenz)->UseRealTime();
BENCHMARK(compiled_mlp_step)->UseRealTime();
BENCHMARK(compiled_per_example)->UseRealTime();
BENCHMARK(compiled_softmax)->UseRealTime();
BENCHMARK(compiled_squares)->UseRealTime();
BENCHMARK(replay_scalar)->UseRealTime();
BENCHMARK(never_repeats)->UseRealTime();
BENCHMARK(compiled_never_repeats)->UseRealTime();
BENCHMARK(first_calls)->UseRealTime();
BENCHMARK(compiled_first_calls)->UseRealTime();
BENCHMARK(thirty_thousand_eager)->UseRealTime();
BENCHMARK(call_of_thirty_thousand<1>)->UseManualTime()->Name("first_call");
BENCHMARK(call_of_thirty_thousand<2>)->UseManualTime()->Name("second_call");
BENCHMARK(call_of_thirty_thousand<3>)->UseManualTime()->Name("third_call");

}  // namespace
