// Programs of many operations (programs.h) on the CPU, per-example gradients beside gradients
// batched by hand, and softmax.
#include <algorithm>
#include <vector>

#include "programs.h"

namespace {

using namespace stave_bench;

void mlp_step(benchmark::State& state) { measure_mlp_step(state); }

// ---- gradients of each example ------------------------------------------------------------------

/// Returns rows[i] (column) x columns[i] (row) for each example.
Tensor outer_products(const Tensor& rows, const Tensor& columns) {
  return matmul(expand_dims(rows, 2), expand_dims(columns, 1));
}

/// Computes the same as vmap(grad(loss)), batched and differentiated by hand, with the operations
/// that the rules use.
Mlp gradients_by_hand(const Mlp& mlp, const Tensor& pixels, const Tensor& labels) {
  const Tensor h1 = relu(matmul(pixels, mlp.w1) + mlp.b1);
  const Tensor h2 = relu(matmul(h1, mlp.w2) + mlp.b2);
  const Tensor z = matmul(h2, mlp.w3) + mlp.b3;
  const auto through_relu = [](const Tensor& ct, const Tensor& h) { return scale(ct, astype(h > 0, float32)); };
  const Tensor z_ct = softmax(z) - labels;
  const Tensor h2_ct = through_relu(matmul(z_ct, transpose(mlp.w3)), h2);
  const Tensor h1_ct = through_relu(matmul(h2_ct, transpose(mlp.w2)), h1);
  return {outer_products(pixels, h1_ct), h1_ct, outer_products(h1, h2_ct), h2_ct, outer_products(h2, z_ct), z_ct};
}

bool agree(const Mlp& a, const Mlp& b) {
  const std::vector<Tensor> as = tree_leaves(a), bs = tree_leaves(b);
  return std::equal(as.begin(), as.end(), bs.begin(),
                    [](const Tensor& x, const Tensor& y) { return allclose(x, y, 1e-3, 1e-5); });
}

void per_example_vmap(benchmark::State& state) { measure_per_example(state, gradients_by_vmap); }
void per_example_hand(benchmark::State& state) {
  const Mlp mlp = make_mlp();
  const Tensor pixels = make_pixels(), labels = make_labels();
  if (!agree(gradients_by_hand(mlp, pixels, labels), gradients_by_vmap(mlp, pixels, labels)))
    return state.SkipWithError("the gradients by hand are not those of vmap(grad)");
  measure_per_example(state, gradients_by_hand);
}

// ---- elementwise operations ---------------------------------------------------------------------

constexpr Index count = Index{1} << 20;
// Computed by NumPy in float64.
constexpr double elementwise_value = 869177, elementwise_gradient_norm = 5587.85;

void elementwise_eager(benchmark::State& state) {
  const Tensor x = scattered({count});
  if (!near(elementwise_chain(x).item<double>(), elementwise_value))
    return state.SkipWithError("another value than NumPy's");
  measure(state, [&] { return elementwise_chain(x); });
}
void elementwise_grad(benchmark::State& state) {
  const Tensor x = scattered({count});
  const auto gradient = grad(elementwise_chain);
  if (!near(norm(gradient(x)).item<double>(), elementwise_gradient_norm))
    return state.SkipWithError("another gradient than NumPy's");
  measure(state, [&] { return gradient(x); });
}

// ---- softmax ------------------------------------------------------------------------------------

constexpr double softmax_norm = 6.3244;  // by NumPy in float64

void softmax_rows(benchmark::State& state) {
  const Tensor x = scattered({4096, 1024}, 20);
  if (!near(norm(softmax(x)).item<double>(), softmax_norm)) return state.SkipWithError("another value than NumPy's");
  measure(state, [&] { return softmax(x); });
}

BENCHMARK(mlp_step)->UseRealTime();
BENCHMARK(per_example_vmap)->UseRealTime();
BENCHMARK(per_example_hand)->UseRealTime();
BENCHMARK(elementwise_eager)->UseRealTime();
BENCHMARK(elementwise_grad)->UseRealTime();
BENCHMARK(softmax_rows)->UseRealTime();

}  // namespace
