// Steps of Newton and trust region methods, which minimise a quadratic model near 0.
#pragma once

#include <functional>

#include <stave/core/tensor/tensor.h>

namespace stave_detail {

using namespace stave;

// ---- conjugate gradients that stop early ----------------------------------------------------

struct TruncatedCgLimits {
  /// The loop ends when the gradient of the model is at most `tolerance` times that at 0.
  double tolerance;
  /// The maximal number of products.
  Index products;
  /// The radius of the trust region, a number as a tensor, in the norm p^T m p of the
  /// preconditioner m^-1. Without a tensor there is no trust region.
  Tensor radius = Tensor();
};

/// Returns a p [n] that decreases the model gradient^T p + p^T b p / 2, where product(p) is b p,
/// and precondition(p) is m^-1 p for a symmetric positive definite m, about b. If b is positive
/// definite and no limit is met, p is the minimum.
///
/// At a direction of negative curvature, p follows it to the boundary of the trust region. Without
/// a trust region, p stays where it is, or is -m^-1 gradient if that is the first direction.
/// (Steihaug 1983; Conn, Gould, Toint, "Trust Region Methods", 2000, algorithm 7.5.1, whose
/// recurrences compute the norm of p.)
Tensor truncated_cg(const std::function<Tensor(const Tensor&)>& product,
                    const std::function<Tensor(const Tensor&)>& precondition, const Tensor& gradient,
                    const TruncatedCgLimits& limits);

// ---- Powell's dogleg ------------------------------------------------------------------------

/// Returns the last point within the trust region on the path from 0 to `steepest`, the minimum of
/// the model along its gradient, and on to `newton`, the minimum of the model. The length of a p is
/// sqrt(sum(scale p^2)). (Nocedal and Wright, "Numerical Optimization", 2006, (4.16))
Tensor dogleg(const Tensor& newton, const Tensor& steepest, const Tensor& radius, const Tensor& scale);

}  // namespace stave_detail
