// Debugging. debug(f) is f with every operation shown that reaches it, so where it stands among the other transforms says
// what it sees: inside vmap one example, outside all of them; outside grad the backward pass, too.
#include <iostream>
#include <sstream>

#include <stave/stave.h>

#include "check.h"

using namespace stave;

Tensor f(const Tensor& x) {
  return sum(sin(x));
}

int main() {
  const Tensor xs = zeros({5, 3});

  std::ostringstream inside, outside;
  vmap(debug(f, {.out = &inside}))(xs);
  debug(vmap(grad(f)), {.out = &outside})(xs);
  std::cout << "inside vmap\n" << inside.str() << "\noutside vmap and grad\n" << outside.str();

  // The first NaN is an error that says where it arose.
  std::string message;
  try {
    debug([](const Tensor& x) { return log(x - 1); }, {.trap_nan = true, .print = false})(xs);
  } catch (const TransformError& error) {
    message = error.what();
  }
  std::cout << "\n" << message << "\n";
}
