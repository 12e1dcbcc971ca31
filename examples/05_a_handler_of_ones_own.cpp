// A handler of one's own. handle() receives every operation that is performed under the handler, and answers with its
// outputs. perform() passes it on to the handlers below: as it is, changed, or other operations in its place.
#include <iostream>

#include <stave/stave.h>

#include "check.h"

using namespace stave;

// Changes nothing.
struct CountOps : Handler {
  int count = 0;
  Outputs handle(Call& call) override {
    ++count;
    return perform(std::move(call));
  }
};

// x with 8 bits of significand in place of 24, as in bfloat16: Veltkamp's splitting. By its own rules its derivative is 1.
Tensor rounded(const Tensor& x) {
  const Tensor shifted = 65537 * x;
  return shifted - (shifted - x);
}

// Multiplies matrices as hardware for machine learning does: factors of low precision, sums of full precision.
struct LowPrecision : Handler {
  Outputs handle(Call& call) override {
    if (call.op().id != OpId::matmul) return perform(std::move(call));
    return perform(call.with_inputs({rounded(call.input(0)), rounded(call.input(1))}));
  }
};

Tensor loss(const Tensor& w, const Tensor& x) { return sum(square(matmul(w, x))); }

int main() {
  const Tensor w = tensor({{1., 1.001}, {-2., 0.5}}), xs = tensor({{1., 0.25}, {3., 0.1}});

  // Installed around grad it sees the backward pass, too; inside, the operations of the loss alone.
  CountOps around, inside;
  with(around, [&] { return grad(loss)(w, xs[0]); });
  grad([&](const Tensor& v) { return with(inside, [&] { return loss(v, xs[0]); }); })(w);
  std::cout << around.count << " operations, " << inside.count << " of them in the loss\n";
  check(around.count > inside.count && inside.count > 0, "a handler sees what is performed under it");

  // A handler knows nothing of the transforms, nor they of it; and yet they compose.
  const auto per_example_gradients = vmap(grad(loss), {.in_axes = {unmapped, 0}});
  LowPrecision low_precision;
  const Tensor gradients = with(low_precision, [&] { return per_example_gradients(w, xs); });
  std::cout << gradients << "\n";
  for (Index i = 0; i < 2; ++i) {
    const Tensor x = rounded(xs[i]), y = matmul(rounded(w), x);  // d sum((w x)^2) / dw = 2 (w x) x^T
    check(allclose(gradients[i], outer(rounded(2 * y), x)), "each example's gradient, in low precision");
  }
}
