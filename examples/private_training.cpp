// Private training: a network learns to read digits, and the influence of each single image on it
// is limited.
//
// This is DP-SGD (Abadi et al., "Deep Learning with Differential Privacy", CCS 2016). In each step,
// the gradient of every example is clipped to a norm of at most 1, over all parameters together.
// The clipped gradients are summed, and noise that hides the contribution of each example is added.
// So the algorithm needs the gradient of each example, while plain training needs only their mean.
// Here the loss is a plain function of one example, and vmap(grad(loss)) gives the gradients of
// all.
//
// The privacy of the result, as an epsilon and a delta, is not computed here. The theory assumes
// batches that are drawn at random and independently; here they are the parts of a random order.
//
//   private_training [file]      default: data/digits.csv beside this source file
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <sstream>
#include <string>
#include <vector>

#include <stave/stave.h>

#include "digits.h"

using namespace stave;

struct Mlp {
  Tensor w1, b1, w2, b2;
};

// ---- the model, for one example -----------------------------------------------------------------

Tensor logits(const Mlp& mlp, const Tensor& pixels) {
  const Tensor hidden = tanh(matmul(pixels, mlp.w1) + mlp.b1);
  return matmul(hidden, mlp.w2) + mlp.b2;
}

Tensor loss(const Mlp& mlp, const Tensor& pixels, const Tensor& label) {
  return -take(log_softmax(logits(mlp, pixels)), label);
}

Mlp random_mlp(const Key& key) {
  const auto [key1, key2] = split(key);
  return {normal(key1, {64, 64}) / 8, zeros({64}), normal(key2, {64, 10}) / 8, zeros({10})};
}

// ---- training -----------------------------------------------------------------------------------

// The learning rate was chosen by cross-validation on the training digits.
constexpr Index batch_size = 128;
constexpr int passes = 20;
constexpr double learning_rate = 0.25, clip_norm = 1;

Mlp clipped_gradient(const Mlp& mlp, const Tensor& pixels, const Tensor& label) {
  const Mlp gradient = grad(loss)(mlp, pixels, label);
  const Tensor factor = minimum(1, clip_norm / global_norm(gradient));
  return tree_map([&](const Tensor& g) { return factor * g; }, gradient);
}

// The standard deviation of the noise is noise_multiplier times the largest contribution of one
// example.
Mlp private_gradient(const Mlp& mlp, const Digits& batch, double noise_multiplier, const Key& key) {
  const Mlp clipped = vmap(clipped_gradient, {.in_axes = {unmapped, 0, 0}})(mlp, batch.pixels, batch.labels);
  std::uint32_t leaf = 0;
  return tree_map(
      [&](const Tensor& gradients) {
        const Tensor total = sum(gradients, 0);
        const Tensor noise = noise_multiplier * clip_norm * normal(fold_in(key, leaf++), total.shape());
        return (total + noise) / batch_size;
      },
      clipped);
}

Digits select(const Digits& digits, const Tensor& indices) {
  return {take(digits.pixels, indices), take(digits.labels, indices)};
}

template <class AfterPass>
Mlp train(const Digits& digits, double noise_multiplier, const Key& key, AfterPass after_pass) {
  const auto [initial_key, order_key, noise_key] = split<3>(key);
  Mlp mlp = random_mlp(initial_key);
  const Momentum optimizer = momentum({.learning_rate = learning_rate, .decay = 0.9});
  MomentumState<Mlp> state = optimizer.init(mlp);
  std::uint32_t step = 0;
  for (int pass = 0; pass < passes; ++pass) {
    const Tensor order = permutation(fold_in(order_key, pass), digits.labels.size());
    for (Index end = batch_size; end <= order.size(); end += batch_size) {
      const Digits batch = select(digits, order[slice(end - batch_size, end)]);
      const Mlp gradient = private_gradient(mlp, batch, noise_multiplier, fold_in(noise_key, step++));
      std::tie(mlp, state) = optimizer.update(mlp, gradient, state);
    }
    after_pass();
  }
  return mlp;
}

double accuracy(const Mlp& mlp, const Digits& digits) {
  const Tensor guesses = argmax(vmap(logits, {.in_axes = {unmapped, 0}})(mlp, digits.pixels), 1);
  return mean(astype(guesses == digits.labels, float32)).item<double>();
}

