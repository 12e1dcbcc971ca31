// Functions for the tests of nested transforms.
#pragma once

#include <functional>

#include <stave/stave.h>

namespace nesting_test {

using namespace stave;

using Function = std::function<Tensor(const Tensor&)>;
using T = const Tensor&;

inline Tensor number(double x) { return full({}, x, float64); }

inline Tensor s(T x) { return x * sin(x); }

inline const Tensor x3 = tensor({.3, -1.2, 2.5}, float64), v3 = tensor({1., -2., .5}, float64);

}  // namespace nesting_test
