// The cost of a training step, before anything runs: shapes by eval_shape, operations, bytes and
// memory by cost. The batch that fits into the memory is chosen without allocating one.
#include <iostream>

#include <stave/handlers/observe/cost.h>
#include <stave/stave.h>

#include "check.h"

using namespace stave;

struct Layer {
  Tensor query, key, value, out, up, down;
};

Tensor loss(const Layer& p, const Tensor& x) {
  Tensor y;
  {
    const Scope part("attention");
    const Tensor q = matmul(x, p.query), k = matmul(x, p.key), v = matmul(x, p.value);
    const Tensor weights = softmax(matmul(q, matrix_transpose(k)) / 32., -1);
    y = x + matmul(matmul(weights, v), p.out);
  }
  const Scope part("network");
  return mean(square(y + matmul(gelu(matmul(y, p.up)), p.down)));
}

int main() {
  // Abstract tensors have a shape and a dtype, and no memory.
  const Index width = 1024, length = 2048;
  const Tensor square_matrix = abstract({width, width});
  const Layer layer{square_matrix,
                    square_matrix,
                    square_matrix,
                    square_matrix,
                    abstract({width, 4 * width}),
                    abstract({4 * width, width})};

  const Layer slope = eval_shape(grad(loss))(layer, abstract({8, length, width}));
  std::cout << "the gradient of up is " << slope.up.dtype() << " " << slope.up.shape() << "\n";

  const Cost step = cost(grad(loss))(layer, abstract({8, length, width}));
  std::cout << step << "\n";

  // The largest batch whose step needs at most 8 GiB.
  Index batch = 1;
  while (cost(grad(loss))(layer, abstract({2 * batch, length, width})).peak_bytes <= std::size_t{8} << 30) batch *= 2;
  std::cout << "batches of " << batch << " fit into 8 GiB\n";

  // A checkpoint runs its function a second time in the backward pass.
  const Cost with_checkpoint = cost(grad(checkpoint(loss)))(layer, abstract({8, length, width}));
  check(with_checkpoint.total().flops > step.total().flops, "a checkpoint computes values again");

  // No element can be read.
  const auto branches = [](const Tensor& x) { return sum(x) > 0 ? sin(x) : cos(x); };
  try {
    eval_shape(branches)(abstract({3}));
  } catch (const TransformError& error) {
    std::cout << error.what() << "\n";
  }
  check(slope.up.shape() == Shape({width, 4 * width}), "a gradient has the shape of its parameter");
}
