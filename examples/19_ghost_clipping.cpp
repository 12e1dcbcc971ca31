// The norm of each example's gradient, without the gradients: "ghost clipping". Private training
// (private_training.cpp) weighs examples by these norms. vmap(grad(loss)) would store the gradients
// of all parameters for each example to compute them.
//
// A matrix w in matmul(x, w) has, for one example, the gradient x^T g, where g is the cotangent of
// the product. Its norm follows from x and g: |x^T g|^2 = sum((x x^T) * (g g^T)), which for a
// single row x is |x|^2 |g|^2. So a handler looks at the products that the model performs, and at
// their cotangents in the backward pass. The model knows nothing of the handler.
//
// Goodfellow, "Efficient per-example gradient computations", 2015; Li et al., "Large language
// models can be strong differentially private learners", 2022.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iostream>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include <stave/stave.h>

#include "check.h"
#include "digits.h"

using namespace stave;

// ---- the handler --------------------------------------------------------------------------------

// Adds up |d loss / d w|^2 over the watched parameters w, while a loss that was computed under this
// handler is differentiated. The sum is for one example: for a batch, apply vmap to the function
// that uses the handler.
class GradientNorm : public Handler {
 public:
  // Returns the same parameters with a mark by which the handler recognises them.
  template <class Tree>
  Tree watch(const Tree& parameters) {
    return tree_map([&](const Tensor& w) { return number_.put(w, ++watched_); }, parameters);
  }
  Tensor squared() const { return squared_; }
  std::string describe() const override { return "gradient norm"; }

  Outputs handle(Call& call) override {
    // The inputs that are watched parameters.
    std::vector<std::size_t> parameters;
    for (std::size_t i = 0; i < call.inputs().size(); ++i) {
      const int* number = number_.find(call.input(i));
      if (!number) continue;
      if (!used_.insert(*number).second)
        throw Error(
            "gradient norm: a parameter is used twice: the norm of a sum does not follow from its parts' norms");
      parameters.push_back(i);
    }
    if (parameters.empty()) return perform(std::move(call));

    Inputs constant(call.inputs());
    // their gradients are not computed
    for (const std::size_t i : parameters) constant[i] = stop_gradient(constant[i]);
    const Tensor output = apply(call.with_inputs(constant));
    // Reads the cotangent of the output in the backward pass, and passes it on unchanged.
    const auto look = custom_vjp(
        [](const Tensor& y, const Inputs&) { return y; },
        [](const Tensor& y, const Inputs& xs) { return std::pair(y, xs); },
        [this, parameters, op = &call.op(), attributes = call.attributes_ptr()](const Inputs& xs, const Tensor& g) {
          for (const std::size_t i : parameters) squared_ += squared_norm(*op, attributes, xs, i, g);
          return std::tuple(g, Inputs(xs.size()));
        });
    return look(output, Inputs(call.inputs()));
  }

 private:
  // Returns the squared norm of the cotangent of input i, for the cotangent g of the output.
  static Tensor squared_norm(const Op& op, const AttributesPtr& attributes, Inputs xs, std::size_t i, const Tensor& g) {
    if (op.id == OpId::matmul && i == 1)
      return sum(matmul(xs[0], matrix_transpose(xs[0])) * matmul(g, matrix_transpose(g)));
    // For other operations, such as the addition of a bias, the gradient itself is computed and
    // then released.
    const auto of_parameter = [&](const Tensor& w) {
      xs[i] = w;
      return apply(op, xs, attributes);
    };
    const auto [output, pullback] = vjp(of_parameter, Tensor(xs[i]));
    const auto [cotangent] = pullback(g);
    return sum(square(cotangent));
  }

  Notes<int> number_{"gradient norm"};
  int watched_ = 0;
  std::set<int> used_;
  Tensor squared_ = tensor(0.);
};

// ---- a model of one example ---------------------------------------------------------------------

struct Net {
  Tensor w1, b1, w2, b2, w3, b3;
};

// Each row of the image is multiplied by the same matrix; the results of all rows pass through two
// more matrices.
Tensor loss(const Net& net, const Tensor& image, const Tensor& label) {
  const Tensor strokes = tanh(matmul(image, net.w1) + net.b1);
  const Tensor hidden = tanh(matmul(reshape(strokes, {-1}), net.w2) + net.b2);
  return cross_entropy(matmul(hidden, net.w3) + net.b3, label);
}

Tensor weights(const Key& key, Index rows, Index columns) {
  return uniform(key, {rows, columns}, -1, 1) / std::sqrt(static_cast<double>(rows));
}
Net random_net(const Key& key1, const Key& key2, const Key& key3) {
  return {weights(key1, 8, 64),   zeros({64}), weights(key2, 512, 512), zeros({512}),
          weights(key3, 512, 10), zeros({10})};
}

