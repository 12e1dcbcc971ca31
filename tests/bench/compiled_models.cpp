// Whole compiled models, beside JAX and PyTorch (peer_models.py): the gradient of an extended
// Kalman filter, a transition of Hamiltonian Monte Carlo, a training step of a transformer.
#include <cmath>
#include <tuple>
#include <vector>

#include "models.h"

namespace {

using namespace stave_bench;

// ---- an extended Kalman filter ------------------------------------------------------------------

void compiled_ekf_gradient(benchmark::State& state) {
  compare(state, compile(grad(log_likelihood)), full({4}, -6.), ekf_measurements(50));
}

// ---- Hamiltonian Monte Carlo: 64 chains on the posterior of a logistic regression ---------------

// Each row of `points` is a point times its label, 1 or -1.
Tensor log_posterior(const Tensor& q, const Tensor& points) {
  return -sum(softplus(-matmul(points, q))) - vecdot(q, q) / 2;
}

// A transition for given random numbers: ten leapfrog steps, and the decision whether to accept
// them.
Tensor transition(const Tensor& q, const Tensor& momentum, const Tensor& chance, const Tensor& points) {
  constexpr double step = 0.05;
  constexpr int steps = 10;
  const auto energy = [&](const Tensor& at, const Tensor& p) { return vecdot(p, p) / 2 - log_posterior(at, points); };
  const auto slope = grad([&](const Tensor& at) { return log_posterior(at, points); });
  Tensor at = q, p = momentum + step / 2 * slope(q);
  for (int i = 0; i < steps; ++i) {
    at = at + step * p;
    p = p + (i + 1 < steps ? step : step / 2) * slope(at);
  }
  return where(log(chance) < energy(q, momentum) - energy(at, p), at, q);
}

void hmc_of_points(benchmark::State& state) {
  const Tensor points = scattered({128, 8}, 4), starts = scattered({64, 8});
  const Tensor momenta = scattered({65, 8}, 3)(slice(1, none)), chances = scattered({64}) + 0.501;
  compare(state, compile(vmap(transition, {.in_axes = {0, 0, 0, unmapped}})), starts, momenta, chances, points);
}

// ---- a transformer of characters, as in examples/20 ---------------------------------------------

constexpr Index length = 64, width = 64, heads = 4, batch_size = 16, characters = 64;

struct Norm {
  Tensor scale, shift;
};
struct Block {
  Norm norm1;
  Tensor qkv, out;
  Norm norm2;
  Tensor up, up_shift, down, down_shift;
};
struct Transformer {
  Tensor characters, places;
  std::vector<Block> blocks;
  Norm norm;
  Tensor next;
};

Transformer make_transformer() {
  const auto weights = [](Index rows, Index columns) {
    return scattered({rows, columns}, 2 / std::sqrt(static_cast<double>(rows)));
  };
  const Norm norm{ones({width}), zeros({width})};
  const Block block{norm,
                    weights(width, 3 * width),
                    weights(width, width),
                    norm,
                    weights(width, 4 * width),
                    zeros({4 * width}),
                    weights(4 * width, width),
                    zeros({width})};
  return {weights(characters, width), weights(length, width), {block, block}, norm, weights(width, characters)};
}

Tensor apply_norm(const Norm& norm, const Tensor& x) {
  return layer_norm(x, {.weight = norm.scale, .bias = norm.shift});
}

Tensor attention(const Block& block, const Tensor& x) {
  const Tensor all = reshape(matmul(x, block.qkv), {length, 3, heads, width / heads});
  const auto [q, k, v] = unstack<3>(permute_dims(all, {1, 2, 0, 3}));
  const Tensor found = scaled_dot_product_attention(q, k, v, {.causal = true});
  return matmul(reshape(moveaxis(found, 0, 1), {length, width}), block.out);
}

Tensor loss_of_one(const Transformer& net, const Tensor& window) {
  Tensor x = embedding(net.characters, window(slice(-1))) + net.places;
  for (const Block& block : net.blocks) {
    x = x + attention(block, apply_norm(block.norm1, x));
    const Tensor inner = gelu_tanh(matmul(apply_norm(block.norm2, x), block.up) + block.up_shift);
    x = x + matmul(inner, block.down) + block.down_shift;
  }
  return cross_entropy(matmul(apply_norm(net.norm, x), net.next), window(slice(1, none)));
}

Tensor transformer_loss(const Transformer& net, const Tensor& windows) {
  return mean(vmap(loss_of_one, {.in_axes = {unmapped, 0}})(net, windows));
}

void compiled_transformer_step(benchmark::State& state) {
  const auto optimizer = adam({.learning_rate = 1e-3});
  const Transformer net = make_transformer();
  const auto moments = optimizer.init(net);
  const Tensor windows =
      reshape(arange(batch_size * (length + 1)) * 7919 % 1009 % characters, {batch_size, length + 1});
  const auto step = [&](const Transformer& now, const auto& past, const Tensor& seen) {
    const auto [value, gradient] = value_and_grad(transformer_loss)(now, seen);
    return std::tuple_cat(std::tuple(value), optimizer.update(now, gradient, past));
  };
  compare(state, compile(step), net, moments, windows);
}

BENCHMARK(compiled_ekf_gradient)->UseRealTime();
BENCHMARK(hmc_of_points)->UseRealTime();
BENCHMARK(compiled_transformer_step)->UseRealTime();

}  // namespace
