// Contractions.
#pragma once

#include <vector>

#include <stave/core/tensor.h>

namespace stave {

/// [..., m, k] x [..., k, n] -> [..., m, n], leading axes broadcast; a vector counts as a row on the left, a column on the
/// right, and its axis is dropped from the result. Transposed operands are read in place.
Tensor matmul(const Tensor& a, const Tensor& b);
/// Sums over the last `axes` axes of a and the first of b.
Tensor tensordot(const Tensor& a, const Tensor& b, int axes = 2);
/// Sums over pairs of axes: a_axes[i] with b_axes[i].
Tensor tensordot(const Tensor& a, const Tensor& b, const std::vector<Index>& a_axes, const std::vector<Index>& b_axes);
/// out[i, j] = a[i] * b[j] of the flattened operands.
Tensor outer(const Tensor& a, const Tensor& b);

}  // namespace stave
