// Checks of gradients of functions that are homogeneous of degree 2, such as sums of squares.
#pragma once

#include <functional>

#include <stave/stave.h>

#include "matchers.h"

namespace stave_test {

/// Expects that the gradient of f at x is exactly `expected`, in each way to compute it.
inline void expect_quadratic_gradient(const std::function<Tensor(const Tensor&)>& f, const Tensor& x,
                                      const Tensor& expected) {
  EXPECT_THAT(grad(f)(x), IsNear(expected, 0));
  EXPECT_THAT(grad(f, {.recompute = Recompute::always})(x), IsNear(expected, 0));
  const auto compiled = compile(grad(f));
  for (int run = 0; run < 3; ++run) EXPECT_THAT(compiled(x), IsNear(expected, 0));
  EXPECT_THAT(grad(compile(f))(x), IsNear(expected, 0));
  EXPECT_THAT(grad(checkpoint(f))(x), IsNear(expected, 0));
  // The Hessian times x is the gradient.
  EXPECT_THAT(jvp(grad(f), x, x).second, IsNear(expected, 0));
  EXPECT_THAT(grad([&](const Tensor& a) { return sum(grad(f)(a) * x); })(x), IsNear(expected, 0));
  EXPECT_THAT(vmap(grad(f))(stack({x, 2 * x})), IsNear(stack({expected, 2 * expected}), 0));
  const auto pull_back = vjp(f, x).second;
  for (int run = 0; run < 2; ++run) EXPECT_THAT(std::get<0>(pull_back(tensor(2., float64))), IsNear(2 * expected, 0));
}

}  // namespace stave_test
