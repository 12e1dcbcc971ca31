// Control flow under vmap: lanes that split, beside a loop over the lanes, hand-written masks, and
// functions without reads.
#include <vector>

#include "bench.h"

namespace {

using namespace stave_bench;

template <class F>
Tensor loop(const F& f, const Tensor& xs) {
  std::vector<Tensor> results;
  for (Index i = 0; i < xs.shape(0); ++i) results.push_back(f(xs[i]));
  return stack(results);
}

// ---- Newton's method for square roots, 1,024 lanes ----------------------------------------------

Tensor newton(const Tensor& a) {
  Tensor x = a;
  while (bool(abs(x * x - a) > 1e-6 * a)) x = 0.5 * (x + a / x);
  return x;
}
Tensor newton_numbers() { return abs(scattered({1024}, 2000)) + 0.5; }

void newton_paths(benchmark::State& state) {
  measure(state, [as = newton_numbers()] { return vmap(newton)(as); });
}
void newton_loop(benchmark::State& state) {
  measure(state, [as = newton_numbers()] { return loop(newton, as); });
}

// ---- a fixed point of 256 numbers, 512 lanes of different scales --------------------------------

struct FixedPoint {
  Tensor weights = scattered({256, 256}, 0.11), xs = scattered({512, 256}, 4) * exp(scattered({512, 1}, 4));

  Tensor one(const Tensor& x) const {
    Tensor y = x;
    for (;;) {
      const Tensor next = 0.9 * tanh(matmul(weights, y)) + x;
      const bool ends = bool(max(abs(next - y)) < 1e-4);
      y = next;
      if (ends) return y;
    }
  }
  Tensor masked() const {
    Tensor y = xs, active = ones({512, 1}, bool_);
    const Tensor transposed = transpose(weights);
    while (any(active)) {
      const Tensor next = 0.9 * tanh(matmul(y, transposed)) + xs;
      const Tensor going = max(abs(next - y), 1, keepdims) >= 1e-4;
      y = where(active, next, y);
      active = logical_and(active, going);
    }
    return y;
  }
  auto function() const {
    return [this](const Tensor& x) { return one(x); };
  }
};

void fixed_point_paths(benchmark::State& state) {
  const FixedPoint problem;
  measure(state, [&] { return vmap(problem.function())(problem.xs); });
}
void fixed_point_masked(benchmark::State& state) {
  const FixedPoint problem;
  measure(state, [&] { return problem.masked(); });
}
void fixed_point_gradient_paths(benchmark::State& state) {
  const FixedPoint problem;
  const auto total = [&](const Tensor& xs) { return sum(vmap(problem.function())(xs)); };
  measure(state, [&] { return grad(total)(problem.xs); });
}
void fixed_point_gradient_loop(benchmark::State& state) {
  const FixedPoint problem;
  const auto total = [&](const Tensor& xs) { return sum(loop(problem.function(), xs)); };
  measure(state, [&] { return grad(total)(problem.xs); });
}

// ---- reads without a split, and reads at which all lanes split ----------------------------------

// Eight operations per step.
Tensor step(const Tensor& x) {
  Tensor y = x;
  for (int i = 0; i < 4; ++i) y = y * 1.01 + 0.1;
  return y;
}
void vmap_without_reads(benchmark::State& state) {
  measure(state, [xs = abs(scattered({state.range(0)}))] {
    return vmap([](Tensor x) {
      for (int i = 0; i < 50; ++i) {
        x = step(x);
        [[maybe_unused]] const Tensor negative = x < 0;
      }
      return x;
    })(xs);
  });
}
void vmap_with_reads(benchmark::State& state) {
  measure(state, [xs = abs(scattered({state.range(0)}))] {
    return vmap([](Tensor x) {
      for (int i = 0; i < 50; ++i) {
        x = step(x);
        if (x < 0) x = -x;
      }
      return x;
    })(xs);
  });
}

Tensor collatz(const Tensor& start) {
  Tensor n = start, steps = zeros({}, int32);
  while (n != 1) {
    n = bool(n % 2 == 0) ? floor_divide(n, 2) : 3 * n + 1;
    steps = steps + 1;
  }
  return steps;
}
void collatz_paths(benchmark::State& state) {
  measure(state, [ns = arange(1, 1025)] { return vmap(collatz)(ns); });
}
void collatz_loop(benchmark::State& state) {
  measure(state, [ns = arange(1, 1025)] { return loop(collatz, ns); });
}

// The cost of selecting some lanes of a value of all lanes, for each selected lane.
void gather_scalar_rows(benchmark::State& state) {
  constexpr int count = 2048;
  const Tensor rows = scattered({2 * count}), places = reshape(arange(count) * 2 + arange(count) % 2, {count, 1});
  measure(
      state, [&] { return gather(rows, places); }, count);
}

BENCHMARK(newton_paths);
BENCHMARK(newton_loop);
BENCHMARK(fixed_point_paths)->UseRealTime();
BENCHMARK(fixed_point_masked)->UseRealTime();
BENCHMARK(fixed_point_gradient_paths)->UseRealTime();
BENCHMARK(fixed_point_gradient_loop)->UseRealTime();
BENCHMARK(vmap_without_reads)->Arg(16)->Arg(128)->Arg(4096);
BENCHMARK(vmap_with_reads)->Arg(16)->Arg(128)->Arg(4096);
BENCHMARK(collatz_paths);
BENCHMARK(collatz_loop);
BENCHMARK(gather_scalar_rows);

}  // namespace
