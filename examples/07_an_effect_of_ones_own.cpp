// An effect of one's own. A function deep inside asks for something, or says something, by performing an effect; whoever
// handles it stands outside, and nothing in between needs to know: no argument is passed through, no global is set.
#include <iostream>
#include <sstream>
#include <string>

#include <stave/stave.h>

#include "check.h"

using namespace stave;

// Asks for a number; where nobody answers, it is 1.
struct Temperature {
  using Result = double;
  double unhandled() const { return 1; }
};

// Says something; where nobody listens, nothing happens.
struct Report {
  using Result = void;
  std::string name;
  Tensor value;
  void unhandled() const {}
};

struct Constant : Handles<Temperature> {
  double value;
  explicit Constant(double value) : value(value) {}
  double handle(Temperature&) override { return value; }
};

struct Logger : Handles<Report> {
  std::ostringstream text;
  void handle(Report& report) override { text << report.name << ": " << report.value << "\n"; }
};

Tensor loss(const Tensor& w, const Tensor& x) {
  const Tensor logits = w * x / perform(Temperature{});
  perform(Report{"logits", logits});
  return logsumexp(logits);
}

int main() {
  const Tensor w = tensor({1., 2.}), xs = tensor({{1., 0.}, {0., 1.}});

  Logger logger;
  Constant hot(2);
  const auto per_example = vmap(grad(loss), {.in_axes = {unmapped, 0}});
  const Tensor gradients = with(logger, [&] { return with(hot, [&] { return per_example(w, xs); }); });
  std::cout << logger.text.str() << gradients << "\n";
}
