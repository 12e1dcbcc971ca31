// The times of the programs of effect_programs.h, in the suite's sizes. They are compared with
// `effects_recursion`, the suite's fibonacci_recursive as a plain function: the cost of its calls
// without handlers.
#include "effect_programs.h"

#include <benchmark/benchmark.h>

namespace {

void time_program(benchmark::State& state, std::int64_t (*program)(int), int n, std::int64_t answer) {
  for (auto _ : state)
    if (program(n) != answer) return state.SkipWithError("the answer is wrong");
}

void effects_recursion(benchmark::State& state) { time_program(state, effect_programs::recursion, 42, 433'494'437); }
void effects_fibonacci_recursive(benchmark::State& state) {
  time_program(state, effect_programs::fibonacci_recursive, 42, 433'494'437);
}
void effects_countdown(benchmark::State& state) { time_program(state, effect_programs::countdown, 200'000'000, 0); }
void effects_iterator(benchmark::State& state) {
  time_program(state, effect_programs::iterator, 40'000'000, 800'000'020'000'000);
}
void effects_handler_sieve(benchmark::State& state) {
  time_program(state, effect_programs::handler_sieve, 60'000, 171'848'738);
}
void effects_product_early(benchmark::State& state) { time_program(state, effect_programs::product_early, 100'000, 0); }
void effects_parsing_dollars(benchmark::State& state) {
  time_program(state, effect_programs::parsing_dollars, 20'000, 200'010'000);
}
void effects_generator(benchmark::State& state) { time_program(state, effect_programs::generator, 25, 67'108'837); }
void effects_resume_nontail(benchmark::State& state) {
  time_program(state, effect_programs::resume_nontail, 20'000, 357);
}

BENCHMARK(effects_recursion)->UseRealTime();
BENCHMARK(effects_fibonacci_recursive)->UseRealTime();
BENCHMARK(effects_countdown)->UseRealTime();
BENCHMARK(effects_iterator)->UseRealTime();
BENCHMARK(effects_handler_sieve)->UseRealTime();
BENCHMARK(effects_product_early)->UseRealTime();
BENCHMARK(effects_parsing_dollars)->UseRealTime();
BENCHMARK(effects_generator)->UseRealTime();
BENCHMARK(effects_resume_nontail)->UseRealTime();

}  // namespace
