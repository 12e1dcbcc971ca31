// An effect of your own. Code deep inside a function requests a value or reports one by performing
// an effect. A handler outside answers it. No function in between needs to know: no argument is
// passed through, and no global variable is set.
#include <iostream>
#include <sstream>
#include <string>

#include <stave/stave.h>

#include "check.h"

using namespace stave;

// Requests a number. Without a handler the answer is 1.
struct Temperature {
  using Result = double;
  double unhandled() const { return 1; }
};

// Reports a value. Without a handler nothing happens.
struct Report {
  using Result = void;
  std::string name;
  Tensor value;
  void unhandled() const {}
};

Tensor loss(const Tensor& w, const Tensor& x) {
  const Tensor logits = w * x / perform(Temperature{});
  perform(Report{"logits", logits});
  return logsumexp(logits);
}

struct Hot : Handles<Temperature> {
  double handle(Temperature&) override { return 2; }
};

struct Listener : Handles<Report> {
  std::ostringstream text;
  void handle(Report& report) override { text << report.name << " are " << report.value << "\n"; }
};

int main() {
  const Tensor w = tensor({1., 2.}), xs = tensor({{1., 0.}, {0., 1.}});
  const auto per_example_gradients = vmap(grad(loss), {.in_axes = {unmapped, 0}});

  Hot hot;
  const Tensor gradients = with(hot, [&] { return per_example_gradients(w, xs); });
  std::cout << "the gradients are\n" << gradients << "\n";
  check(allclose(gradients, softmax(w * xs / 2) * xs / 2), "the gradients of logsumexp(w x / 2)");
  check(allclose(per_example_gradients(w, xs), softmax(w * xs) * xs), "without an answer the temperature is 1");

  // The loss runs once for all examples, so there is one report, which holds the values of all.
  Listener listener;
  with(listener, [&] { return per_example_gradients(w, xs); });
  std::cout << listener.text.str();
  check(listener.text.str() == "logits are vmap lanes of [2] float32:\n[[1. 0.]\n [0. 2.]]\n", "one report");
}
