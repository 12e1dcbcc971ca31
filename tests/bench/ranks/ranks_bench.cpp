// The cost of ranks: psum beside MPI_Allreduce on plain buffers, and a training step whose
// gradients are summed over the processes, after the backward pass or during it. mpirun starts the
// processes; the name of a step's benchmark ends with their number.
//
// The time of an iteration is that of the slowest process. The numbers of iterations are fixed,
// because all processes must run the same ones.
#include <benchmark/benchmark.h>
#include <mpi.h>

#include <cstdio>
#include <string_view>
#include <vector>

#include <stave/handlers/ranks/cotangent_sums.h>
#include <stave/handlers/ranks/ranks.h>
#include <stave/stave.h>

using namespace stave;

namespace {

template <class F>
void measure(benchmark::State& state, F f) {
  f();
  for (auto _ : state) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    f();
    double mine = MPI_Wtime() - begin, slowest = mine;
    MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    state.SetIterationTime(slowest);
  }
}

// ---- sums of float32 arrays, by their size in KiB -----------------------------------------------

void sum_by_stave(benchmark::State& state, Index kib) {
  const Tensor x = full({kib * 256}, 1.5, float32) + 0;
  measure(state, [&] { benchmark::DoNotOptimize(psum(x, "i")); });
}

void sum_by_mpi(benchmark::State& state, Index kib) {
  std::vector<float> in(static_cast<std::size_t>(kib) * 256, 1.5F), out(in.size());
  measure(state, [&] {
    MPI_Allreduce(in.data(), out.data(), static_cast<int>(in.size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  });
}

// ---- a step on 1,024 examples, which the processes share ----------------------------------------

constexpr int layers = 6;
constexpr Index width = 512;

Tensor loss(const std::vector<Tensor>& ws, const Tensor& x) {
  Tensor h = x;
  for (int i = 0; i < layers; ++i)
    h = tanh(matmul(h, sow_cotangent("w" + std::to_string(i), ws[static_cast<std::size_t>(i)])));
  return mean(square(h));
}

struct Data {
  std::vector<Tensor> ws;
  Tensor x;
};
Data data_of(const Ranks& ranks) {
  Data data;
  for (int i = 0; i < layers; ++i) data.ws.push_back(normal(Key(i), {width, width}) / 20);
  data.x = normal(fold_in(Key(9), static_cast<int>(ranks.place())), {1024 / ranks.size(), width});
  return data;
}

void step_summed_after(benchmark::State& state, const Ranks& ranks) {
  const Data data = data_of(ranks);
  measure(state, [&] { benchmark::DoNotOptimize(psum(grad(loss)(data.ws, data.x), "i")); });
}

void step_summed_meanwhile(benchmark::State& state, const Ranks& ranks) {
  const Data data = data_of(ranks);
  CotangentSums sums(ranks);
  measure(state, [&] {
    with(sums, [&] { return grad(loss)(data.ws, data.x); });
    benchmark::DoNotOptimize(sums.take());
  });
}

void add_benchmarks(const Ranks& ranks) {
  struct Size {
    const char* name;
    Index kib, iterations;
  };
  const auto add = [](const std::string& name, Index iterations, auto f) {
    benchmark::RegisterBenchmark(name.c_str(), f)->UseManualTime()->Iterations(iterations);
  };
  if (ranks.size() == 2) {
    for (const Size& size : {Size{"1k", 1, 3000}, {"1m", 1 << 10, 200}, {"16m", 1 << 14, 15}, {"64m", 1 << 16, 5}}) {
      add(std::string("ranks_psum_") + size.name, size.iterations,
          [size](auto& state) { sum_by_stave(state, size.kib); });
      add(std::string("ranks_mpi_") + size.name, size.iterations, [size](auto& state) { sum_by_mpi(state, size.kib); });
    }
  }
  const std::string of = "_" + std::to_string(ranks.size());
  add("ranks_step" + of, 10, [&ranks](auto& state) { step_summed_after(state, ranks); });
  add("ranks_step_meanwhile" + of, 10, [&ranks](auto& state) { step_summed_meanwhile(state, ranks); });
}

class Silence final : public benchmark::BenchmarkReporter {
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>&) override {}
};

}  // namespace

int main(int argc, char** argv) {
  Ranks ranks("i");
  const bool reports = ranks.place() == 0;
  std::vector<char*> arguments;
  for (char* argument : std::span(argv, static_cast<std::size_t>(argc)))
    if (reports || !std::string_view(argument).starts_with("--benchmark_out")) arguments.push_back(argument);
  int count = static_cast<int>(arguments.size());
  benchmark::Initialize(&count, arguments.data());
  with(ranks, [&] {
    add_benchmarks(ranks);
    Silence silence;
    if (reports) benchmark::RunSpecifiedBenchmarks();
    else benchmark::RunSpecifiedBenchmarks(&silence);
  });
}
