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

const Shape row(100000), grid(300, 300);
BENCHMARK_CAPTURE(benchmark_function<chain>, chain_of_springs, row)->Name("sparsity_chain");
BENCHMARK_CAPTURE(benchmark_pattern<chain>, pattern, row)->Name("sparsity_chain_pattern");
BENCHMARK_CAPTURE(benchmark_values<chain>, values, row)->Name("sparsity_chain_values");
BENCHMARK_CAPTURE(benchmark_function<laplacian>, laplacian, grid)->Name("sparsity_laplacian");
BENCHMARK_CAPTURE(benchmark_pattern<laplacian>, pattern, grid)->Name("sparsity_laplacian_pattern");
BENCHMARK_CAPTURE(benchmark_values<laplacian>, values, grid)->Name("sparsity_laplacian_values");

}  // namespace
}  // namespace stave_bench
