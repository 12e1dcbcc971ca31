// Programs that are measured on the CPU and, if there is one, on a GPU: a training step, and a
// chain of elementwise operations. peers.py has the same programs and the same expected results.
#pragma once

#include <cmath>

#include "bench.h"

namespace stave_bench {

// ---- a network of 784-256-256-10 ----------------------------------------------------------------

struct Mlp {
  Tensor w1, b1, w2, b2, w3, b3;
};
inline Mlp make_mlp(Device device = cpu) {
  const auto weights = [&](const Shape& shape, double size) { return to(scattered(shape, size), device); };
  return {weights({784, 256}, 0.2), weights({256}, 0.2),    weights({256, 256}, 0.2),
          weights({256}, 0.2),      weights({256, 10}, 1.), weights({10}, 1.)};
}

constexpr Index batch = 128;
inline Tensor make_pixels(Device device = cpu) { return to(scattered({batch, 784}), device); }
inline Tensor make_labels(Device device = cpu) { return to(one_hot(arange(batch) % 10, 10), device); }

inline Tensor logits(const Mlp& mlp, const Tensor& pixels) {
  const Tensor h1 = relu(matmul(pixels, mlp.w1) + mlp.b1);
  const Tensor h2 = relu(matmul(h1, mlp.w2) + mlp.b2);
  return matmul(h2, mlp.w3) + mlp.b3;
}

/// Returns the cross entropy of one example, or the mean over a batch.
inline Tensor loss(const Mlp& mlp, const Tensor& pixels, const Tensor& labels) {
  const Tensor z = logits(mlp, pixels);
  return mean(logsumexp(z, -1) - sum(labels * z, -1));
}

// Computed by NumPy in float64, to six digits.
constexpr double mlp_loss = 2.39380, mlp_gradient_norm = 1.62219;
inline bool near(double a, double b) { return std::abs(a - b) <= 1e-4 * std::abs(b); }

/// Measures f(), including the device's part of it.
template <class F>
void measure_on(Device device, benchmark::State& state, F&& f, int operations = 1) {
  measure(
      state,
      [&] {
        auto result = f();
        synchronize(device);
        return result;
      },
      operations);
}

inline void measure_mlp_step(benchmark::State& state, Device device = cpu) {
  const Mlp mlp = make_mlp(device);
  const Tensor pixels = make_pixels(device), labels = make_labels(device);
  const auto step = value_and_grad(loss);
  const auto [value, gradient] = step(mlp, pixels, labels);
  if (!near(value.item<double>(), mlp_loss) || !near(global_norm(gradient).item<double>(), mlp_gradient_norm))
    return state.SkipWithError("another loss or gradient than NumPy's");
  measure_on(device, state, [&] { return step(mlp, pixels, labels); });
}

/// The gradients of each example.
inline const auto gradients_by_vmap = vmap(grad(loss), {.in_axes = {unmapped, 0, 0}});

template <class F>
void measure_per_example(benchmark::State& state, const F& gradients, Device device = cpu) {
  const Mlp mlp = make_mlp(device);
  const Tensor pixels = make_pixels(device), labels = make_labels(device);
  measure_on(device, state, [&] { return gradients(mlp, pixels, labels); });
}

// ---- elementwise operations ---------------------------------------------------------------------

inline Tensor elementwise_chain(const Tensor& x) {
  Tensor y = x;
  for (int i = 0; i < 10; ++i) y = sin(y) * x + y;
  return sum(y);
}

// ---- a long chain, for which a tape that saves everything takes 4 GB ----------------------------

inline Tensor make_squared() { return 1 - square(scattered({1 << 20})) * 1e-3; }
inline Tensor squares(const Tensor& x) {
  Tensor b = x;
  for (int i = 0; i < 1000; ++i) b = b * b;
  return sum(b);
}

}  // namespace stave_bench
