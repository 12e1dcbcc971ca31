// Functions to step through, and helpers that step through them, for the tests of Stepper.
#pragma once

#include <stave/stave.h>

#include "matchers.h"

namespace stave_test {

inline Tensor f(const Tensor& x) {
  const Tensor s = sin(x);
  return sum(s * x);
}

// Performs exp; sin, then cos and tanh in scope inner, then multiply, in scope layer1; sum.
inline Tensor scoped(const Tensor& x) {
  Tensor y = exp(x);
  {
    const Scope layer("layer1");
    const Tensor s = sin(y);
    Tensor c;
    {
      const Scope inner("inner");
      c = tanh(cos(y));
    }
    y = s * c;
  }
  return sum(y);
}

inline const Tensor x3 = tensor({0.5, 1., 2.}, float64);

inline std::string name_at(stave_detail::AnyStepper& stepper) { return stepper.at().call().op().name; }

template <class Step>
std::vector<std::string> names(stave_detail::AnyStepper& stepper, Step step) {
  std::vector<std::string> list;
  while (step()) list.push_back(name_at(stepper));
  return list;
}
inline std::vector<std::string> all_steps(stave_detail::AnyStepper& stepper) {
  return names(stepper, [&] { return stepper.step(); });
}
inline std::vector<std::string> all_stops(stave_detail::AnyStepper& stepper) {
  return names(stepper, [&] { return stepper.go_on(); });
}

}  // namespace stave_test
