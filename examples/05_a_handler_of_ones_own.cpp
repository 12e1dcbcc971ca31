// A handler of your own. handle() receives every operation that is performed inside the handler,
// and returns its outputs. It can pass the operation to the outer handlers with perform(),
// unchanged or changed, or perform other operations instead.
#include <iostream>

#include <stave/stave.h>

#include "check.h"

using namespace stave;

// Counts the operations and changes nothing.
struct CountOps : Handler {
  int count = 0;
  Outputs handle(Call& call) override {
    ++count;
    return perform(std::move(call));
  }
};

// Rounds x to 8 bits of significand instead of 24, as in bfloat16, by Veltkamp's splitting. The
// derivative of this computation is 1.
Tensor rounded(const Tensor& x) {
  const Tensor shifted = 65537 * x;
  return shifted - (shifted - x);
}

// Multiplies matrices as machine-learning hardware does: the factors have low precision, the sums
// full precision.
struct LowPrecision : Handler {
  Outputs handle(Call& call) override {
    if (call.op().id != OpId::matmul) return perform(std::move(call));
    return perform(call.with_inputs({rounded(call.input(0)), rounded(call.input(1))}));
  }
};

Tensor loss(const Tensor& w, const Tensor& x) { return sum(square(matmul(w, x))); }

int main() {
  const Tensor w = tensor({{1., 1.001}, {-2., 0.5}}), xs = tensor({{1., 0.25}, {3., 0.1}});

  // A handler installed around grad also sees the backward pass. Inside grad it sees only the
  // operations of the loss.
  CountOps around, inside;
  with(around, [&] { return grad(loss)(w, xs[0]); });
  grad([&](const Tensor& v) { return with(inside, [&] { return loss(v, xs[0]); }); })(w);
  std::cout << around.count << " operations, " << inside.count << " of them in the loss\n";
  check(around.count > inside.count && inside.count > 0, "a handler sees what is performed under it");

  // The handler and the transforms know nothing of each other, and still compose.
  const auto per_example_gradients = vmap(grad(loss), {.in_axes = {unmapped, 0}});
  LowPrecision low_precision;
  const Tensor gradients = with(low_precision, [&] { return per_example_gradients(w, xs); });
  std::cout << gradients << "\n";
  for (Index i = 0; i < 2; ++i) {
    // d sum((w x)^2) / dw = 2 (w x) x^T
    const Tensor x = rounded(xs[i]), y = matmul(rounded(w), x);
    check(allclose(gradients[i], outer(rounded(2 * y), x)), "each example's gradient, in low precision");
  }
}
