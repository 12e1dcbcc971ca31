// What reverse mode keeps in memory, and how to control it. By default the tape keeps the values
// that the VJP rules read, except those that a few cheap operations can compute again. checkpoint
// and its policies say which operations run again; loop keeps a few states of a long loop. All
// variants give bitwise equal gradients.
#include <cstdio>

#include <stave/stave.h>

#include "check.h"

using namespace stave;

// Returns the largest memory that `body` occupies at a time, in MiB.
template <class Body>
double peak(Body body) {
  const std::size_t before = memory_stats().live_bytes;
  reset_peak_memory();
  body();
  return static_cast<double>(memory_stats().peak_bytes - before) / (1 << 20);
}

// A thousand squares are a chain of cheap operations. The tape keeps one value in 512.
Tensor squares(const Tensor& x) {
  Tensor b = x;
  for (int i = 0; i < 1000; ++i) b = b * b;
  return sum(b);
}

Tensor block(const Tensor& h, const Tensor& w) {
  const Tensor product = label(matmul(h, w), "product");
  return sin(product) * tanh(product) * 0.5 + h;
}
auto loss_by(const CheckpointPolicy& policy) {
  return [f = checkpoint(block, policy)](const Tensor& x, const Tensor& w) {
    Tensor h = x;
    for (int i = 0; i < 16; ++i) h = f(h, w);
    return sum(square(h));
  };
}

int main() {
  const Tensor x = 1 - square(normal(Key(0), {1 << 18})) * 1e-4;  // 1 MiB
  Tensor kept, again;
  const double plain = peak([&] { kept = grad(squares, {.recompute = Recompute::never})(x); });
  const double anchors = peak([&] { again = grad(squares)(x); });
  std::printf("a thousand squares: %.0f MiB, by itself %.0f MiB\n", plain, anchors);
  check(plain > 1000 && anchors < 12, "the tape keeps a few values");
  check(array_equal(kept, again), "the gradient is the same");

  // h is 1 MiB
  const Tensor h = normal(Key(1), {1024, 256}), w = normal(Key(2), {256, 256}) * 0.05;
  const Tensor expected = grad<1>(loss_by(everything_saveable))(h, w);
  const auto with_policy = [&](const char* name, const CheckpointPolicy& policy) {
    Tensor found;
    const double most = peak([&] { found = grad<1>(loss_by(policy))(h, w); });
    std::printf("16 blocks, saving %s: %.0f MiB\n", name, most);
    check(array_equal(found, expected), "so it is by every policy");
    return most;
  };
  const double everything = with_policy("everything", everything_saveable);
  const double products = with_policy("products", products_saveable);
  const double labels = with_policy("what is labelled", save_only_these_labels("product"));
  const double nothing = with_policy("nothing", nothing_saveable);
  check(nothing + 12 < products && products + 12 < everything && labels < products + 1,
        "what is not saved takes no memory");

  const auto decay = [](const Tensor& y) { return y - 1e-3 * sin(y); };
  const auto in_loop = [&](Index snapshots) {
    return grad([=](const Tensor& y) { return sum(loop(5000, decay, {.snapshots = snapshots})(y)); });
  };
  const Tensor y = normal(Key(3), {4096});  // 16 KiB
  Tensor by_loop, by_schedule;
  const double loop = peak([&] { by_loop = in_loop(0)(y); });
  const double schedule = peak([&] { by_schedule = in_loop(12)(y); });
  std::printf("5000 steps: %.1f MiB, from 12 snapshots %.1f MiB\n", loop, schedule);
  check(loop > 70 && schedule < 0.5, "a long loop takes memory for a few states");
  check(array_equal(by_loop, by_schedule), "and has the gradient of the loop");
}
