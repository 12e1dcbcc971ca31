// Sparse Jacobians (handlers/structure): the time to find a pattern, and to compute the entries,
// beside that of the function itself.
#include <stave/handlers/structure/sparse_jacobian.h>

#include "bench.h"

namespace stave_bench {
namespace {

Tensor point(const Shape& shape) { return uniform(Key(1), shape, float64) - 0.5; }

/// Springs between 10^5 neighbours in a row.
Tensor chain(const Tensor& x) {
  const Tensor stretch = x(slice(1, none)) - x(slice(none, -1)), force = stretch + 0.1 * stretch * stretch * stretch;
  return pad(force, {{0, 1}}) - pad(force, {{1, 0}}) - 0.01 * sin(x);
}

/// A reaction and diffusion on a grid of 300 x 300 points, by the five-point Laplacian.
Tensor laplacian(const Tensor& u) {
  const Tensor w = pad(u, {{1, 1}, {1, 1}});
  const Tensor::Slice inside = slice(1, -1);
  return w(slice(2, none), inside) + w(slice(none, -2), inside) + w(inside, slice(2, none)) +
         w(inside, slice(none, -2)) - 4. * u + exp(u);
}

template <Tensor (*f)(const Tensor&)>
void benchmark_function(benchmark::State& state, const Shape& shape) {
  const Tensor x = point(shape);
  measure(state, [&] { return f(x); });
}
template <Tensor (*f)(const Tensor&)>
void benchmark_pattern(benchmark::State& state, const Shape& shape) {
  const Tensor x = point(shape);
  measure(state, [&] { return jacobian_sparsity(f)(x); });
}
template <Tensor (*f)(const Tensor&)>
void benchmark_values(benchmark::State& state, const Shape& shape) {
  const Tensor x = point(shape);
  const auto jacobian = sparse_jacobian(f, x);
  measure(state, [&] { return jacobian.values(x); });
}

// The function and the entries as compiled programs.
template <Tensor (*f)(const Tensor&)>
void benchmark_compiled_function(benchmark::State& state, const Shape& shape) {
  const Tensor x = point(shape);
  const auto compiled = compile(f);
  measure(state, [&] { return compiled(x); });
}
template <Tensor (*f)(const Tensor&)>
void benchmark_compiled_values(benchmark::State& state, const Shape& shape) {
  const Tensor x = point(shape);
  const auto jacobian = sparse_jacobian(f, x);
  const auto compiled = compile([&](const Tensor& at) { return jacobian.values(at); });
  measure(state, [&] { return compiled(x); });
}

const Shape row(100000), grid(300, 300);
void sparsity_chain(benchmark::State& state) { benchmark_function<chain>(state, row); }
void sparsity_chain_pattern(benchmark::State& state) { benchmark_pattern<chain>(state, row); }
void sparsity_chain_compiled(benchmark::State& state) { benchmark_compiled_function<chain>(state, row); }
void sparsity_chain_values_compiled(benchmark::State& state) { benchmark_compiled_values<chain>(state, row); }
void sparsity_chain_values(benchmark::State& state) { benchmark_values<chain>(state, row); }
void sparsity_laplacian(benchmark::State& state) { benchmark_function<laplacian>(state, grid); }
void sparsity_laplacian_pattern(benchmark::State& state) { benchmark_pattern<laplacian>(state, grid); }
void sparsity_laplacian_compiled(benchmark::State& state) { benchmark_compiled_function<laplacian>(state, grid); }
void sparsity_laplacian_values_compiled(benchmark::State& state) { benchmark_compiled_values<laplacian>(state, grid); }
void sparsity_laplacian_values(benchmark::State& state) { benchmark_values<laplacian>(state, grid); }
BENCHMARK(sparsity_chain)->UseRealTime();
BENCHMARK(sparsity_chain_pattern)->UseRealTime();
BENCHMARK(sparsity_chain_values)->UseRealTime();
BENCHMARK(sparsity_chain_compiled)->UseRealTime();
BENCHMARK(sparsity_chain_values_compiled)->UseRealTime();
BENCHMARK(sparsity_laplacian)->UseRealTime();
BENCHMARK(sparsity_laplacian_pattern)->UseRealTime();
BENCHMARK(sparsity_laplacian_values)->UseRealTime();
BENCHMARK(sparsity_laplacian_compiled)->UseRealTime();
BENCHMARK(sparsity_laplacian_values_compiled)->UseRealTime();

}  // namespace
}  // namespace stave_bench
