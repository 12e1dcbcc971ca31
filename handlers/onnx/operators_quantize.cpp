// Quantisation: integers that stand for numbers scale * (integer - zero point), products of them,
// which are summed in int32, and products of floats with them.
#include <algorithm>

#include <stave/core/ops/contract.h>
#include <stave/core/ops/convolution.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/quantize.h>
#include <stave/core/ops/reduce.h>
#include <stave/handlers/onnx/operators.h>
#include <stave/handlers/onnx/windows.h>

namespace stave_detail {

namespace {

// A scale or zero point in a shape that broadcasts to x: one number, a number for each entry along
// an axis, or for each block of entries.
Tensor spread_over(const NodeCall& n, const Tensor& v, const Tensor& x) {
  if (v.size() == 1 && v.rank() <= 1) return reshape(v, Shape());
  const int axis = normalize_axis(n.integer("axis", 1), x.rank(), "axis");
  if (v.rank() == 1) return vector_along(v, axis, x.rank());
  const Index block = n.integer("block_size", 0);
  if (block < 1 || v.rank() != x.rank()) fail<ShapeError>("a scale of shape {} does not fit {}", v.shape(), x.shape());
  const Tensor all = repeat(v, block, axis);
  std::vector<Tensor::Subscript> entries(static_cast<std::size_t>(x.rank()), slice());
  entries[static_cast<std::size_t>(axis)] = slice(x.shape(axis));
  return all(entries);
}

Tensor quantized(const NodeCall& n) {
  const Tensor& x = n(0);
  const Dtype dtype = n.has(2) ? n(2).dtype() : n.integer("output_dtype", 0) != 0 ? n.dtype("output_dtype") : uint8;
  if (!is_integer(dtype)) n.refuse("numbers are quantized to integers, not to {}", dtype);
  const Dtype precision = n.integer("precision", 0) != 0 ? n.dtype("precision")
                          : is_float(x.dtype())          ? x.dtype()
                                                         : n(1).dtype();
  Tensor y = round(astype(x, precision) / astype(spread_over(n, n(1), x), precision));
  if (n.has(2)) y = astype(y, float32) + astype(spread_over(n, n(2), x), float32);
  return saturated(y, dtype);
}

Tensor dequantized(const NodeCall& n) {
  const Tensor& x = n(0);
  const Dtype dtype = n.integer("output_dtype", 0) != 0 ? n.dtype("output_dtype") : n(1).dtype();
  Tensor y = astype(x, is_half_float(dtype) ? float32 : dtype);
  if (n.has(2)) y = y - astype(spread_over(n, n(2), x), y.dtype());
  return astype(y * astype(spread_over(n, n(1), x), y.dtype()), dtype);
}

// Quantizes to uint8 by the range of x, which includes 0.
OnnxValues dynamically_quantized(const NodeCall& n) {
  const Tensor& x = n(0);
  const Tensor high = maximum((max)(x), 0.), low = minimum((min)(x), 0.);
  const Tensor scale = where(high == low, ones_like(high), high - low) / 255.;
  const Tensor zero = round(clip(-low / scale, 0., 255.));
  return results({saturated(round(x / scale) + zero, uint8), scale, astype(zero, uint8)});
}

// The integers without their zero point, which is one number or a number for each row or column.
Tensor centred(const NodeCall& n, std::size_t x, std::size_t zero_point, bool rows) {
  const Tensor wide = astype(n(x), int32);
  if (!n.has(zero_point)) return wide;
  Tensor zero = astype(n(zero_point), int32);
  if (zero.rank() == 1 && zero.size() > 1 && rows) zero = expand_dims(zero, -1);
  return wide - (zero.size() == 1 ? reshape(zero, Shape()) : zero);
}

// A scale or zero point of the rows of a matrix as a column.
Tensor of_rows(const Tensor& v) {
  return v.rank() == 1 && v.size() > 1 ? expand_dims(v, -1) : v.size() == 1 ? reshape(v, Shape()) : v;
}
Tensor of_columns(const Tensor& v) { return v.size() == 1 ? reshape(v, Shape()) : v; }

Tensor qlinear_matmul(const NodeCall& n) {
  const Tensor products = matmul(centred(n, 0, 2, true), centred(n, 3, 5, false));
  const Tensor scale =
      astype(of_rows(n(1)), float32) * astype(of_columns(n(4)), float32) / astype(of_rows(n(6)), float32);
  return saturated(astype(products, float32) * scale + astype(of_rows(n(7)), float32), n(7).dtype());
}

// The weights of a convolution without their zero points, which are one or one for each output.
Tensor centred_kernel(const NodeCall& n, std::size_t w, std::size_t zero_point) {
  const Tensor wide = astype(n(w), int32);
  if (!n.has(zero_point)) return wide;
  const Tensor zero = astype(n(zero_point), int32);
  if (zero.size() == 1) return wide - reshape(zero, Shape());
  return wide - vector_along(zero, 0, wide.rank());
}

Tensor quantized_conv(const NodeCall& n) {
  Tensor y = onnx_conv(n, centred(n, 0, 2, false), centred_kernel(n, 3, 5));
  if (n.has(8)) y = y + per_channel(n(8), y.rank());
  const Tensor scale = n(1) * n(4) / n(6);
  const Tensor scaled =
      astype(y, float32) * (scale.size() == 1 ? reshape(scale, Shape()) : per_channel(scale, y.rank()));
  return saturated(scaled + astype(reshape(n(7), Shape()), float32), n(7).dtype());
}

// The zero points [n, blocks] of matmul_n_bits as floats of `dtype`. Integers are packed as the
// weights are, and each row begins a byte.
Tensor zero_points(const Tensor& points, Index n, Index blocks, int bits, Dtype dtype) {
  Tensor codes = points;
  if (points.dtype() == uint8 && bits == 4) {
    const Index bytes = (blocks + 1) / 2;
    const Tensor rows = reshape(points, {n, bytes});
    codes = reshape(stack({bitwise_and(rows, 15), bitwise_right_shift(rows, 4)}, -1), {n, 2 * bytes})(slice(),
                                                                                                      slice(blocks));
  }
  return astype(reshape(codes, {n, blocks}), dtype);
}

// com.microsoft.MatMulNBits of onnxruntime: the product of x [..., k] and the transposed weights
// [n, k], which are in blocks along k. The last block may be partly padding, which meets zeros.
// https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
Tensor matmul_n_bits(const NodeCall& n) {
  const Index k = n.integer("K"), rows = n.integer("N"), bits = n.integer("bits", 4), block = n.integer("block_size");
  if (bits != 4 && bits != 8) n.refuse("weights have 4 or 8 bits, not {}", bits);
  if (k < 1 || rows < 0 || block < 2 || block % 2 != 0 || block > Index{1} << 30)
    n.refuse("K is {}, N is {}, and block_size is {}", k, rows, block);
  if (n.has(4)) n.refuse("g_idx, an order of the columns, is not supported");
  const Index blocks = (k - 1) / block + 1;
  const Tensor packed = reshape(n(1), {rows, blocks * (block * bits / 8)});
  const Tensor scales = reshape(n(2), {rows, blocks});
  Quantized w{packed, scales, {}, static_cast<int>(bits)};
  if (n.has(3)) {  // scale (code - zero) = scale code + bias, where the bias is rounded in float32
    w.scales = is_half_float(scales.dtype()) ? astype(scales, float32) : scales;
    w.biases = -(w.scales * zero_points(n(3), rows, blocks, w.bits, w.scales.dtype()));
  }
  Tensor x = n(0);
  if (const Index padding = blocks * block - k; padding > 0) {
    std::vector<std::pair<Index, Index>> widths(static_cast<std::size_t>(x.rank()));
    widths.back().second = padding;
    x = pad(x, widths);
  }
  const Tensor y = quantized_matmul(x, w);
  return n.has(5) ? y + n(5) : y;
}

constexpr OnnxOperator microsoft_rows[] = {{"MatMulNBits", 1, matmul_n_bits}};

constexpr OnnxOperator quantize_rows[] = {
    {"ConvInteger", 10,
     [](const NodeCall& n) { return onnx_conv(n, centred(n, 0, 2, false), centred_kernel(n, 1, 3)); }},
    {"DequantizeLinear", 10, dequantized},
    {"DynamicQuantizeLinear", 11, dynamically_quantized},
    {"MatMulInteger", 10, [](const NodeCall& n) { return matmul(centred(n, 0, 2, true), centred(n, 1, 3, false)); }},
    {"QLinearConv", 10, quantized_conv},
    {"QLinearMatMul", 10, qlinear_matmul},
    {"QuantizeLinear", 10, quantized},
};

}  // namespace

std::span<const OnnxOperator> onnx_quantize() { return quantize_rows; }
std::span<const OnnxOperator> onnx_microsoft() { return microsoft_rows; }

}  // namespace stave_detail
