// Stave: compile records each derivative once, as a program, which it replays. The programs are
// written as a user would write them (models.h), in float64.
#include <memory>
#include <optional>

#include "../models.h"
#include "tools.h"

namespace cpp_tools {

namespace {

using namespace stave;
using stave_bench::some;

Numbers numbers_of(const auto& tree) {
  Numbers all;
  for (const Tensor& leaf : tree_leaves(tree))
    for (const double number : leaf.template to_vector<double>()) all.push_back(number);
  return all;
}

template <class F, class... A>
Derivative derivative_of(std::string program, const F& f, const A&... inputs) {
  const auto compiled = compile(f);
  const auto result = std::make_shared<std::optional<decltype(compiled(inputs...))>>();
  return {std::move(program), "Stave", [=] { *result = compiled(inputs...); }, [=] { return numbers_of(**result); }};
}

Derivative ekf(Index steps) {
  const auto gradient = [](const Tensor& log_noise, const Tensor& seen) {
    return with(DefaultDtype(float64), [&] { return grad(stave_bench::log_likelihood)(log_noise, seen); });
  };
  const Tensor seen = with(DefaultDtype(float64), [&] { return stave_bench::ekf_measurements(steps); });
  return derivative_of(Ekf{static_cast<std::size_t>(steps)}.name(), gradient, full({4}, -6., float64), seen);
}

struct Layer {
  Tensor weights, offsets;
};

Tensor network_loss(const std::vector<Layer>& layers, const Tensor& pixels, const Tensor& labels) {
  Tensor x = pixels;
  for (const Layer& layer : layers) {
    if (&layer != &layers.front()) x = tanh(x);
    x = matmul(x, layer.weights) + layer.offsets;
  }
  return mean(logsumexp(x, -1) - sum(labels * x, -1));
}

Derivative network() {
  constexpr auto widths = Network::widths;
  std::vector<Layer> layers;
  for (std::size_t k = 0; k < 3; ++k) {
    const auto rows = static_cast<Index>(widths[k]), columns = static_cast<Index>(widths[k + 1]);
    layers.push_back({some({rows, columns}, 0.5), some({columns}, 1)});
  }
  const Index batch = Network::batch;
  const Tensor labels = astype(one_hot(arange(batch) % 10, 10), float64);
  return derivative_of(Network().name(), grad(network_loss), layers, some({batch, Index{widths[0]}}, 1), labels);
}

Derivative lstm() {
  using stave_bench::lstm_bits, stave_bench::lstm_layers;
  return derivative_of(Lstm().name(), grad<0, 1>(stave_bench::lstm_loss), some({2 * lstm_layers, 4 * lstm_bits}, 2),
                       some({3, lstm_bits}, 2), some({2 * lstm_layers, lstm_bits}, 1), stave_bench::lstm_text(1024));
}

}  // namespace

std::vector<Derivative> by_stave() {
  const auto lorenz = grad([](const Tensor& start) { return stave_bench::lorenz_end(start, 0.01); });
  const auto logsumexp_of_all = grad([](const Tensor& x) { return logsumexp(x); });
  const stave_bench::Hand model = stave_bench::some_hand();
  const auto hand = jacfwd([model](const Tensor& x) { return hand_residuals(model, x); });
  return {ekf(1),
          derivative_of(Lorenz().name(), lorenz, ones({3}, float64)),
          ekf(50),
          derivative_of(LogSumExp().name(), logsumexp_of_all, some({100'000}, 4)),
          network(),
          lstm(),
          derivative_of(Hand().name(), hand, some({26}, 0.5))};
}

}  // namespace cpp_tools
