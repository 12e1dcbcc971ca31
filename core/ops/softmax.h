// Softmax and its logarithm, along one axis.
//
// Integers and bool are computed in float32. Sums are wider than the dtype, as those of `sum`. Elements that are -inf get weight
// 0; where all are -inf, or any is +inf or NaN, nothing is defined, and the whole row is NaN.
#pragma once

#include <stave/core/tensor/tensor.h>

namespace stave {

/// exp(x) / sum(exp(x)) along an axis, without overflow.
Tensor softmax(const Tensor& x, Index axis = -1);
/// x - logsumexp(x) along an axis.
Tensor log_softmax(const Tensor& x, Index axis = -1);

}  // namespace stave
