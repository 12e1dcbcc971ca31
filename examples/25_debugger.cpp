// Stepping through a program. debugger(f) is f under a debugger at the terminal; here a stream
// provides its commands. A Stepper does the same without a terminal: its steps are function calls,
// and the program can answer the operation at a stop.
#include <iostream>
#include <sstream>

#include <stave/stave.h>

#include "check.h"

using namespace stave;

// The entropy of relu(scores), normalised to sum 1. Where a share is 0, 0 log 0 is NaN.
Tensor entropy(const Tensor& scores) {
  Tensor p;
  {
    const Scope scope("shares");
    const Tensor positive = relu(scores);
    p = label(positive / sum(positive), "p");
  }
  const Tensor logarithms = log(p);
  return -sum(p * logarithms);
}

int main() {
  const Tensor scores = tensor({{1., 2., 3., 2.}, {1., -1., 2., 1.}, {4., 3., 2., 1.}});

  std::istringstream commands(R"(next
break nan arises
continue
print
print in0[1] - p[2]
back 3
where
continue
)");
  // If the program were compiled with -g, each stop would also show its line of this file.
  debugger(vmap(entropy), {.in = &commands, .out = &std::cout, .source = false})(scores);

  // Replaces each NaN by 0, the limit of p log p.
  Stepper stepper(vmap(entropy), scores);
  stepper.break_at({.operation = "multiply", .label = "p", .nan = true});
  while (stepper.go_on()) {
    const Tensor& y = stepper.at().outputs()[0];
    std::cout << stepper.at().str() << "\n";
    stepper.at().answer(where(isnan(y), 0., y));
  }
  std::cout << *stepper.result() << "\n";
  check(allclose(*stepper.result(), vmap([](const Tensor& v) {
          const Tensor p = relu(v) / sum(relu(v));
          return -sum(xlogy(p, p));
        })(scores)),
        "x log y, which is 0 where x is, gives the same");
}