// ---- what is reported ---------------------------------------------------------------------------

// Prints the first and the last operations that the gradient of one example performs.
void show_operations(const Mlp& mlp, const Tensor& pixels, const Tensor& label) {
  constexpr std::size_t shown = 4;
  std::stringstream trace;
  debug(grad(loss), {.out = &trace})(mlp, pixels, label);
  std::vector<std::string> lines;
  for (std::string line; std::getline(trace, line);) lines.push_back(line);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i == shown) std::printf("  ... %zu more ...\n", lines.size() - 2 * shown);
    if (i < shown || i + shown >= lines.size()) std::printf("%s\n", lines[i].c_str());
  }
}

struct Accuracies {
  double without_noise = 0, with_noise = 0;
};

// Returns the mean accuracies of several training runs from different keys.
Accuracies train_and_test(const Digits& training, const Digits& test) {
  constexpr int keys = 5;
  int done = 0;
  Accuracies means;
  for (int key = 1; key <= keys; ++key) {
    const auto accuracy_with = [&](double noise_multiplier) {
      return accuracy(train(training, noise_multiplier, Key(key), [&] { progress(++done, 2 * keys * passes); }), test);
    };
    means.without_noise += accuracy_with(0) / keys;
    means.with_noise += accuracy_with(1) / keys;
  }
  return means;
}

const auto per_example_gradients = vmap(grad(loss), {.in_axes = {unmapped, 0, 0}});

double largest(const Tensor& x) { return max(abs(x)).item<double>(); }

// Compares all parameters' gradients for each example by vmap with those of a loop of calls.
// Returns the largest difference relative to the largest gradient.
double largest_difference_to_a_loop(const Mlp& mlp, const Digits& batch) {
  const std::vector<Tensor> all = tree_leaves(per_example_gradients(mlp, batch.pixels, batch.labels));
  double difference = 0, gradient = 0;
  for (Index i = 0; i < batch.labels.size(); ++i) {
    const std::vector<Tensor> one = tree_leaves(grad(loss)(mlp, batch.pixels[i], batch.labels[i]));
    for (std::size_t leaf = 0; leaf < one.size(); ++leaf) {
      difference = std::max(difference, largest(all[leaf][i] - one[leaf]));
      gradient = std::max(gradient, largest(one[leaf]));
    }
  }
  return difference / gradient;
}

// Returns the median rate over the batches of one second.
double gradients_per_second(const Mlp& mlp, const Digits& batch) {
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;
  std::vector<double> times;
  for (const Clock::time_point begin = Clock::now(); Clock::now() - begin < std::chrono::seconds(1);) {
    const Clock::time_point start = Clock::now();
    per_example_gradients(mlp, batch.pixels, batch.labels);
    times.push_back(Seconds(Clock::now() - start).count());
  }
  const auto median = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), median, times.end());
  return static_cast<double>(batch_size) / *median;
}

int run(const std::string& path) {
  const Digits digits = read_digits(path);
  const Tensor order = permutation(Key(0), digits.labels.size());
  const Digits training = select(digits, order[slice(-359)]), test = select(digits, order[slice(-359, none)]);
  const Digits batch = select(training, arange(batch_size));
  const Mlp mlp = random_mlp(Key(0));

  show_operations(mlp, batch.pixels[0], batch.labels[0]);
  const auto run = [&] { return train_and_test(training, test); };
  const bool watched = isatty(STDERR_FILENO);
  const Accuracies accuracies = watched ? with(PrintProgress(), run) : run();
  std::printf("accuracy without noise: %.3f\n", accuracies.without_noise);
  std::printf("accuracy with noise 1.0: %.3f\n", accuracies.with_noise);
  const double difference = largest_difference_to_a_loop(mlp, batch);
  std::printf("largest difference to a loop: %.1e\n", difference);
  std::printf("per-example gradients, examples per second: %.0f\n", gradients_per_second(mlp, batch));
  if (difference <= 1e-5) return 0;
  std::fprintf(stderr, "private_training: gradients by vmap differ from those of a loop by more than 1e-5\n");
  return 1;
}

int main(int argc, char** argv) try {
  return run(argc > 1 ? argv[1] : STAVE_EXAMPLE_DATA "/digits.csv");
} catch (const std::exception& error) {
  std::fprintf(stderr, "private_training: %s\n", error.what());
  return 1;
}
