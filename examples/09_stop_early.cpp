// Stopping early. A controller receives each operation together with the rest of the program as a
// value, the resumption. It resumes the program or drops the resumption. A dropped program unwinds
// from its current point, and `with` returns without a result.
#include <iostream>
#include <optional>
#include <string>

#include <stave/stave.h>

#include "check.h"

using namespace stave;

// Stops a program at the first NaN.
struct StopAtNan : Controller {
  std::string at;
  void handle(Call& call, Resumption<Call> rest) override {
    Outputs outputs = perform(call);
    if (any(isnan(outputs[0]))) {
      at = call.op().name;
      return rest.drop();
    }
    rest.resume_last(std::move(outputs));
  }
};

// The number of tables that exist. Each descent holds one.
int alive = 0;

struct Table {
  Table() { ++alive; }
  ~Table() { --alive; }
};

Tensor loss(const Tensor& x) { return sum(pow(x, 4)); }

// This function neither looks for NaN nor knows how to stop.
Tensor descend(double rate) {
  const Table table;
  Tensor x = tensor({1., 2.}, float64);
  for (int step = 0; step < 1000; ++step) x -= rate * grad(loss)(x);
  return x;
}

int main() {
  StopAtNan stop_at_nan;
  for (const double rate : {1., 0.1}) {
    const std::optional<Tensor> x = with(stop_at_nan, [&] { return descend(rate); });
    if (x) std::cout << "rate " << rate << ": " << *x << "\n";
    else std::cout << "rate " << rate << ": NaN in " << stop_at_nan.at << "\n";
    check(x.has_value() == (rate < 1), "steps that are too long end in NaN, short ones do not");
    check(alive == 0, "what the dropped program held is destroyed");
  }
}
