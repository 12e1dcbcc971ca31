// What Ranks cost: psum beside MPI_Allreduce on plain buffers, and a training step whose gradients are summed after the backward pass,
// or while it goes on.
//
//   mpirun -np 2 --bind-to none build/release/tests/ranks/ranks_bench
//
// Both sides of a ratio take turns in the same rounds; medians are printed.
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <vector>

#include <stave/ranks/cotangent_sums.h>
#include <stave/ranks/ranks.h>
#include <stave/stave.h>

using namespace stave;

namespace {

double seconds_of(const std::function<void()>& f) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = MPI_Wtime();
  f();
  const double mine = MPI_Wtime() - begin;
  double all = mine;
  MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return all;
}

// The median of each, in turns.
std::vector<double> medians(int rounds, const std::vector<std::function<void()>>& sides) {
  std::vector<std::vector<double>> times(sides.size());
  for (int round = 0; round < rounds + 3; ++round)
    for (std::size_t i = 0; i < sides.size(); ++i) {
      const double seconds = seconds_of(sides[i]);
      if (round >= 3) times[i].push_back(seconds);
    }
  std::vector<double> found;
  for (std::vector<double>& of : times) {
    std::nth_element(of.begin(), of.begin() + rounds / 2, of.end());
    found.push_back(of[static_cast<std::size_t>(rounds / 2)]);
  }
  return found;
}

void bench_sums(const Ranks& ranks) {
  for (const Index count : {Index{1} << 8, Index{1} << 14, Index{1} << 18, Index{1} << 22, Index{1} << 24}) {
    const Tensor x = full({count}, 1.5, float32) + 0;
    std::vector<float> in(static_cast<std::size_t>(count), 1.5F), out(in.size());
    const int repeats = static_cast<int>(std::max<Index>(1, (Index{1} << 16) / count));
    const auto t = medians(count > 1 << 20 ? 15 : 41, {[&] {
                                                         for (int i = 0; i < repeats; ++i)
                                                           MPI_Allreduce(in.data(), out.data(), static_cast<int>(count),
                                                                         MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
                                                       },
                                                       [&] {
                                                         for (int i = 0; i < repeats; ++i) psum(x, "i");
                                                       }});
    const double mib = static_cast<double>(count) * sizeof(float) / (1 << 20);
    if (ranks.place() == 0)
      std::printf("psum of %9.3f MiB: %8.1f us, MPI_Allreduce %8.1f us: bandwidth %.2f of it\n", mib,
                  t[1] / repeats * 1e6, t[0] / repeats * 1e6, t[0] / t[1]);
  }
}

// Layers of one size.
constexpr int layers = 6;
constexpr Index width = 512;

Tensor loss(const std::vector<Tensor>& ws, const Tensor& x) {
  Tensor h = x;
  for (int i = 0; i < layers; ++i)
    h = tanh(matmul(h, sow_cotangent("w" + std::to_string(i), ws[static_cast<std::size_t>(i)])));
  return mean(square(h));
}

void bench_steps(const Ranks& ranks) {
  std::vector<Tensor> ws;
  for (int i = 0; i < layers; ++i) ws.push_back(normal(Key(i), {width, width}) / 20);
  const Tensor x = normal(fold_in(Key(9), static_cast<int>(ranks.place())), {1024 / ranks.size(), width});
  CotangentSums sums(ranks);
  const auto t = medians(15, {[&] { grad(loss)(ws, x); }, [&] { psum(grad(loss)(ws, x), "i"); },
                              [&] {
                                with(sums, [&] { return grad(loss)(ws, x); });
                                sums.take();
                              }});
  if (ranks.place() == 0)
    std::printf(
        "step of %d examples on %d processes: gradient %.1f ms; summed after it %.1f ms, while it is computed %.1f "
        "ms\n",
        1024, static_cast<int>(ranks.size()), t[0] * 1e3, t[1] * 1e3, t[2] * 1e3);
}

}  // namespace

int main() {
  Ranks ranks("i");
  with(ranks, [&] {
    bench_sums(ranks);
    bench_steps(ranks);
  });
}
