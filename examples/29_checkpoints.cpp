// A training run that is interrupted resumes from its last checkpoint, and reaches the same
// parameters, bit for bit, as an uninterrupted one. Other programs can read the parameters from
// .safetensors files.
#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <optional>
#include <string>

#include <stave/stave.h>

#include "check.h"

using namespace stave;

struct Model {
  Tensor weight, bias;
  static constexpr const char* names[] = {"weight", "bias"};
};
struct Training {
  Model model;
  AdamState<Model> optimizer;
  Key key{0};
};

const Tensor truth = tensor({1., -2., 3.});

Tensor loss(const Model& model, const Key& key) {
  const auto [for_xs, for_noise] = split<2>(key);
  const Tensor xs = normal(for_xs, {32, 3}), ys = matmul(xs, truth) + 0.5 + normal(for_noise, {32}) * 0.1;
  return mse_loss(matmul(xs, model.weight) + model.bias, ys);
}

const Adam optimizer = adam({.learning_rate = 0.05});

Training update(const Training& now) {
  const auto [next, drawn] = split<2>(now.key);
  const auto [model, state] = optimizer.update(now.model, grad(loss)(now.model, drawn), now.optimizer);
  return {model, state, next};
}

// Ends after `patience` steps, if that comes before all steps are done.
Training train(const std::string& folder, Index steps, Index patience) {
  const Model model{zeros({3}), zeros({})};
  Training now{model, optimizer.init(model), Key(1)};
  const Checkpoints checkpoints(folder, {.keep = 2});
  if (const auto step = checkpoints.latest()) now = checkpoints.load(*step, now);
  for (Index step = now.optimizer.step.item<Index>(); step < steps && patience > 0; --patience) {
    now = update(now);
    if (++step % 100 == 0) checkpoints.save(step, now);
  }
  return now;
}

int main() {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / ("stave-checkpoints-" + std::to_string(getpid()));
  const std::string ended = folder / "ended", whole = folder / "whole", file = folder / "model.safetensors";

  train(ended, 600, 350);
  std::cout << "ended after step 350; checkpoints of steps";
  for (const Index step : Checkpoints(ended).steps()) std::cout << " " << step;
  std::cout << "\n";
  const Training resumed = train(ended, 600, 1000), at_once = train(whole, 600, 1000);
  check(array_equal(resumed.model.weight, at_once.model.weight) && array_equal(resumed.model.bias, at_once.model.bias),
        "a training that goes on comes to the same parameters");
  check(allclose(resumed.model.weight, truth, 0, 0.05), "they are found");

  save_safetensors(file, resumed.model, {.metadata = {{"format", "pt"}}});
  const Model model = load_safetensors<Model>(file);
  std::cout << "weight " << model.weight.shape() << " and bias " << model.bias.shape() << " in a .safetensors file\n";
  check(array_equal(model.weight, resumed.model.weight), "a file holds what it was given");
  fs::remove_all(folder);
}
