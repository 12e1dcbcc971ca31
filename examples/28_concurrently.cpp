// Several computations on one thread, which take turns at their operations; each is written as if
// it ran alone. With a GPU they run on it: while it works for one computation, the others submit
// more work.
#include <algorithm>
#include <deque>
#include <functional>
#include <iostream>
#include <map>
#include <optional>
#include <vector>

#include <stave/stave.h>

#include "check.h"

using namespace stave;

const Device device = cuda_available() ? cuda() : cpu;

// Logistic regression.
struct Model {
  Tensor w = zeros({8}, float64, device), b = zeros({}, float64, device);
};
struct Batch {
  Tensor x, y;
};
Tensor loss(const Model& m, const Batch& batch) {
  const Tensor logits = matmul(batch.x, m.w) + m.b;
  return mean(softplus(logits) - batch.y * logits);
}
Model step(const Model& m, const Batch& batch, double rate) {
  const Model g = grad(loss)(m, batch);
  return {m.w - rate * g.w, m.b - rate * g.b};
}
Batch make_batch(int number) {
  const auto [for_x, for_y] = split<2>(fold_in(Key(7, device), number));
  const Tensor x = normal(for_x, {64, 8}, float64), w = linspace(-2., 2., 8, float64, device);
  return {x, astype(uniform(for_y, {64}, float64) < sigmoid(matmul(x, w)), float64)};
}

// ---- a race -------------------------------------------------------------------------------------

// Returns the loss after 200 steps at this rate. Returns nothing if another rate is far ahead after
// some steps.
std::optional<double> train(double rate, std::map<int, double>& best_after) {
  Model m;
  for (int i = 1; i <= 200; ++i) {
    m = step(m, make_batch(i), rate);
    if (i % 20 != 0) continue;
    const double value = loss(m, make_batch(0)).item<double>();
    double& best = best_after.try_emplace(i, value).first->second;
    best = std::min(best, value);
    yield();  // until the other computations have come here
    if (value > 1.5 * best) return std::nullopt;
  }
  return loss(m, make_batch(0)).item<double>();
}

// ---- a pipeline ---------------------------------------------------------------------------------

// Passes values from one computation to another.
template <class T>
class Channel {
 public:
  void put(T item) {
    while (items_.size() == 2) yield();
    items_.push_back(std::move(item));
  }
  void close() { closed_ = true; }
  std::optional<T> take() {
    while (items_.empty() && !closed_) yield();
    if (items_.empty()) return std::nullopt;
    T item = std::move(items_.front());
    items_.pop_front();
    return item;
  }

 private:
  std::deque<T> items_;
  bool closed_ = false;
};

Model train_from(Channel<Batch>& batches) {
  Model m;
  while (const std::optional<Batch> batch = batches.take()) m = step(m, *batch, 0.5);
  return m;
}

int main() {
  const std::vector<double> rates{0.001, 0.03, 0.3, 3., 100.};
  std::map<int, double> best_after;
  std::vector<std::function<std::optional<double>()>> trainings;
  for (const double rate : rates) trainings.emplace_back([&best_after, rate] { return train(rate, best_after); });
  const std::vector<std::optional<double>> losses = concurrently(trainings);
  for (std::size_t i = 0; i < rates.size(); ++i)
    std::cout << "rate " << rates[i] << ": " << (losses[i] ? std::to_string(*losses[i]) : "gave up") << "\n";
  check(!losses[0] && !losses[4] && losses[3], "rates that are too small or too large give up");

  Channel<Batch> batches;
  const auto [nothing, m] = concurrently(
      [&] {
        for (int i = 1; i <= 50; ++i) batches.put(make_batch(i));
        batches.close();
      },
      [&] { return train_from(batches); });
  Model expected;
  for (int i = 1; i <= 50; ++i) expected = step(expected, make_batch(i), 0.5);
  check(array_equal(m.w, expected.w) && array_equal(m.b, expected.b), "turns change no bit of the result");

  // Under a transform: the gradient of a result that two computations produce together.
  const auto together = [](const Tensor& v) {
    const auto [a, b] = concurrently([&] { return sum(sin(v) * v); }, [&] { return sum(exp(-square(v))); });
    return a * b;
  };
  check_grads(together, linspace(-1., 1., 5, float64, device));
}
