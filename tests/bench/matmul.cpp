// Matrix products beside direct calls of BLAS, on the same number of threads.
#include <cblas.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <vector>

#include "bench.h"

// A function of OpenBLAS. Other implementations of CBLAS do not have it, and choose their number of
// threads themselves.
extern "C" __attribute__((weak)) void openblas_set_num_threads(int count);

namespace {

using namespace stave_bench;

constexpr Index large = 1024, small = 64, batch = 128;

void use_blas_threads(int count) {
  if (openblas_set_num_threads) openblas_set_num_threads(count);
}
int all_threads() { return tbb::this_task_arena::max_concurrency(); }

/// Operands of [batch, n, n] x [batch, n, n] (no batch: 1).
struct Operands {
  Index batch, n;
  Tensor a = scattered({batch, n, n}), b = scattered({batch, n, n}) + 0.25;
};

void measure_matmul(benchmark::State& state, const Operands& x) {
  measure(state, [&] { return matmul(x.a, x.b); });
}

/// Computes product i of the batch by BLAS.
void multiply(const Operands& x, Index i, float* out) {
  const int n = static_cast<int>(x.n);
  const Index at = i * x.n * x.n;
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1, x.a.data<float>().data() + at, n,
              x.b.data<float>().data() + at, n, 0, out + at, n);
}

/// Measures `multiply_all(out)`, which replaces matmul(a, b).
template <class F>
void measure_blas(benchmark::State& state, const Operands& x, F&& multiply_all) {
  std::vector<float> out(static_cast<std::size_t>(x.batch * x.n * x.n));
  measure(state, [&] {
    multiply_all(out.data());
    return out[0];
  });
  use_blas_threads(all_threads());
  if (!allclose(matmul(x.a, x.b), from(out, {x.batch, x.n, x.n}), 1e-4, 1e-3))
    state.SkipWithError("matmul and BLAS disagree");
}

void matmul_1024(benchmark::State& state) { measure_matmul(state, {1, large}); }
void sgemm_1024(benchmark::State& state) {
  const Operands x{1, large};
  use_blas_threads(all_threads());
  measure_blas(state, x, [&](float* out) { multiply(x, 0, out); });
}

// BLAS has no batches. Either it computes one product after another, each on all of its threads, or
// several products at a time, each on one thread.
void matmul_batched(benchmark::State& state) { measure_matmul(state, {batch, small}); }
void sgemm_in_turn(benchmark::State& state) {
  const Operands x{batch, small};
  use_blas_threads(all_threads());
  measure_blas(state, x, [&](float* out) {
    for (Index i = 0; i < batch; ++i) multiply(x, i, out);
  });
}
void sgemm_at_a_time(benchmark::State& state) {
  const Operands x{batch, small};
  use_blas_threads(1);
  measure_blas(state, x,
               [&](float* out) { tbb::parallel_for(Index{0}, batch, [&](Index i) { multiply(x, i, out); }); });
}

// One matrix times many matrices of few columns, as vmap multiplies if only the right factor has
// lanes. The arguments are the rows and columns of the one matrix, the columns of the others, and
// the number of these.
void narrow_products(benchmark::State& state) {
  const Index m = state.range(0), k = state.range(1), n = state.range(2), lanes = state.range(3);
  const Tensor a = scattered({m, k}), b = scattered({lanes, k, n});
  measure(state, [&] { return matmul(a, b); });
}
void narrow_products_in_turn(benchmark::State& state) {
  const Index m = state.range(0), k = state.range(1), n = state.range(2), lanes = state.range(3);
  const Tensor a = scattered({m, k}), b = scattered({lanes, k, n});
  const std::vector<Tensor> each = unstack(b);
  measure(state, [&] {
    std::vector<Tensor> products;
    for (const Tensor& x : each) products.push_back(matmul(a, x));
    return products;
  });
}
void narrow_shapes(benchmark::internal::Benchmark* of) {
  for (const Index n : {2, 4, 8, 16})
    for (const Index size : {4, 16, 64, 256}) of->Args({size, size, n, 256});
}

BENCHMARK(matmul_1024)->UseRealTime();
BENCHMARK(sgemm_1024)->UseRealTime();
BENCHMARK(matmul_batched)->UseRealTime();
BENCHMARK(sgemm_in_turn)->UseRealTime();
BENCHMARK(sgemm_at_a_time)->UseRealTime();
BENCHMARK(narrow_products)->Apply(narrow_shapes)->UseRealTime();
BENCHMARK(narrow_products_in_turn)->Apply(narrow_shapes)->UseRealTime();

}  // namespace
