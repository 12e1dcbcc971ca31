// X(name, operands, function): operations with their own kernels.
// The test compares each with the library's evaluation of the function.
#pragma once

#include <stave/core/op/all_ops.h>

namespace own_functions {

inline constexpr auto larger_first = [](const auto& x, const auto& y) {
  const auto larger = maximum(x, y);
  return larger + log(exp(x - larger) + exp(y - larger)) - 0.5f * x * y;
};
inline constexpr auto assignments = [](auto a, auto b, auto c, auto d, auto e, auto f, auto g, auto h) {
  a += 1, a *= b, a -= c, a /= d;
  return a + e * f - g % h;
};

}  // namespace own_functions

// clang-format off
#define STAVE_OWN_FUNCTIONS(X)                                                                                         \
  X(logistic, 1, [](const auto& x) { return 1 / (1 + exp(-x)); })                                                      \
  X(bell, 1, [](auto x) { return 0.5 * x * (1 + erf(x * 0.70710678118654752)); })                                      \
  X(shrink, 2, [](const auto& x, const auto& by) { return where(abs(x) > by, x - by * sign(x), 0); })                  \
  X(within, 3, [](const auto& x, const auto& low, const auto& high) { return low <= x && !(x > high); })               \
  X(truths, 2, [](const auto& x, const auto& y) { return (((x < y) | (x == 0)) ^ (y != y)) == ~(x >= 1); })         \
  X(step, 1, [](const auto& x) { return astype(x > 0 || isnan(x), x.dtype()) + clip(stop_gradient(x), -1, 2); })       \
  X(soft_maximum, 2, own_functions::larger_first)                                                                      \
  X(of_eight, 8, own_functions::assignments)
// clang-format on
