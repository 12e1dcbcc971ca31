// Derivatives of a minimum with respect to the values that its function captures.
#pragma once

#include <functional>

#include <stave/core/tensor/tensor.h>

namespace stave_detail {

using namespace stave;

/// Returns how many derivatives of `value` may be taken: the number of running transforms that
/// differentiate the value, or 3 if it is being recorded, because derivatives of a recording may
/// follow. 0 if it is a constant.
int possible_derivatives(const Tensor& value);

/// Returns x with the derivatives of the point where the elements of `gradient` are 0.
///
/// x [n] is such a point, but for rounding, and `free` [n] tells which of its elements solve the
/// equation; the others keep their derivatives. The implicit function theorem gives the
/// derivatives: a step of Newton's method from a point without derivatives has the first ones, the
/// next step those up to the third, and so on. The number of steps fits `derivatives`. Each
/// computes the Jacobian of `gradient` [n, n] and throws LinalgError if it is singular.
Tensor with_derivatives_of_root(const std::function<Tensor(const Tensor&)>& gradient, const Tensor& x,
                                const Tensor& free, int derivatives);

}  // namespace stave_detail
