// The machine's own speed, with which all benchmarks in nanoseconds are compared (bars.h): a
// slower or busier machine slows both.
#include <atomic>
#include <cstdlib>
#include <new>

#include "bench.h"

namespace {

using namespace stave_bench;

constexpr int length = 1000;

struct Step {
  virtual std::size_t next(std::size_t x) const = 0;

 protected:
  ~Step() = default;
};
struct Successor final : Step {
  std::size_t next(std::size_t x) const override { return x + 1; }
};

// The minimum that an operation needs: memory for its result (64 bytes), a reference count, up and
// down, and a call through a table. Each step waits for the one before.
void reference(benchmark::State& state) {
  const Successor successor;
  const Step* step = &successor;
  // Hides the type from the compiler, so that the call stays.
  benchmark::DoNotOptimize(step);
  measure(
      state,
      [step] {
        std::size_t x = 0;
        for (int i = 0; i < length; ++i) {
          void* memory = std::malloc(64);
          if (!memory) throw std::bad_alloc();
          auto* owners = new (memory) std::atomic<std::size_t>(x);
          benchmark::DoNotOptimize(owners);
          owners->fetch_add(1);
          x = step->next(owners->fetch_sub(1));
          std::free(memory);
        }
        return x;
      },
      length);
}

// The time of a clock cycle: an addition takes one cycle, and waits for the addition before.
void clock_cycle(benchmark::State& state) {
  std::size_t one = 1;
  benchmark::DoNotOptimize(one);
  measure(
      state,
      [one] {
        std::size_t x = 0;
        for (int i = 0; i < length; ++i) {
#pragma GCC unroll 8
          for (int j = 0; j < 8; ++j) {
            x += one;
            asm("" : "+r"(x));  // keeps the compiler from adding 8 at once
          }
        }
        return x;
      },
      8 * length);
}

BENCHMARK(reference)->UseRealTime();
BENCHMARK(clock_cycle)->UseRealTime();

}  // namespace
