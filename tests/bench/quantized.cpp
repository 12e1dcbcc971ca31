// Products with quantized weights, beside products with floats and beside BLAS. The weights of the
// products with one vector are far larger than caches.
#include <cblas.h>
#include <tbb/task_arena.h>

#include <vector>

#include "bench.h"

// A function of OpenBLAS. Other implementations of CBLAS do not have it, and choose their number of
// threads themselves.
extern "C" __attribute__((weak)) void openblas_set_num_threads(int count);

namespace {

using namespace stave_bench;

constexpr Index large = 8192, middle = 2048, many = 256;

const Tensor& large_weights() {
  static const Tensor w = scattered({large, large});
  return w;
}

void quantized_vector(benchmark::State& state, QuantizeOptions options) {
  const Quantized w = quantize(large_weights(), options);
  const Tensor x = scattered({1, large});
  measure(state, [&] { return quantized_matmul(x, w); });
}
void quantized_vector_4(benchmark::State& state) { quantized_vector(state, {.bits = 4}); }
void quantized_vector_8(benchmark::State& state) { quantized_vector(state, {.bits = 8}); }
// The blocks of llama.cpp: groups of 32, and no biases.
void quantized_vector_q4_0(benchmark::State& state) {
  quantized_vector(state, {.bits = 4, .group_size = 32, .symmetric = true});
}
void quantized_vector_q8_0(benchmark::State& state) {
  quantized_vector(state, {.bits = 8, .group_size = 32, .symmetric = true});
}

void float_vector(benchmark::State& state) {
  const Tensor& w = large_weights();
  const Tensor x = scattered({1, large});
  measure(state, [&] { return matmul(x, matrix_transpose(w)); });
}
void sgemv_8192(benchmark::State& state) {
  const Tensor& w = large_weights();
  const Tensor x = scattered({large});
  std::vector<float> out(large);
  if (openblas_set_num_threads) openblas_set_num_threads(tbb::this_task_arena::max_concurrency());
  measure(state, [&] {
    cblas_sgemv(CblasRowMajor, CblasNoTrans, large, large, 1, w.data<float>().data(), large, x.data<float>().data(), 1,
                0, out.data(), 1);
    return out[0];
  });
}

void quantized_rows(benchmark::State& state, int bits) {
  const Quantized w = quantize(scattered({middle, middle}), {.bits = bits});
  const Tensor x = scattered({many, middle});
  measure(state, [&] { return quantized_matmul(x, w); });
}
void quantized_rows_4(benchmark::State& state) { quantized_rows(state, 4); }
void quantized_rows_8(benchmark::State& state) { quantized_rows(state, 8); }
void float_rows(benchmark::State& state) {
  const Tensor w = scattered({middle, middle}), x = scattered({many, middle});
  measure(state, [&] { return matmul(x, matrix_transpose(w)); });
}

// The arguments are the bits, and the rows of x: the measure for the number of rows up to which
// weights are computed in registers.
void quantized_matmul_rows(benchmark::State& state) {
  const Quantized w = quantize(scattered({middle, middle}), {.bits = static_cast<int>(state.range(0))});
  const Tensor x = scattered({state.range(1), middle});
  measure(state, [&] { return quantized_matmul(x, w); });
}
void rows_of_x(benchmark::internal::Benchmark* of) {
  for (const Index bits : {4, 8})
    for (const Index rows : {1, 2, 4, 8, 12, 16, 32}) of->Args({bits, rows});
}

BENCHMARK(quantized_vector_4)->UseRealTime();
BENCHMARK(quantized_vector_8)->UseRealTime();
BENCHMARK(quantized_vector_q4_0)->UseRealTime();
BENCHMARK(quantized_vector_q8_0)->UseRealTime();
BENCHMARK(float_vector)->UseRealTime();
BENCHMARK(sgemv_8192)->UseRealTime();
BENCHMARK(quantized_rows_4)->UseRealTime();
BENCHMARK(quantized_rows_8)->UseRealTime();
BENCHMARK(float_rows)->UseRealTime();
BENCHMARK(quantized_matmul_rows)->Apply(rows_of_x)->UseRealTime();

}  // namespace
