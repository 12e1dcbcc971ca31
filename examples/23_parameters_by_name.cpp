// A network as a plain function. Layers request their parameters by name, request keys when they
// draw random numbers, and report what they have computed; no argument is passed through. Handlers
// and transforms outside answer: the same function is initialised, trained, observed and turned
// into an ensemble.
#include <cstdint>
#include <iostream>
#include <string>
#include <tuple>

#include <stave/stave.h>

#include "check.h"
#include "digits.h"

using namespace stave;

Tensor dense(const std::string& name, const Tensor& x, Index features) {
  const Scope scope(name);
  return matmul(x, param("w", {x.shape(-1), features}, he_normal)) + param("b", zeros({features}));
}

Tensor network(const Tensor& x, bool training) {  // of one example
  Tensor h = sow("features", relu(dense("hidden", x, 128)));
  if (training) h = dropout(next_key(), h, 0.5);
  return dense("out", h, 10);
}

// Each example drops features of its own.
Tensor loss(const NamedTensors& params, const Tensor& xs, const Tensor& labels) {
  const auto examples = vmap_with_keys(network, {.in_axes = {0, unmapped}});
  return cross_entropy(functional_call(examples, params)(xs, true), labels);
}

struct Trained {
  NamedTensors params;
  AdamState<NamedTensors> state;
};

Tensor logits(const NamedTensors& params, const Tensor& xs) { return functional_call(network, params)(xs, false); }
double accuracy(const Tensor& scores, const Tensor& labels) {
  return mean(astype(argmax(scores, -1) == labels, float64)).item<double>();
}

struct Last : ReportListener {
  NamedTensors values;
  void reported(const std::string& name, const Tensor& value) override { values[name] = value; }
};

int main() {
  const Digits digits = read_digits(STAVE_EXAMPLE_DATA "/digits.csv");
  constexpr Index training = 1438, batch_size = 64, batches = 880;
  const Tensor xs = digits.pixels(slice(training)), labels = digits.labels(slice(training));
  const Tensor test_xs = digits.pixels(slice(training, none)), test_labels = digits.labels(slice(training, none));

  const auto initial = [&](const Key& key) { return init_params(network)(key, xs[0], false); };
  const auto optimizer = adam({.learning_rate = 2e-3});
  const auto step = compile([&](const Trained& now, const Key& key, const Tensor& x, const Tensor& y) {
    const auto [value, slope] = value_and_grad(seed(loss, key))(now.params, x, y);
    const auto [params, state] = optimizer.update(now.params, slope, now.state);
    return std::pair(value, Trained{params, state});
  });

  const auto train = [&](const Key& key) {
    const NamedTensors params = initial(key);
    Trained now{params, optimizer.init(params)};
    for (Index i = 0; i < batches; ++i) {
      const Tensor chosen = permutation(fold_in(Key(1), static_cast<std::uint32_t>(i)), training)(slice(batch_size));
      Tensor value;
      std::tie(value, now) = step(now, fold_in(key, static_cast<std::uint32_t>(i)), xs(chosen), labels(chosen));
      report("loss", value);
      progress(i + 1, batches);
    }
    return now.params;
  };

  Last last;
  const NamedTensors params = with(last, [&] { return with(PrintProgress(), [&] { return train(Key(0)); }); });
  std::cout << "parameters:";
  for (const auto& [name, value] : params) std::cout << " " << name << value.shape();
  std::cout << "\n";
  check(params.size() == 4 && params.contains("hidden/w"), "names are those of scopes and parameters");
  const double alone = accuracy(logits(params, test_xs), test_labels);
  std::cout << "loss " << last.values.at("loss") << ", accuracy " << alone << "\n";
  check(alone > 0.9, "the network reads digits");

  // The intermediate values of the network, and the output without one of them.
  const auto [scores, sown] = harvest(functional_call(network, params))(test_xs, false);
  const NamedTensors nothing{{"features", zeros_like(sown.at("features"))}};
  const Tensor without = plant(functional_call(network, params), nothing)(test_xs, false);
  check(array_equal(sown.at("features"), relu(matmul(test_xs, params.at("hidden/w")) + params.at("hidden/b"))),
        "features are those of the hidden layer");
  check(array_equal(without[0], params.at("out/b")), "without features only the bias is left");

  // The dropout masks differ between lanes, and equal those of a loop over examples.
  const auto drop = [](const Tensor& x) { return dropout(next_key(), x, 0.5); };
  const Tensor masks = seed(vmap_with_keys(drop), Key(3))(ones({4, 8}));
  const Tensor keys = split(Key(split(Key(3), 1)[0]), 4);
  for (Index i = 0; i < 4; ++i)
    check(array_equal(masks[i], seed(drop, Key(keys[i]))(ones({8}))), "each lane draws what a loop gives it");
  check(!array_equal(masks[0], masks[1]), "masks differ by lane");

  // An ensemble is a vmap over parameters.
  const NamedTensors other = train(Key(7));
  const NamedTensors both = tree_map([](const Tensor& a, const Tensor& b) { return stack({a, b}); }, params, other);
  const Tensor votes = vmap(logits, {.in_axes = {0, unmapped}})(both, test_xs);
  const double together = accuracy(mean(softmax(votes), 0), test_labels);
  std::cout << "accuracy of two networks together " << together << "\n";
  check(together > 0.9, "an ensemble is a vmap over parameters");
}
