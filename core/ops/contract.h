// Contractions: sums of products, in the dtype to which the operands are promoted. Integers wrap
// in that dtype: the product of two int8 operands is int8. Bools count as 0 and 1 of int32,
// as they do in +, *, sum, at(...).add, and wherever else numbers are added or multiplied.
#pragma once

#include <concepts>
#include <string_view>
#include <vector>

#include <stave/core/tensor/tensor.h>

namespace stave {

/// The matrix product: [..., m, k] x [..., k, n] -> [..., m, n]. Leading axes broadcast.
/// A vector counts as a row on the left and as a column on the right, and its axis is dropped
/// from the result. Transposed operands are read in place.
Tensor matmul(const Tensor& a, const Tensor& b);
/// The product of three or more matrices, from left to right.
template <std::same_as<Tensor>... More>
Tensor matmul(const Tensor& a, const Tensor& b, const Tensor& c, const More&... more) {
  return matmul(matmul(a, b), c, more...);
}
/// Sums of products over the last `axes` axes of a and the first `axes` axes of b.
Tensor tensordot(const Tensor& a, const Tensor& b, int axes = 2);
/// Sums of products over pairs of axes: a_axes[i] with b_axes[i].
Tensor tensordot(const Tensor& a, const Tensor& b, const Shape& a_axes, const Shape& b_axes);
/// The outer product of the flattened operands: out[i, j] = a[i] * b[j].
Tensor outer(const Tensor& a, const Tensor& b);

/// A sum of products in Einstein's notation: einsum("bij,bjk->bik", a, b).
/// Each letter labels an axis; letters that the output does not name are summed.
/// Without "->" the output has the letters that occur once, in alphabetical order. "..." stands
/// for any number of axes, which broadcast; they come first in an output that is not given, and are
/// summed if a given output does not name them.
/// A letter that occurs twice in one operand selects its diagonal. Axes of length 1 broadcast.
/// Operands are promoted to one dtype, which is the dtype of the result.
///
/// Two operands at a time are contracted, by matmul if an axis is summed. For up to eight operands
/// the order is the one with the fewest multiplications. For more operands, the pair whose product
/// adds least to the memory is contracted first.
Tensor einsum(std::string_view subscripts, const std::vector<Tensor>& operands);
template <std::same_as<Tensor>... T>
Tensor einsum(std::string_view subscripts, const T&... operands) {
  return einsum(subscripts, std::vector<Tensor>{operands...});
}

}  // namespace stave
