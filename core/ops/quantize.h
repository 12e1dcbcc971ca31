// Quantized weights: matrices of codes of 8 or 4 bits, with a scale for each group of consecutive
// elements of a row. A product with them reads the codes, a quarter or an eighth of the bytes of
// float32.
//
//   const Quantized w = quantize(weights, {.bits = 4});  // [outputs, inputs]
//   const Tensor y = quantized_matmul(x, w);             // x weights^T, nearly
#pragma once

#include <optional>

#include <stave/core/tensor/options.h>
#include <stave/core/tensor/tensor.h>

namespace stave {

/// Quantized weights [..., n, k]. A code is an unsigned integer of `bits` bits, and element i of a
/// row has the scale and bias i / group, where group is k / (the number of scales of a row):
///   affine      scale code + bias
///   symmetric   scale (code - 2^(bits - 1)); there are no biases
/// Byte j of a row of 4-bit codes has code 2 j in its low half and code 2 j + 1 in its high half.
/// These are the bytes of MLX's arrays of uint32, and of ONNX's MatMulNBits.
///
/// It is a tree: transforms, files and compiled functions take it like a struct of tensors.
struct Quantized {
  Tensor packed;                   ///< uint8 [..., n, k bits / 8]
  Tensor scales;                   ///< floats [..., n, k / group]
  std::optional<Tensor> biases{};  ///< like scales; none for symmetric weights
  int bits = 4;                    ///< 4 or 8
};

struct QuantizeOptions {
  [[no_unique_address]] ByName by_name{};
  int bits = 4;           ///< 4 or 8
  Index group_size = 64;  ///< it divides k, and is even with 4 bits; 0: a whole row is one group
  bool symmetric = false;
};
/// The codes of floats w [..., n, k], and scales of groups of them. Scales and biases have the
/// dtype of w. For each group
///   affine      bias = min(w), scale = (max(w) - bias) / (2^bits - 1)
///   symmetric   scale = max(|w|) / (2^(bits - 1) - 1)
/// and each element becomes the nearest code. So dequantize(quantize(w)) differs from w by at most
/// scale / 2, and by the rounding errors of scale and bias: with u the unit roundoff of the dtype,
/// at most u (2^bits scale + 2 |w| + 2 |bias|) more. This holds for all finite weights: subnormal
/// scales are rounded up. If a group has an infinity or NaN, its scale is NaN, and so are all of
/// its weights. This is MLX's quantize, except that MLX makes 0 exact in affine groups, with errors
/// of up to a scale.
/// Throws DtypeError if w is no float, and ShapeError if the groups do not fit.
Quantized quantize(const Tensor& w, QuantizeOptions options = {});

/// The weights [..., n, k] as floats of `dtype`, which is the dtype of the scales if it is not
/// given. 16-bit floats are computed in float32.
Tensor dequantize(const Quantized& w, std::optional<Dtype> dtype = {});

struct QuantizedMatmulOptions {
  [[no_unique_address]] ByName by_name{};
  bool transpose = true;  ///< whether the weights are transposed
};
/// The product with quantized weights, x w^T. It is [..., m, n] for x [..., m, k] or, without
/// transpose, x w [..., m, k] for x [..., m, n]. A vector x counts as a row, and its axis is
/// dropped from the result. Leading axes broadcast. The result has the dtype of x; integers become
/// default_dtype(), and 16-bit floats are computed in float32. This is MLX's quantized_matmul.
///
/// The CPU computes the weights from their codes in registers for few rows of x, and block by block
/// for many. Other devices compute matmul(x, dequantize(w)), with all weights in memory as floats.
/// There are derivatives with respect to x, scales and biases. Throws ShapeError for shapes that do
/// not fit, and DtypeError if the codes are not uint8.
Tensor quantized_matmul(const Tensor& x, const Quantized& w, QuantizedMatmulOptions options = {});

}  // namespace stave