// ---- clipping -----------------------------------------------------------------------------------

constexpr double clip_norm = 1;
const VmapOptions over_examples{.in_axes = {unmapped, 0, 0}};

Tensor norm_of_gradient(const Net& net, const Tensor& image, const Tensor& label) {
  GradientNorm norm;
  grad([&](const Net& n) { return with(norm, [&] { return loss(norm.watch(n), image, label); }); })(net);
  return sqrt(norm.squared());
}

// Returns the mean of all examples' gradients, each scaled to a norm of at most clip_norm. This is
// the gradient of a weighted mean of their losses.
Net clipped_by_norms(const Net& net, const Tensor& images, const Tensor& labels) {
  const Tensor factors = minimum(1, clip_norm / vmap(norm_of_gradient, over_examples)(net, images, labels));
  return grad([&](const Net& n) { return mean(factors * vmap(loss, over_examples)(n, images, labels)); })(net);
}

// Computes the same from the gradients of all examples.
Net clipped_by_gradients(const Net& net, const Tensor& images, const Tensor& labels) {
  const auto clipped = [](const Net& n, const Tensor& image, const Tensor& label) {
    return clip_by_global_norm(grad(loss)(n, image, label), clip_norm);
  };
  const Net all = vmap(clipped, over_examples)(net, images, labels);
  return tree_map([](const Tensor& g) { return mean(g, 0); }, all);
}

// ---- what is reported ---------------------------------------------------------------------------

template <class Gradient>
void report_cost(const char* name, Gradient gradient, const Net& net, const Tensor& images, const Tensor& labels) {
  using Clock = std::chrono::steady_clock;
  using Milliseconds = std::chrono::duration<double, std::milli>;
  Milliseconds least = Milliseconds::max();
  for (int i = 0; i < 5; ++i) {
    const Clock::time_point start = Clock::now();
    gradient(net, images, labels);
    least = std::min<Milliseconds>(least, Clock::now() - start);
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::cout << name << ": " << least.count() << " ms, and at most " << usage.ru_maxrss / 1024
            << " MiB in the program so far\n";
}

void train() {
  constexpr int epochs = 8;
  const Digits digits = read_digits(STAVE_EXAMPLE_DATA "/digits.csv");
  const Tensor images = reshape(astype(digits.pixels, float64), {-1, 8, 8}), labels = digits.labels;
  constexpr Index batch_size = 128;
  const auto [key1, key2, key3, order_key] = split<4>(Key(0));
  Net net = random_net(key1, key2, key3);
  const auto optimizer = momentum({.learning_rate = 0.25});
  auto state = optimizer.init(net);
  std::vector<Tensor> losses;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    const Tensor order = permutation(fold_in(order_key, epoch), labels.size());
    for (Index end = batch_size; end <= order.size(); end += batch_size) {
      const Tensor batch = order(slice(end - batch_size, end)), x = images(batch), y = labels(batch);
      losses.push_back(mean(vmap(loss, over_examples)(net, x, y)));
      std::tie(net, state) = optimizer.update(net, clipped_by_norms(net, x, y), state);
    }
    progress(epoch + 1, epochs);
  }
  std::cout << "loss " << losses.front() << ", in the end " << losses.back() << "\n";
  const Tensor figures = read_csv(STAVE_EXAMPLE_DATA "/19_ghost_clipping.csv", {.skip_lines = 1, .columns = 1});
  check(allclose(stack(losses), figures(slice(), 0), 1e-10), "the loss is JAX's in each of 112 steps");

  const auto norm_by_gradients = [](const Net& n, const Tensor& image, const Tensor& label) {
    return global_norm(grad(loss)(n, image, label));
  };
  const Tensor x = images(slice(batch_size)), y = labels(slice(batch_size));
  const Tensor norms = vmap(norm_of_gradient, over_examples)(net, x, y);
  std::cout << "norms of gradients, from " << min(norms) << " to " << max(norms) << "\n";
  check(allclose(norms, vmap(norm_by_gradients, over_examples)(net, x, y), 1e-12), "norms are those of the gradients");
}

int main() {
  const auto [key1, key2, key3] = split<3>(Key(1));
  const Net net = random_net(key1, key2, key3);
  const Tensor images = uniform(key1, {256, 8, 8}), labels = zeros({256}, int32);
  report_cost("256 gradients clipped, by norms", clipped_by_norms, net, images, labels);
  report_cost("the same by vmap(grad)", clipped_by_gradients, net, images, labels);
  with(DefaultDtype(float64), [] { with(PrintProgress(), train); });
}
