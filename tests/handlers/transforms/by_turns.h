// Definitions shared by the tests of concurrently: computations that take turns, and handlers that
// observe them.
#pragma once

#include <string>
#include <vector>

#include <stave/stave.h>

#include "matchers.h"
#include "witness.h"

namespace stave_test {

using namespace stave;

struct Names : Handler {
  std::vector<std::string> names;
  Outputs handle(Call& call) override {
    names.push_back(call.op().name);
    return perform(std::move(call));
  }
};

struct Ask {
  using Result = int;
};
struct Keeps : Controls<Ask> {
  Resumption<Ask> rest;
  void handle(Ask&, Resumption<Ask> given) override { rest = std::move(given); }
};

struct Oops {
  int value;
};

inline const Tensor x = tensor(0.5, float64), xs = tensor({0.3, -0.7, 1.1}, float64);

inline Tensor three_of(const Tensor& v) {
  const Tensor a = sin(v), b = cos(a);
  return tan(b);
}
inline Tensor two_of(const Tensor& v) {
  const Tensor a = exp(v);
  return log1p(a);
}

}  // namespace stave_test
