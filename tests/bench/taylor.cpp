// Taylor mode (handlers/taylor): compiled, beside JAX's jet (peer_operations.py), and beside nested
// jvp.
#include <functional>
#include <tuple>

#include <stave/handlers/taylor/jet.h>

#include "bench.h"

namespace {

using namespace stave_bench;

// A network of two layers for many points: the trial solution of a differential equation.
struct Layers {
  Tensor w1, w2;
};
Layers make_layers() { return {scattered({64, 64}), scattered({64, 1})}; }
Tensor network(const Layers& layers, const Tensor& x) {
  return matmul(tanh(matmul(x, layers.w1)), layers.w2) * sin(sum(x, -1, keepdims));
}
Tensor make_points() { return scattered({128, 64}); }

Tensor elementwise(const Tensor& x) { return tanh(sin(x) * exp(x)) / (1. + square(x)); }

void jet_network(benchmark::State& state) {
  const auto series = compile([](const Layers& layers, const Tensor& x) {
    return taylor([&](const Tensor& at) { return network(layers, at); }, 10)(x, ones_like(x));
  });
  compare(state, series, make_layers(), make_points());
}

void jet_elementwise(benchmark::State& state) {
  const auto series = compile([](const Tensor& x) { return taylor(elementwise, 10)(x, ones_like(x)); });
  compare(state, series, scattered({1 << 14}));
}

// Order 4, as operations are performed.
void jet_order_4(benchmark::State& state) {
  const Tensor x = scattered({64}), v = ones_like(x);
  measure(state, [&] { return taylor(elementwise, 4)(x, v); });
}
void nested_jvp_order_4(benchmark::State& state) {
  using Function = std::function<Tensor(const Tensor&)>;
  const Tensor x = scattered({64}), v = ones_like(x);
  const auto along = [&](Function f) -> Function {
    return [f = std::move(f), v](const Tensor& at) { return jvp(f, at, v).second; };
  };
  const Function slope = along(along(along(along(elementwise))));
  measure(state, [&] { return slope(x); });
}

BENCHMARK(jet_network)->UseRealTime();
BENCHMARK(jet_elementwise)->UseRealTime();
BENCHMARK(jet_order_4)->UseRealTime();
BENCHMARK(nested_jvp_order_4)->UseRealTime();

}  // namespace
