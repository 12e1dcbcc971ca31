// Quantized weights: the operation quantized_matmul, and functions composed of other operations.
#include <stave/core/ops/quantize.h>

#include <algorithm>
#include <limits>

#include <stave/core/op/define.h>
#include <stave/core/op/op.h>
#include <stave/core/ops/contract.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/dtypes.h>
#include <stave/core/ops/element_sets.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/linalg_rules.h>
#include <stave/core/ops/reduce.h>
#include <stave/core/tensor/fail.h>

namespace stave {

using namespace stave_detail;

namespace {

// ---- the form of weights --------------------------------------------------------------------

// Throws unless scales and biases fit the codes.
void check_weights(const Quantized& w, const char* function) {
  if (w.bits != 4 && w.bits != 8) fail<Error>("{}: codes have 4 or 8 bits, not {}", function, w.bits);
  if (w.packed.dtype() != uint8) fail<DtypeError>("{}: codes are {}, and must be uint8", function, w.packed.dtype());
  if (!is_float(w.scales.dtype()))
    fail<DtypeError>("{}: scales are {}, and must be floats", function, w.scales.dtype());
  if (w.packed.rank() < 2 || w.scales.rank() < 2 || without_last(w.packed.shape()) != without_last(w.scales.shape()))
    fail<ShapeError>("{}: codes {} and scales {} must be matrices with equal axes but for the last one", function,
                     w.packed.shape(), w.scales.shape());
  if (w.biases && !w.biases->defined())
    fail<TransformError>("{}: biases are an empty Tensor: symmetric weights have std::nullopt", function);
  if (w.biases && (w.biases->shape() != w.scales.shape() || w.biases->dtype() != w.scales.dtype()))
    fail<ShapeError>("{}: biases are {} {}, and must be {} {} as the scales are", function, w.biases->dtype(),
                     w.biases->shape(), w.scales.dtype(), w.scales.shape());
  const Index codes = w.packed.shape(-1) * (8 / w.bits), groups = w.scales.shape(-1);
  if (groups == 0 ? codes != 0 : codes % groups != 0 || codes / groups * w.bits % 8 != 0)
    fail<ShapeError>("{}: {} scales do not divide the {} codes of a row into groups of whole bytes", function, groups,
                     codes);
}

// The number of weights of a row.
Index row_length(const Quantized& w) { return w.packed.shape(-1) * (8 / w.bits); }

// Throws unless the last axis of x fits the weights.
void check_inner(const Tensor& x, const Quantized& w, bool transpose, const char* function) {
  const Index n = w.packed.shape(-2), k = row_length(w), inner = transpose ? k : n;
  if (x.shape(-1) != inner)
    fail<ShapeError>("{}: x {} and weights {}{} do not fit: the last length of x, {}, must be {}", function, x.shape(),
                     joined({without_last(w.packed.shape(), 2), Shape(n, k)}), transpose ? ", transposed," : "",
                     x.shape(-1), inner);
}

// x [..., k] as [..., groups, group].
Tensor grouped(const Tensor& x, Index groups) {
  const Index k = x.shape(-1);
  return reshape(x, joined({without_last(x.shape()), Shape(groups, k / std::max<Index>(groups, 1))}));
}
Tensor ungrouped(const Tensor& x) {
  return reshape(x, joined({without_last(x.shape(), 2), Shape(x.shape(-2) * x.shape(-1))}));
}
Tensor as_column(const Tensor& x) { return expand_dims(x, -1); }

double zero_code(int bits) { return 1 << (bits - 1); }

// The codes [..., groups, group] as floats; those of symmetric weights are centred about 0.
Tensor codes_of(const Tensor& packed, int bits, Index groups, bool symmetric, Dtype dtype) {
  const Tensor codes =
      bits == 8 ? packed : ungrouped(stack({bitwise_and(packed, 15), bitwise_right_shift(packed, 4)}, -1));
  const Tensor floats = astype(grouped(codes, groups), dtype);
  return symmetric ? floats - zero_code(bits) : floats;
}

// ---- the operation --------------------------------------------------------------------------

// The weights of a call.
Quantized weights_of(std::span<const Tensor> inputs, const QuantizedAttributes& attributes) {
  Quantized w{inputs[1], inputs[2], {}, attributes.bits};
  if (inputs.size() > 3) w.biases = inputs[3];
  return w;
}

Tensor product(const Tensor& x, const Quantized& w, bool transpose) {
  Inputs inputs{x, w.packed, w.scales};
  if (w.biases) inputs.push_back(*w.biases);
  return apply(op_quantized_matmul, std::move(inputs), make_intrusive<QuantizedAttributes>(w.bits, transpose));
}

void infer_quantized_matmul(const Call& call, SmallVector<Abstract, 1>& outputs) {
  const auto& attributes = call.as<QuantizedAttributes>();
  const Quantized w = weights_of(call.inputs(), attributes);
  check_weights(w, call.op().name);
  const Tensor& x = call.input(0);
  if (!is_float(x.dtype())) fail<DtypeError>("{}: {} is not a floating dtype", call.op().name, x.dtype());
  if (x.rank() < 2 || stack_of(x.shape()) != stack_of(w.packed.shape()))
    fail<ShapeError>("{}: x {} and codes {} must be matrices with equal leading axes here", call.op().name, x.shape(),
                     w.packed.shape());
  check_inner(x, w, attributes.transpose, call.op().name);
  Shape shape = x.shape();
  shape.back() = attributes.transpose ? w.packed.shape(-2) : row_length(w);
  outputs.push_back({std::move(shape), x.dtype()});
}

// y = x w^T is linear in x, and linear in scales and biases.
Outputs jvp_quantized_matmul(const JvpContext& c) {
  const auto& attributes = c.as<QuantizedAttributes>();
  const Quantized w = weights_of(c.call.inputs(), attributes);
  Tensor dy;
  if (c.has(0)) dy = product(c.tangents[0], w, attributes.transpose);
  if (c.has(2) || (w.biases && c.has(3))) {
    Quantized dw{w.packed, c.tangent(2), {}, w.bits};
    if (w.biases) dw.biases = c.tangent(3);
    dy = add_tangents(std::move(dy), product(c.in(0), dw, attributes.transpose));
  }
  return dy;
}

// For y = x w^T with the cotangent t of y, those of x and w are t w and t^T x, and for y = x w they
// are t w^T and x^T t. That of a scale is the sum of codes times cotangents of weights over the
// group, that of a bias the sum of these cotangents.
Tensor vjp_quantized_matmul(const VjpContext& c, int input) {
  const auto& attributes = c.as<QuantizedAttributes>();
  if (input == 0) return product(c.ct(), weights_of(c.inputs, attributes), !attributes.transpose);
  if (input == 1) return c.zeros(1);
  return c.once([&] {
    const Dtype dtype = stave_detail::computed_in(promote(c.dtype(0), c.dtype(2)));
    const Tensor x = astype(c.in(0), dtype), t = astype(c.ct(), dtype);
    const Index groups = c.shape(2).back();
    const bool symmetric = c.input_abstracts.size() == 3;
    const Tensor codes = codes_of(c.in(1), attributes.bits, groups, symmetric, dtype);
    const Tensor ct =
        grouped(attributes.transpose ? matmul(matrix_transpose(t), x) : matmul(matrix_transpose(x), t), groups);
    Outputs cotangents{astype(sum(ct * codes, -1), c.dtype(2))};
    if (!symmetric) cotangents.push_back(astype(sum(ct, -1), c.dtype(3)));
    return cotangents;
  })[static_cast<std::size_t>(input - 2)];
}

Outputs batch_quantized_matmul(const BatchContext& c) {
  const auto& attributes = c.as<QuantizedAttributes>();
  std::vector<Tensor> inputs(c.inputs.begin(), c.inputs.end());
  if (c.batched[1] || c.batched[2] || (inputs.size() > 3 && c.batched[3]))
    for (std::size_t i = 1; i < inputs.size(); ++i) inputs[i] = c.batched_in(i);
  return quantized_matmul(inputs[0], weights_of(inputs, attributes), {.transpose = attributes.transpose});
}

// Without knowledge of the weights, an element of the result depends on all elements of its row of
// x, and on all scales and biases of its matrix of weights.
Outputs depends_quantized_matmul(const DependsContext& c) {
  if (c.has(2) || (c.inputs.size() > 3 && c.has(3))) return depends_on_matrices(c);
  return c.has(0) ? c.sets.unite_over(c.set(0), Shape(c.call.input(0).rank() - 1)) : Tensor();
}

}  // namespace

constinit const Op op_quantized_matmul{
    .id = OpId::quantized_matmul,
    .name = "quantized_matmul",
    .infer = infer_quantized_matmul,
    .reads = {0b1110, 0b0011},
    .jvp = jvp_quantized_matmul,
    .vjp = vjp_quantized_matmul,
    .batch = batch_quantized_matmul,
    .depends = depends_quantized_matmul,
    .flops =
        [](const Attributes*, std::span<const Shape> inputs, const Shape& output) {
          return 2 * static_cast<std::uint64_t>(output.elements()) * static_cast<std::uint64_t>(inputs[0].back());
        },
};

// ---- the functions --------------------------------------------------------------------------

namespace {

// Codes [..., k] in bytes.
Tensor packed_codes(const Tensor& codes, int bits) {
  const Tensor bytes = astype(codes, uint8);
  if (bits == 8) return bytes;
  const Tensor pairs = grouped(bytes, bytes.shape(-1) / 2);
  return bitwise_or(pairs(ellipsis, 0), bitwise_left_shift(pairs(ellipsis, 1), 4));
}

// The scales of groups of weights from `low` to `high`, both multiplied by `part`, which are those
// of the codes 0 and `most`.
Tensor scales_of(const Tensor& low, const Tensor& high, const Tensor& part, double most, Dtype dtype) {
  const FloatInfo limits = finfo(dtype);
  const Tensor range = high - low, nearest = astype(range / most / part, dtype);
  const Tensor reach = astype(nearest, range.dtype()) * part * most;
  // A subnormal scale may lose many of its digits. It is rounded up, such that no code is clipped.
  const Tensor is_short = logical_and(nearest < limits.smallest_normal, reach < range);
  const Tensor overflows = low + reach > limits.max * part;
  const Tensor scales = where(is_short, nextafter(nearest, 1.), where(overflows, nextafter(nearest, 0.), nearest));
  return where(isfinite(range), scales, std::numeric_limits<double>::quiet_NaN());
}

// The product of operands of rank 2 or more, whose leading axes broadcast. A stack of matrices x
// times one matrix of weights is computed as a single product.
Tensor product_of_stacks(const Tensor& x, const Quantized& w, bool transpose) {
  if (w.packed.rank() == 2 && x.rank() > 2) {
    const Index inner = x.shape(-1);
    Shape shape = x.shape();
    shape.back() = transpose ? w.packed.shape(-2) : row_length(w);
    const Index rows = without_last(x.shape()).elements();
    return reshape(product(reshape(x, {rows, inner}), w, transpose), shape);
  }
  const Shape batch = broadcast_shapes(stack_of(x.shape()), stack_of(w.packed.shape()), "quantized_matmul");
  const auto repeated = [&](const Tensor& t) { return broadcast_to(t, joined({batch, last_axes(t.shape(), 2)})); };
  Quantized all{repeated(w.packed), repeated(w.scales), {}, w.bits};
  if (w.biases) all.biases = repeated(*w.biases);
  return product(repeated(x), all, transpose);
}

}  // namespace

Quantized quantize(const Tensor& w, QuantizeOptions options) {
  constexpr const char* function = "quantize";
  return named(
      function,
      [&] {
        if (options.bits != 4 && options.bits != 8)
          fail<Error>("{}: codes have 4 or 8 bits, not {}", function, options.bits);
        if (!is_float(w.dtype())) fail<DtypeError>("{}: weights are floats, not {}", function, w.dtype());
        if (w.rank() < 2) fail<ShapeError>("{}: weights {} must be matrices", function, w.shape());
        const Index k = w.shape(-1), group = options.group_size == 0 ? k : options.group_size;
        if (group < 0 || (group == 0 ? k != 0 : k % group != 0) || group * options.bits % 8 != 0)
          fail<ShapeError>("{}: groups of {} do not divide rows of {} into {}: choose another group_size", function,
                           group, k, options.bits == 4 ? "parts of even length" : "equal parts");
        const Index groups = k == 0 ? 0 : k / group;
        const Dtype dtype = w.dtype();
        if (k == 0) {
          const Tensor none = zeros(joined({without_last(w.shape()), Shape(0)}), dtype, w.device());
          return Quantized{astype(none, uint8), none, options.symmetric ? std::nullopt : std::optional(none),
                           options.bits};
        }
        const Tensor wide = astype(grouped(w, groups), stave_detail::computed_in(dtype));
        const Tensor low = (min)(wide, -1), high = (max)(wide, -1);
        const double zero = options.symmetric ? zero_code(options.bits) : 0, last = (1 << options.bits) - 1;
        const Tensor from = options.symmetric ? zeros_like(low) : low;
        const Tensor to = options.symmetric ? maximum(abs(low), abs(high)) : high;
        // Groups whose range would overflow are computed from half of their weights.
        const Tensor part = 1. - 0.5 * astype(isinf(to - from), wide.dtype()), parts = as_column(part);
        const Tensor scales = scales_of(from * part, to * part, part, options.symmetric ? zero - 1 : last, dtype);
        const Tensor scale = astype(scales, wide.dtype()), divisor = as_column(where(scale == 0, 1, scale)) * parts;
        // A symmetric code of 0 would stand for more than the largest weight.
        const double first = options.symmetric ? 1 : 0;
        const Tensor codes = clip(round((wide * parts - as_column(from * part)) / divisor) + zero, first, last);
        return Quantized{packed_codes(ungrouped(codes), options.bits), scales,
                         options.symmetric ? std::nullopt : std::optional(astype(low, dtype)), options.bits};
      },
      w);
}

Tensor dequantize(const Quantized& w, std::optional<Dtype> dtype) {
  constexpr const char* function = "dequantize";
  return named(
      function,
      [&] {
        check_weights(w, function);
        const Dtype result = dtype.value_or(w.scales.dtype());
        if (!is_float(result)) fail<DtypeError>("{}: weights are floats, not {}", function, result);
        const Dtype wide = stave_detail::computed_in(promote(result, w.scales.dtype()));
        const Tensor codes = codes_of(w.packed, w.bits, w.scales.shape(-1), !w.biases, wide);
        const Tensor scales = as_column(astype(w.scales, wide));
        if (!w.biases) return astype(ungrouped(codes * scales), result);
        // Where the product with a code would overflow, codes count from the middle.
        const double last = (1 << w.bits) - 1;
        const Tensor middle = 0.5 * last * astype(isinf(scales * last), wide);
        const Tensor y = (codes - middle) * scales + (as_column(astype(*w.biases, wide)) + middle * scales);
        return astype(ungrouped(y), result);
      },
      w.packed, w.scales);
}

Tensor quantized_matmul(const Tensor& x, const Quantized& w, QuantizedMatmulOptions options) {
  constexpr const char* function = "quantized_matmul";
  return named(
      function,
      [&] {
        check_weights(w, function);
        if (x.rank() == 0) fail<ShapeError>("{}: x has rank 0, and no axis to sum over", function);
        check_inner(x, w, options.transpose, function);
        const Tensor floats = floating(x), matrix = x.rank() == 1 ? expand_dims(floats, 0) : floats;
        Tensor y;
        if (x.device() == cpu) {
          y = product_of_stacks(matrix, w, options.transpose);
        } else {
          const Tensor weights = dequantize(w, stave_detail::computed_in(matrix.dtype()));
          y = astype(matmul(astype(matrix, weights.dtype()), options.transpose ? matrix_transpose(weights) : weights),
                     matrix.dtype());
        }
        return x.rank() == 1 ? squeeze(y, -2) : y;
      },
      x, w.packed, w.scales);
}

}  // namespace stave
