// Per-example gradients. The loss is written for one example; grad differentiates it, and vmap
// applies the result to a batch. Differentiating the loss of the whole batch would give only the
// mean of these gradients. private_training.cpp shows an application.
#include <iostream>

#include <stave/stave.h>

#include "check.h"

using namespace stave;

Tensor loss(const Tensor& w, const Tensor& x, const Tensor& y) {  // of one example
  return square(sum(w * x) - y);
}

int main() {
  const Tensor w = tensor({1., 2.});
  const Tensor xs = tensor({{1., 0.}, {0., 1.}, {1., 1.}}), ys = tensor({0., 0., 5.});
  const Tensor gradients = vmap(grad(loss), {.in_axes = {unmapped, 0, 0}})(w, xs, ys);
  std::cout << gradients << "\n";

  for (Index i = 0; i < 3; ++i)
    check(array_equal(gradients[i], grad(loss)(w, xs[i], ys[i])), "each row is the gradient of one example");
}
