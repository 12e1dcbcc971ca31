// Debugging. debug(f) computes what f does, and prints a line for every operation that reaches it.
// Its place among the transforms decides what it shows: inside vmap one example, outside vmap all
// of them; outside grad also the backward pass.
#include <iostream>
#include <sstream>
#include <string>

#include <stave/stave.h>

#include "check.h"

using namespace stave;

Tensor f(const Tensor& x) { return sum(sin(x)); }

int main() {
  const Tensor xs = zeros({5, 3});

  std::ostringstream inside, outside;
  vmap(grad(debug(f, {.out = &inside})))(xs);
  debug(vmap(grad(f)), {.out = &outside})(xs);
  std::cout << inside.str() << "\n" << outside.str();

  check(inside.str() ==
            "sin f32[3] -> f32[3]\n"
            "sum axes=[0] f32[3] -> f32[]\n",
        "the operations of f on one example");
  check(outside.str() ==
            "    sin f32[5,3] -> f32[5,3]\n"
            "    sum axes=[1] f32[5,3] -> f32[5]\n"
            "  full shape=[] dtype=float32 value=1 -> f32[]\n"
            "    reshape [1] f32[] -> f32[1]  [backward of grad]\n"
            "    broadcast_to [3] f32[1] -> f32[3]  [backward of grad]\n"
            "    cos f32[5,3] -> f32[5,3]  [backward of grad]\n"
            "    broadcast_to [5,3] f32[3] -> f32[5,3]  [backward of grad]\n"
            "    scale f32[5,3], f32[5,3] -> f32[5,3]  [backward of grad]\n",
        "the operations of the gradient on all examples");

  // With trap_nan, the first NaN throws an error that says where it arose.
  std::string message;
  try {
    debug([](const Tensor& x) { return log(x - 1); }, {.trap_nan = true, .print = false})(xs);
  } catch (const TransformError& error) {
    message = error.what();
  }
  std::cout << "\n" << message << "\n";
  check(message.starts_with("log: NaN in 15 of 15 elements of the result"), "the NaN is found");
}
