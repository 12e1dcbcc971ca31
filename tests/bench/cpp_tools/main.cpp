// Derivatives of the programs of programs.h by Stave and by other tools of C++, and the programs
// themselves without a derivative. All derivatives of a program are compared before any is
// measured.
//
// Benchmarks are named PROGRAM/TOOL; their counter `norm` is the norm of the derivative.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <numeric>

#include "tools.h"

namespace {

using namespace cpp_tools;

std::vector<Derivative> all_derivatives() {
  std::vector<Derivative> all = by_stave();
#ifdef WITH_ADOLC
  for (Derivative& it : by_adolc()) all.push_back(std::move(it));
#endif
#ifdef WITH_CPPAD
  for (Derivative& it : by_cppad()) all.push_back(std::move(it));
#endif
  return all;
}

double norm_of(const Numbers& x) { return std::sqrt(std::inner_product(x.begin(), x.end(), x.begin(), 0.)); }

// Ends the process unless a derivative is that of Stave.
void require_equal(const Derivative& it, const Numbers& expected, const Numbers& found) {
  double difference = found.size() == expected.size() ? 0 : INFINITY;
  for (std::size_t i = 0; i < std::min(found.size(), expected.size()); ++i)
    difference = std::max(difference, std::abs(found[i] - expected[i]));
  if (difference <= 1e-8 * norm_of(expected)) return;
  std::fprintf(stderr, "%s by %s differs by %g from Stave's, whose norm is %g\n", it.program.c_str(), it.tool.c_str(),
               difference, norm_of(expected));
  std::exit(1);
}

// Computes for half a second of processor time: Stave makes machine code of a long program when it
// ran often enough that this pays.
void warm_up(const Derivative& derivative) {
  const std::clock_t begin = std::clock();
  while (std::clock() - begin < CLOCKS_PER_SEC / 2) derivative.compute();
}

void measure(benchmark::State& state, const Derivative& derivative) {
  for (auto _ : state) derivative.compute();
  state.counters["norm"] = norm_of(derivative.values());
}

}  // namespace

int main(int count, char** arguments) {
  benchmark::Initialize(&count, arguments);
  static const std::vector<Derivative> all = all_derivatives();
  for (const Derivative& it : all) {
    warm_up(it);
    const auto expected = std::find_if(all.begin(), all.end(), [&](const auto& e) { return e.program == it.program; });
    require_equal(it, expected->values(), it.values());
    benchmark::RegisterBenchmark((it.program + "/" + it.tool).c_str(), [&it](auto& state) {
      measure(state, it);
    })->UseRealTime();
  }
  for_each_program([](const auto& program) {
    const auto run = [program](benchmark::State& state) {
      const Numbers at = program.start();
      for (auto _ : state) benchmark::DoNotOptimize(program(at).data());
    };
    benchmark::RegisterBenchmark((program.name() + "/function").c_str(), run)->MeasureProcessCPUTime();
  });
  benchmark::RunSpecifiedBenchmarks();
}
