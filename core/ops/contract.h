// Contractions: sums of products, in the dtype to which the operands are promoted. Integers wrap as
// in that dtype: two of int8 give int8. Bools are 0 and 1 of int32, as they are to + and *, to sum,
// to at(...).add, and wherever else numbers are added or multiplied.
#pragma once

#include <concepts>
#include <string_view>
#include <vector>

#include <stave/core/tensor/tensor.h>

namespace stave {

/// [..., m, k] x [..., k, n] -> [..., m, n], leading axes broadcast; a vector counts as a row on the left, a column on the
/// right, and its axis is dropped from the result. Transposed operands are read in place.
Tensor matmul(const Tensor& a, const Tensor& b);
/// The product of three or more, from left to right.
template <std::same_as<Tensor>... More>
Tensor matmul(const Tensor& a, const Tensor& b, const Tensor& c, const More&... more) {
  return matmul(matmul(a, b), c, more...);
}
/// Sums over the last `axes` axes of a and the first of b.
Tensor tensordot(const Tensor& a, const Tensor& b, int axes = 2);
/// Sums over pairs of axes: a_axes[i] with b_axes[i].
Tensor tensordot(const Tensor& a, const Tensor& b, const Shape& a_axes, const Shape& b_axes);
/// out[i, j] = a[i] * b[j] of the flattened operands.
Tensor outer(const Tensor& a, const Tensor& b);

/// A sum of products in Einstein's notation: einsum("bij,bjk->bik", a, b). Each letter is a label of axes; those that the
/// output does not name are summed. Without "->" the output has the letters that occur once, in the order of the alphabet.
/// "..." stands for any axes, which broadcast and come first in an output that is not given. A letter twice in one operand
/// reads its diagonal. Axes of length 1 broadcast. Operands are promoted to one dtype, which is the result's.
///
/// Contracts two operands at a time, by matmul where there is something to sum. Of up to eight operands in the order that takes the
/// fewest multiplications; of more, first the pair that adds least to the memory.
Tensor einsum(std::string_view subscripts, const std::vector<Tensor>& operands);
template <std::same_as<Tensor>... T>
Tensor einsum(std::string_view subscripts, const T&... operands) {
  return einsum(subscripts, std::vector<Tensor>{operands...});
}

}  // namespace stave
