// The operations of a function as a range. The function is suspended at each operation while the
// body of the loop runs. The body can look at the operation, answer it instead of computing it, or
// leave the loop. The range is built on a controller (09_stop_early.cpp).
#include <iostream>
#include <vector>

#include <stave/stave.h>

#include "check.h"

using namespace stave;

const Tensor w1 = tensor({{1., -1.}, {0.5, 2.}, {-1., 1.}}), w2 = tensor({1., 2., 3.});

Tensor network(const Tensor& x) { return matmul(w2, relu(matmul(w1, x))); }

// Returns the network's output with each hidden unit multiplied by its element of `mask`.
Tensor masked(const Tensor& mask, const Tensor& x) {
  auto operations = operations_of(network, x);
  for (PendingOperation& op : operations)
    if (op.call().op().id == OpId::relu) op.answer(mask * relu(op.call().input(0)));
  return *operations.result();
}

// Returns the hidden units before relu. The operations after that are not computed.
Tensor hidden(const Tensor& x) {
  auto operations = operations_of(network, x);
  for (PendingOperation& op : operations)
    if (op.call().op().id == OpId::relu) return op.call().input(0);
  return Tensor();
}

int main() {
  const Tensor x = tensor({2., 1.});

  for (const PendingOperation& op : operations_of(network, x)) std::cout << op.call().op().name << " ";
  std::cout << "\nhidden units " << hidden(x) << "\n";
  check(array_equal(hidden(x), matmul(w1, x)), "the loop is left with an input of relu");

  // `masked` is an ordinary function, so transforms apply: vmap computes the part of the output
  // that each hidden unit contributes, and its gradient.
  const Tensor parts = vmap(masked, {.in_axes = {0, unmapped}})(eye(3), x);
  const Tensor gradients = vmap(grad<1>(masked), {.in_axes = {0, unmapped}})(eye(3), x);
  std::cout << "parts of the output " << parts << "\nand their gradients\n" << gradients << "\n";
  check(array_equal(parts, w2 * relu(matmul(w1, x))), "the output by hidden units");
  check(array_equal(sum(gradients, 0), grad(network)(x)), "the parts make up the gradient");
}
