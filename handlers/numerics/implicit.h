// Derivatives of a minimum with respect to the values that its function captures.
#pragma once

#include <functional>

#include <stave/core/tensor/tensor.h>

namespace stave_detail {

using namespace stave;

/// The derivatives of a value that may be taken.
struct PossibleDerivatives {
  int order = 0;  // the highest order that the running transforms take; 0: the value is a constant
  // The value is being recorded. Derivatives of the recording may follow, of any order.
  bool is_recorded = false;
  bool any() const { return order > 0 || is_recorded; }
};
PossibleDerivatives possible_derivatives(const Tensor& value);

/// Returns x with the derivatives of the point where the elements of `gradient` are 0.
///
/// x [n] is such a point, but for rounding, and `free` [n] tells which of its elements solve the
/// equation; the others keep their derivatives. The implicit function theorem gives the
/// derivatives: a step of Newton's method from a point without derivatives has the first ones, the
/// next step those up to the third, and so on. The number of steps fits the order; for a recording,
/// whose derivatives are not known yet, it fits an order of 3 at least, and a derivative of a
/// higher order than the steps have throws TransformError. Each step computes the Jacobian of
/// `gradient` [n, n] and throws LinalgError if it is singular.
Tensor with_derivatives_of_root(const std::function<Tensor(const Tensor&)>& gradient, const Tensor& x,
                                const Tensor& free, const PossibleDerivatives& derivatives);

}  // namespace stave_detail
