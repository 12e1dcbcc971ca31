// Minimisation of functions of trees by gradients: BFGS, L-BFGS, Newton and trust region methods.
//
//   const auto found = minimize([&](const Mlp& m) { return loss(m, data); }, mlp);
//   found.x, found.value, found.converged
//
// All methods follow Nocedal and Wright, "Numerical Optimization", 2006. BFGS, L-BFGS and Newton-CG
// take their direction from a model of the Hessian, and their step length from a line search for
// the strong Wolfe conditions: algorithms 6.1, 7.5, 7.1, 3.5 and 3.6, with (6.20) and (7.20) for
// the first model. BFGS keeps an n x n matrix, L-BFGS the last few steps. The trust region methods
// minimise the model with the Hessian itself within a ball: algorithm 4.1. Products with the
// Hessian are derivatives of the gradient along a vector.
//
// The minimum has derivatives with respect to all values that the function captures, of any order
// and in both modes, by the implicit function theorem with the dense Hessian, wherever a transform
// around the call may ask for them. Those of a function that is compiled reach to the third order,
// and beyond that order reverse mode throws TransformError: compile the derivative instead. They
// are those of the exact minimum, so choose a small gtol. The derivative with respect to the start
// is 0. The search reads values, so lanes of vmap are minimised one after the other.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include <stave/core/ops/tree.h>
#include <stave/core/tensor/options.h>
#include <stave/handlers/transforms/jacobian.h>

namespace stave {

enum class MinimizeMethod {
  bfgs,       ///< keeps a dense model of the inverse Hessian
  lbfgs,      ///< keeps the last steps: for many unknowns
  newton_cg,  ///< Newton's direction by conjugate gradients, for many unknowns; then a line search
  trust_ncg,  ///< a trust region, by Steihaug's conjugate gradients: for many unknowns
  /// A trust region, by Powell's dogleg with the dense Hessian. Where this is not positive
  /// definite, the step is that of trust_ncg.
  dogleg,
};
struct MinimizeOptions {
  [[no_unique_address]] ByName by_name{};
  MinimizeMethod method = MinimizeMethod::bfgs;
  /// The largest absolute value of a gradient element at a minimum; not negative.
  double gtol = 1e-5;
  /// The maximal number of steps; 0 means 200 per element of x.
  Index steps = 0;
  /// The number of steps that L-BFGS keeps; at least 1.
  int memory = 10;
};
/// The result of minimize(): the last point, and how the search ended.
template <class X>
struct Minimum {
  X x;
  Tensor value;
  X grad;
  Index steps = 0, evaluations = 0;
  /// True if the gradient satisfies gtol. Otherwise the steps were used up,
  /// or no step decreased the value because of rounding or a wrong gradient.
  bool converged = false;
};

}  // namespace stave

namespace stave_detail {

using namespace stave;

using ValueAndGradient = std::function<std::pair<Tensor, Tensor>(const Tensor&)>;
/// Returns the Hessian at the first argument times the second one.
using HessianTimes = std::function<Tensor(const Tensor&, const Tensor&)>;
Minimum<Tensor> minimize_flat(const ValueAndGradient& f, const HessianTimes& hessian, const Tensor& start,
                              const MinimizeOptions& options);

}  // namespace stave_detail

namespace stave {

/// Returns a local minimum of f, which maps a tree of floats to a tensor of one element.
/// The search begins at `start`. A value of NaN or +infinity counts as larger than any other.
/// Throws Error if the value or the gradient at `start` is not finite, and DtypeError if `start`
/// has other dtypes than floats. (scipy.optimize.minimize, jax.scipy.optimize.minimize)
template <class F, class X>
Minimum<X> minimize(F f, const X& start, MinimizeOptions options = {}) {
  const auto flat = ravel(start);
  const auto of_vector = [&](const Tensor& v) { return f(flat.second(v)); };
  const auto both = [&](const Tensor& v) -> std::pair<Tensor, Tensor> {
    const auto [value, gradient] = value_and_grad(of_vector)(v);
    return {value, gradient};
  };
  const auto hessian = [&](const Tensor& x, const Tensor& v) { return hvp(of_vector, x, v); };
  const Minimum<Tensor> found = stave_detail::minimize_flat(both, hessian, flat.first, options);
  return {flat.second(found.x), found.value, flat.second(found.grad), found.steps, found.evaluations, found.converged};
}

}  // namespace stave
