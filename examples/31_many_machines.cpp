// Many machines. Each function is written for one place's part of the work, and collectives combine
// the places. The places are lanes of vmap in one process, or processes that MPI connects:
//
//   build/release/examples/31_many_machines
//   mpirun -np 4 build/release/examples/31_many_machines
#include <cstdio>
#include <vector>

#include <stave/stave.h>
#ifdef STAVE_EXAMPLE_WITH_RANKS
#include <stave/handlers/ranks/ranks.h>
#endif

#include "check.h"
#include "digits.h"

using namespace stave;

// ---- the same function, everywhere --------------------------------------------------------------

#ifdef STAVE_EXAMPLE_WITH_RANKS
Ranks& ranks() {
  static Ranks all("places");
  return all;
}
Index processes() { return ranks().size(); }
#else
Index processes() { return 1; }
#endif

const Index places = processes() > 1 ? processes() : 4;

double largest(const Tensor& x) { return max(abs(x)).item<double>(); }

// Applies f to each place's part, where the parts are along axis 0 of `all`, and returns the
// results along axis 0. If there are processes, the result of this process is compared with that of
// its lane.
template <class F, class... Tensors>
Tensor everywhere(const char* what, F f, const Tensors&... all) {
  const Tensor lanes = vmap(f, {.axis_name = "places"})(all...);
#ifdef STAVE_EXAMPLE_WITH_RANKS
  if (processes() > 1) {
    const Index place = ranks().place();
    const Tensor mine = with(ranks(), [&] { return f(all[place]...); });
    const double difference = largest(mine - lanes[place]) / largest(lanes[place]);
    if (place == 0) std::printf("%s: process and lane differ by %.1e\n", what, difference);
    check(difference < 1e-5, "a process computes what a lane does");
    return lanes;
  }
#endif
  std::printf("%s: %d lanes\n", what, static_cast<int>(places));
  return lanes;
}

// Splits an axis into equal parts, one for each place, and stacks them as axis 0.
Tensor parts(const Tensor& x, int axis) {
  Shape shape = x.shape();
  shape[axis] /= places;
  shape.insert(shape.begin() + axis, places);
  return moveaxis(reshape(x, shape), axis, 0);
}

// ---- data: private training ---------------------------------------------------------------------

// Each place has its share of every batch, and the whole model.
Tensor logits(const Tensor& w, const Tensor& pixels) { return matmul(pixels, w); }
Tensor loss(const Tensor& w, const Tensor& pixels, const Tensor& label) {
  return -take(log_softmax(logits(w, pixels)), label);
}
Tensor clipped_gradient(const Tensor& w, const Tensor& pixels, const Tensor& label) {
  const Tensor gradient = grad(loss)(w, pixels, label);
  return gradient * minimum(1, 1 / global_norm(gradient));
}

constexpr Index batch = 96;
constexpr int steps = 60;

// Trains on this place's data, [steps, share of a batch, ...]. All places draw the noise from the
// same key, and it is added once.
Tensor trained(const Tensor& pixels, const Tensor& labels) {
  Tensor w = zeros({64, 10});
  for (int step = 0; step < steps; ++step) {
    const Tensor gradients = vmap(clipped_gradient, {.in_axes = {unmapped, 0, 0}})(w, pixels[step], labels[step]);
    const Tensor noise = normal(fold_in(Key(3), step), w.shape());
    w = w - 0.5 * (psum(sum(gradients, 0), "places") + noise) / batch;
  }
  return w;
}

void train_on_shares() {
  const Digits digits = read_digits(STAVE_EXAMPLE_DATA "/digits.csv");
  const Tensor order = permutation(Key(0), digits.labels.size());
  std::vector<Tensor> pixels, labels;
  for (int step = 0; step < steps; ++step) {
    const Index start = step * batch % (order.size() - batch);
    const Tensor chosen = order[slice(start, start + batch)];
    pixels.push_back(parts(take(digits.pixels, chosen), 0));
    labels.push_back(parts(take(digits.labels, chosen), 0));
  }
  const Tensor w = everywhere("private training", trained, stack(pixels, 1), stack(labels, 1))[0];
  const Tensor guesses = argmax(logits(w, digits.pixels), 1);
  const double accuracy = mean(astype(guesses == digits.labels, float32)).item<double>();
  std::printf("  accuracy with noise: %.2f\n", accuracy);
  check(accuracy > 0.85, "it has learned the digits");
}

// ---- model: a product in shards -----------------------------------------------------------------

// Each place has columns of the first matrix and rows of the second: one sum for two layers.
Tensor two_layers(const Tensor& x, const Tensor& columns, const Tensor& rows) {
  return psum(matmul(relu(matmul(x, columns)), rows), "places");
}

void multiply_in_shards() {
  const Index width = 8 * places;
  const Tensor x = normal(Key(4), {5, 16}), w1 = normal(Key(5), {16, width}), w2 = normal(Key(6), {width, 16});
  const auto shard = [&](const Tensor& columns, const Tensor& rows) { return two_layers(x, columns, rows); };
  const Tensor y = everywhere("sharded product", shard, parts(w1, 1), parts(w2, 0))[0];
  check(largest(y - matmul(relu(matmul(x, w1)), w2)) < 1e-4, "shards give the product of the whole");
}

// ---- layers: a pipeline -------------------------------------------------------------------------

constexpr Index microbatches = 6;

Tensor layer(const Tensor& w, const Tensor& x) { return tanh(matmul(x, w)); }

// Place i is layer i. In each tick it processes the output of the place before it, and passes on
// its own. So the last place has finished microbatch t at tick t + places - 1.
Tensor loss_of_pipeline(const Tensor& w, const Tensor& xs, const Tensor& targets) {
  std::vector<std::pair<Index, Index>> onward;
  for (Index i = 0; i + 1 < places; ++i) onward.emplace_back(i, i + 1);
  const Tensor place = axis_index("places");
  Tensor received = zeros_like(xs[0]), total = zeros({});
  for (Index tick = 0; tick < microbatches + places - 1; ++tick) {
    const Tensor y = layer(w, tick < microbatches ? where(place == 0, xs[tick], received) : received);
    if (tick >= places - 1) total = total + sum(square(y - targets[tick - places + 1]));
    received = ppermute(y, "places", onward);
  }
  return where(place == places - 1, total, 0);  // only the last place has a loss
}

void train_in_stages() {
  const Tensor ws = normal(Key(7), {places, 8, 8}) / 2;
  const Tensor xs = normal(Key(8), {microbatches, 3, 8}), targets = tanh(normal(Key(9), {microbatches, 3, 8}));
  const auto gradient = [&](const Tensor& w) { return grad(loss_of_pipeline)(w, xs, targets); };
  const Tensor gradients = everywhere("gradient through a pipeline", gradient, ws);
  const auto plain = [&](const Tensor& all) {
    Tensor y = xs;
    for (Index i = 0; i < places; ++i) y = layer(all[i], y);
    return sum(square(y - targets));
  };
  const Tensor expected = grad(plain)(ws);
  check(largest(gradients - expected) < 1e-4 * largest(expected), "each stage has the gradient of its layer");
}

int main() {
  train_on_shares();
  multiply_in_shards();
  train_in_stages();
}
