// Per-example gradients. The loss is written for one example; grad differentiates it, vmap applies that to a whole batch at
// once. Most frameworks give the mean over the batch alone; private_training.cpp shows what the others are good for.
#include <iostream>

#include <stave/stave.h>

#include "check.h"

using namespace stave;

Tensor loss(const Tensor& w, const Tensor& x, const Tensor& y) {
  return square(sum(w * x) - y);
}

int main() {
  const Tensor w = tensor({1., 2.});
  const Tensor xs = tensor({{1., 0.}, {0., 1.}, {1., 1.}}), ys = tensor({0., 0., 5.});

  std::cout << grad(loss)(w, xs[0], ys[0]) << "\n\n";
  const Tensor gradients = vmap(grad(loss), {.in_axes = {unmapped, 0, 0}})(w, xs, ys);
  std::cout << gradients << "\n";

  for (Index i = 0; i < 3; ++i)
    check(array_equal(gradients[i], grad(loss)(w, xs[i], ys[i])), "each row is the gradient of one example");
}
