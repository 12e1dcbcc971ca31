// Fourier transforms, special functions (numbers.h), and products of complex matrices beside BLAS.
// The counter `norm` is the norm of the results, with which the peers' norms must agree.
#include <cblas.h>
#include <tbb/task_arena.h>

#include <cmath>
#include <complex>
#include <functional>
#include <vector>

#include "bench.h"
#include "numbers.h"

// A function of OpenBLAS (matmul.cpp).
extern "C" __attribute__((weak)) void openblas_set_num_threads(int count);

namespace {

using namespace stave_bench;

using Computation = std::function<std::vector<Tensor>()>;  // owns its inputs

// ---- inputs: peer_numbers.py makes the same ones ------------------------------------------------

/// Returns numbers between 0 and 1 in an order that no processor predicts, another one for each
/// argument of a function. They are cubes modulo a prime p. 3 does not divide p - 1, so that all
/// are different.
Tensor irregular(const Shape& shape, int argument) {
  constexpr Index prime = 1000037, start = 100003;
  const Tensor i = (arange(0, shape.elements(), 1, int64) + argument * start) % prime;
  return reshape((astype(i * i % prime * i % prime, float64) + 0.5) / static_cast<double>(prime), shape);
}
Tensor real_signal(const Shape& shape) { return irregular(shape, 0) - 0.5; }
Tensor complex_signal(const Shape& shape) { return stave::complex(real_signal(shape), irregular(shape, 1) - 0.5); }

// ---- computations -------------------------------------------------------------------------------

Computation along_last(const Shape& shape, bool is_real) {
  const Tensor x = is_real ? real_signal(shape) : complex_signal(shape);
  return [=] { return std::vector{is_real ? rfft(x) : fft(x)}; };
}
Computation along_all(const Shape& shape, bool is_real) {
  const Tensor x = is_real ? real_signal(shape) : complex_signal(shape);
  return [=] { return std::vector{is_real ? rfftn(x) : fftn(x)}; };
}

Computation fft_1m() { return along_last({1 << 20}, false); }
Computation fft_1m_real() { return along_last({1 << 20}, true); }
Computation fft_rows() { return along_last({4096, 1024}, false); }
Computation fft_rows_real() { return along_last({4096, 1024}, true); }
Computation fft_prime() { return along_last({10007}, false); }
Computation fft_prime_real() { return along_last({10007}, true); }
Computation fft_3d() { return along_all({128, 128, 128}, false); }
Computation fft_3d_real() { return along_all({128, 128, 128}, true); }

// Functions with a constant.
Tensor multigammaln(const Tensor& a) { return stave::multigammaln(a, 3); }
Tensor bessel_jn(const Tensor& x) { return stave::bessel_jn(5, x); }
Tensor expn(const Tensor& x) { return stave::expn(3, x); }
Tensor weighted_logsumexp(const Tensor& x, const Tensor& weights) { return stave::logsumexp(x, weights, 0); }

/// Returns the computation of f at a million arguments within the ranges.
template <class F>
Computation at_million(F f, const std::vector<double>& ranges) {
  std::vector<Tensor> x;
  for (std::size_t i = 0; 2 * i < ranges.size(); ++i)
    x.push_back(ranges[2 * i] + (ranges[2 * i + 1] - ranges[2 * i]) * irregular({1000000}, static_cast<int>(i)));
  return [=] {
    if constexpr (std::is_invocable_v<F, Tensor>) return tree_leaves(f(x[0]));
    else if constexpr (std::is_invocable_v<F, Tensor, Tensor>) return tree_leaves(f(x[0], x[1]));
    else if constexpr (std::is_invocable_v<F, Tensor, Tensor, Tensor>) return tree_leaves(f(x[0], x[1], x[2]));
    else return tree_leaves(f(x[0], x[1], x[2], x[3]));
  };
}

// ---- measuring ----------------------------------------------------------------------------------

void compare(benchmark::State& state, const Computation& compute) {
  double squares = 0;
  for (const Tensor& x : compute()) squares += std::pow(norm(abs(x)).item<double>(), 2);
  state.counters["norm"] = std::sqrt(squares);
  measure(state, compute);
}
/// Measures on one thread, because SciPy's special functions have one.
void compare_alone(benchmark::State& state, const std::function<Computation()>& make) {
  const Computation compute = make();
  tbb::task_arena(1).execute([&] { compare(state, compute); });
}

[[maybe_unused]] const bool registered = [] {
#define X(name) \
  benchmark::RegisterBenchmark(#name, [](benchmark::State& state) { compare(state, name()); })->UseRealTime();
  STAVE_COMPARED_TRANSFORMS(X)
#undef X
#define X(name, ...)                                                                                         \
  benchmark::RegisterBenchmark("special_" #name, [](benchmark::State& state) {                               \
    compare_alone(state, [] {                                                                                \
      return at_million([](const auto&... x) -> decltype(name(x...)) { return name(x...); }, {__VA_ARGS__}); \
    });                                                                                                      \
  })->UseRealTime();
  STAVE_COMPARED_SPECIAL_FUNCTIONS(X)
#undef X
  return true;
}();

// ---- products of complex matrices ---------------------------------------------------------------

constexpr Index size = 512;
struct Operands {
  Tensor a = astype(complex_signal({size, size}), complex64), b = matrix_transpose(a) + 0.25;
};

void complex_matmul_512(benchmark::State& state) {
  const Operands x;
  measure(state, [&] { return matmul(x.a, x.b); });
}
void cgemm_512(benchmark::State& state) {
  const Operands x;
  using Complex = std::complex<float>;
  const Tensor right = contiguous(x.b);
  std::vector<Complex> out(static_cast<std::size_t>(size * size));
  const Complex one = 1, zero = 0;
  if (openblas_set_num_threads) openblas_set_num_threads(tbb::this_task_arena::max_concurrency());
  constexpr int n = static_cast<int>(size);
  measure(state, [&] {
    cblas_cgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n, n, &one, x.a.data<Complex>().data(), n,
                right.data<Complex>().data(), n, &zero, out.data(), n);
    return out[0];
  });
  if (!allclose(matmul(x.a, x.b), from(out, {size, size}), 1e-4, 1e-3)) state.SkipWithError("matmul and BLAS disagree");
}
BENCHMARK(complex_matmul_512)->UseRealTime();
BENCHMARK(cgemm_512)->UseRealTime();

}  // namespace
