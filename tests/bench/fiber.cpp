// The cost of a fiber: to create it, to switch to it and back, and to run a function on the
// thread's own stack from it.
//
//   build/ci/tests/bench/stave_bench --benchmark_filter=fiber            (cmake --preset ci)

#include <benchmark/benchmark.h>

#include <memory>
#include <vector>

#include <stave/core/effects/fiber.h>

namespace {

using stave_detail::Fiber;

struct Loop {
  Fiber* fiber = nullptr;
  bool stop = false;
  static void run(void* argument) {
    auto& self = *static_cast<Loop*>(argument);
    while (!self.stop) self.fiber->suspend();
  }
};

// Fibers that are suspended and resumed in turn.
struct Lanes {
  std::vector<Loop> loops;
  std::vector<std::unique_ptr<Fiber>> fibers;
  explicit Lanes(std::size_t count) : loops(count) {
    for (Loop& loop : loops) {
      fibers.push_back(std::make_unique<Fiber>(Loop::run, &loop));
      loop.fiber = fibers.back().get();
    }
    resume();
  }
  ~Lanes() {
    for (Loop& loop : loops) loop.stop = true;
    resume();
  }
  void resume() {
    for (auto& fiber : fibers) fiber->resume();
  }
};

void fiber_round_trip(benchmark::State& state) {
  Lanes lanes(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) lanes.resume();
  state.counters["per_switch_pair"] = benchmark::Counter(
      static_cast<double>(state.range(0)), benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void fiber_create_run_end(benchmark::State& state) {
  for (auto _ : state) {
    Fiber fiber([](void*) {}, nullptr);
    fiber.resume();
  }
}

struct Hops {
  benchmark::State& state;
  static void run(void* argument) {
    for (auto _ : static_cast<Hops*>(argument)->state) stave_detail::on_thread_stack([] {});
  }
};
void fiber_on_thread_stack(benchmark::State& state) {
  Hops hops{state};
  Fiber fiber(Hops::run, &hops);
  fiber.resume();
}

BENCHMARK(fiber_round_trip)->Arg(1)->Arg(16)->Arg(64)->Arg(1000);
BENCHMARK(fiber_create_run_end);
BENCHMARK(fiber_on_thread_stack);

}  // namespace
