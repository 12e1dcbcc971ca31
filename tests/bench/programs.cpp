// Programs of many operations: a step of training, gradients of each example, and a chain of elementwise operations.
// peers.py has the same ones, and the same numbers that they must give.
#include <algorithm>
#include <cmath>
#include <vector>

#include "bench.h"

namespace {

using namespace stave_bench;

// ---- a network of 784-256-256-10 -------------------------------------------------------------------------------

struct Mlp {
  Tensor w1, b1, w2, b2, w3, b3;
};
Mlp make_mlp() {
  return {scattered({784, 256}, 0.2), scattered({256}, 0.2), scattered({256, 256}, 0.2),
          scattered({256}, 0.2),      scattered({256, 10}),  scattered({10})};
}

constexpr Index batch = 128;
Tensor make_pixels() { return scattered({batch, 784}); }
Tensor make_labels() { return one_hot(arange(batch) % 10, 10); }

Tensor logits(const Mlp& mlp, const Tensor& pixels) {
  const Tensor h1 = relu(matmul(pixels, mlp.w1) + mlp.b1);
  const Tensor h2 = relu(matmul(h1, mlp.w2) + mlp.b2);
  return matmul(h2, mlp.w3) + mlp.b3;
}

/// Cross entropy of one example, or the mean of a batch's.
Tensor loss(const Mlp& mlp, const Tensor& pixels, const Tensor& labels) {
  const Tensor z = logits(mlp, pixels);
  return mean(logsumexp(z, -1) - sum(labels * z, -1));
}

// By NumPy in float64, to six digits.
constexpr double mlp_loss = 2.39380, mlp_gradient_norm = 1.62219;
bool near(double a, double b) { return std::abs(a - b) <= 1e-4 * std::abs(b); }

void mlp_step(benchmark::State& state) {
  const Mlp mlp = make_mlp();
  const Tensor pixels = make_pixels(), labels = make_labels();
  const auto step = value_and_grad(loss);
  const auto [value, gradient] = step(mlp, pixels, labels);
  if (!near(value.item<double>(), mlp_loss) || !near(global_norm(gradient).item<double>(), mlp_gradient_norm))
    return state.SkipWithError("another loss or gradient than NumPy's");
  measure(state, [&] { return step(mlp, pixels, labels); });
}

// ---- gradients of each example ---------------------------------------------------------------------------------

/// rows[i] (column) x columns[i] (row), for each example.
Tensor outer_products(const Tensor& rows, const Tensor& columns) {
  return matmul(expand_dims(rows, 2), expand_dims(columns, 1));
}

/// What vmap(grad(loss)) computes, batched and differentiated by hand, with the operations that the rules use.
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

const auto gradients_by_vmap = vmap(grad(loss), {.in_axes = {unmapped, 0, 0}});

bool agree(const Mlp& a, const Mlp& b) {
  const std::vector<Tensor> as = tree_leaves(a), bs = tree_leaves(b);
  return std::equal(as.begin(), as.end(), bs.begin(),
                    [](const Tensor& x, const Tensor& y) { return allclose(x, y, 1e-3, 1e-5); });
}

template <class F>
void per_example(benchmark::State& state, const F& gradients) {
  const Mlp mlp = make_mlp();
  const Tensor pixels = make_pixels(), labels = make_labels();
  measure(state, [&] { return gradients(mlp, pixels, labels); });
}
void per_example_vmap(benchmark::State& state) { per_example(state, gradients_by_vmap); }
void per_example_hand(benchmark::State& state) {
  const Mlp mlp = make_mlp();
  const Tensor pixels = make_pixels(), labels = make_labels();
  if (!agree(gradients_by_hand(mlp, pixels, labels), gradients_by_vmap(mlp, pixels, labels)))
    return state.SkipWithError("the gradients by hand are not those of vmap(grad)");
  per_example(state, gradients_by_hand);
}

// ---- elementwise operations ------------------------------------------------------------------------------------

constexpr Index count = Index{1} << 20;
constexpr double elementwise_value = 869177, elementwise_gradient_norm = 5587.85;  // by NumPy in float64

Tensor elementwise_chain(const Tensor& x) {
  Tensor y = x;
  for (int i = 0; i < 10; ++i) y = sin(y) * x + y;
  return sum(y);
}

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

BENCHMARK(mlp_step)->UseRealTime();
BENCHMARK(per_example_vmap)->UseRealTime();
BENCHMARK(per_example_hand)->UseRealTime();
BENCHMARK(elementwise_eager)->UseRealTime();
BENCHMARK(elementwise_grad)->UseRealTime();

}  // namespace
