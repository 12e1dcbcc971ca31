// A handler of one's own. handle() receives each operation that is performed under it, and answers: perform() passes it on to
// the handlers below, as it is, changed, or replaced by others.
#include <iostream>

#include <stave/stave.h>

#include "check.h"

using namespace stave;

// Changes nothing, counts.
struct CountOps : Handler {
  int count = 0;
  Outputs handle(Call& call) override {
    ++count;
    return perform(std::move(call));
  }
};

// x with 8 bits of significand instead of 24, as bfloat16 has. (Veltkamp's splitting; its derivative is 1, by its own rules.)
Tensor rounded(const Tensor& x) {
  const Tensor shifted = 65537 * x;
  return shifted - (shifted - x);
}

// Multiplies matrices as hardware for machine learning does: factors of low precision, sums of full.
struct LowPrecision : Handler {
  Outputs handle(Call& call) override {
    if (call.op().id != OpId::matmul) return perform(std::move(call));
    return perform(call.with_inputs({rounded(call.input(0)), rounded(call.input(1))}));
  }
};

Tensor loss(const Tensor& w, const Tensor& x) {
  return sum(square(matmul(w, x)));
}

int main() {
  const Tensor w = tensor({{1., 1.001}, {-2., 0.5}}), xs = tensor({{1., 0.25}, {3., 0.1}});

  CountOps forward, both;
  with(forward, [&] { return loss(w, xs[0]); });
  with(both, [&] { return grad(loss)(w, xs[0]); });
  std::cout << "loss performs " << forward.count << " operations, its gradient " << both.count << "\n";

  // A handler need not know of the transforms, nor they of it.
  LowPrecision low;
  const auto per_example = vmap(grad(loss), {.in_axes = {unmapped, 0}});
  const Tensor full = per_example(w, xs);
  const Tensor forward_and_backward = with(low, [&] { return per_example(w, xs); });
  const Tensor forward_alone = vmap(grad([&](const Tensor& w, const Tensor& x) {
                                      return with(low, [&] { return loss(w, x); });
                                    }), {.in_axes = {unmapped, 0}})(w, xs);
  std::cout << "full precision\n" << full << "\nlow precision, forward and backward\n" << forward_and_backward
            << "\nlow precision, forward alone\n" << forward_alone << "\n";
}
