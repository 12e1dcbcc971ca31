// Minima of functions of trees, by gradients: BFGS and L-BFGS.
//
//   const auto found = minimize([&](const Mlp& m) { return loss(m, data); }, mlp);
//   found.x, found.value, found.converged
//
// Both make each step along a direction that a model of the Hessian gives, so far that Wolfe's strong conditions hold: Nocedal and
// Wright, "Numerical Optimization", 2006, algorithms 6.1, 7.5, 3.5 and 3.6, with (6.20) and (7.20) for the first model. BFGS
// keeps an n x n matrix, L-BFGS the last few steps.
//
// The search reads values, and is not differentiated: the minimum as a function of parameters is a custom_root of the gradient.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include <stave/core/ops/tree.h>
#include <stave/core/tensor/options.h>
#include <stave/handlers/transforms/grad.h>

namespace stave {

enum class MinimizeMethod { bfgs, lbfgs };
struct MinimizeOptions {
  [[no_unique_address]] ByName by_name{};
  MinimizeMethod method = MinimizeMethod::bfgs;
  double gtol = 1e-5;  ///< no element of the gradient is larger at a minimum; not negative
  Index steps = 0;     ///< at most; 0: 200 for each element of x
  int memory = 10;     ///< how many steps L-BFGS keeps, at least 1
};
/// Where a search ended.
template <class X>
struct Minimum {
  X x;
  Tensor value;
  X grad;
  Index steps = 0, evaluations = 0;
  bool converged =
      false;  ///< by gtol; else steps were used up, or no step made the value smaller: rounding, or a gradient that is wrong
};

}  // namespace stave

namespace stave_detail {

using namespace stave;

using ValueAndGradient = std::function<std::pair<Tensor, Tensor>(const Tensor&)>;
Minimum<Tensor> minimize_flat(const ValueAndGradient& f, const Tensor& start, const MinimizeOptions& options);

}  // namespace stave_detail

namespace stave {

/// A local minimum of f, which gives a tensor of one element, found from `start`, a tree of floats. A value that is NaN or infinite
/// counts as larger than any other, but at `start` throws Error, as a gradient does that is not
/// finite there. (scipy.optimize.minimize, jax.scipy.optimize.minimize)
template <class F, class X>
Minimum<X> minimize(F f, const X& start, MinimizeOptions options = {}) {
  const auto flat = ravel(start);
  const auto of_vector = [&](const Tensor& v) { return f(flat.second(v)); };
  const auto both = [&](const Tensor& v) -> std::pair<Tensor, Tensor> {
    const auto [value, gradient] = value_and_grad(of_vector)(v);
    return {value, gradient};
  };
  const Minimum<Tensor> found = stave_detail::minimize_flat(both, flat.first, options);
  return {flat.second(found.x), found.value, flat.second(found.grad), found.steps, found.evaluations, found.converged};
}

}  // namespace stave
