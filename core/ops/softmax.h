// Softmax and its logarithm, along one axis.
//
// Integers and bool are computed in default_dtype(). Sums are accumulated in a wider type
// than the dtype, as in `sum`. Elements that are -inf get weight 0. If all elements are -inf,
// or any is +inf or NaN, the softmax is undefined, and the whole row is NaN.
#pragma once

#include <stave/core/tensor/tensor.h>

namespace stave {

/// exp(x) / sum(exp(x)) along an axis, without overflow.
Tensor softmax(const Tensor& x, Index axis = -1);
/// x - logsumexp(x) along an axis.
Tensor log_softmax(const Tensor& x, Index axis = -1);

}  // namespace stave
