// Rows of quantized weights. References compute the weights from their codes in long double.

#include <algorithm>
#include <cmath>

#include <stave/core/ops/quantize.h>

#include "table/reference.h"
#include "table/row.h"

namespace table {

namespace {

const Domain bytes{0, 255}, sizes{0.3, 2};

Shape with_last(Shape shape, Index length) {
  shape.back() = length;
  return shape;
}

/// Weights of this shape [..., n, k] as inputs: codes, scales, and biases if they are affine.
struct Weights {
  Shape shape;
  int bits;
  Index groups;
  bool symmetric;

  std::string str() const {
    return std::to_string(bits) + " bits " + shape.str() + " " + std::to_string(groups) + " groups" +
           (symmetric ? " symmetric" : "");
  }
  Shape packed() const { return with_last(shape, shape.back() * bits / 8); }
  std::vector<Input> inputs(Dtype dtype) const {
    std::vector<Input> all{{uint8, packed(), bytes}, {dtype, with_last(shape, groups), sizes}};
    if (!symmetric) all.push_back({dtype, with_last(shape, groups)});
    return all;
  }
  /// `xs` begins with the codes.
  Quantized tensors(std::span<const Tensor> xs) const {
    Quantized w{xs[0], xs[1], {}, bits};
    if (!symmetric) w.biases = xs[2];
    return w;
  }
  Real operator()(std::span<const Array> xs, const Shape& p) const {
    Shape byte = p, group = p;
    byte.back() = p.back() * bits / 8;
    group.back() = p.back() / (shape.back() / groups);
    const auto whole = static_cast<unsigned>(xs[0](byte));
    const unsigned code = bits == 8 ? whole : p.back() % 2 == 0 ? whole % 16 : whole / 16;
    const Real scale = xs[1](group);
    return symmetric ? scale * (static_cast<Real>(code) - (bits == 8 ? 128 : 8)) : scale * code + xs[2](group);
  }
  /// The size to which rounding errors of an element are relative.
  Real magnitude(std::span<const Array> xs, const Shape& p) const {
    Shape group = p;
    group.back() = p.back() / (shape.back() / groups);
    return std::abs(xs[1](group)) * (bits == 8 ? 256 : 16) + (symmetric ? 0 : std::abs(xs[2](group)));
  }
};

Variant product_of(Dtype dtype, Dtype scales, const Shape& x, const Weights& w, bool transpose) {
  std::vector<Input> inputs = w.inputs(scales);
  inputs.insert(inputs.begin(), Input{dtype, x});
  return {.name = x.str() + " " + w.str() +
                  (scales == as_float(dtype) ? "" : " scales " + std::string(name_of(scales))) +
                  (transpose ? "" : " not transposed"),
          .inputs = inputs,
          .call = [=](auto xs) { return quantized_matmul(xs[0], w.tensors(xs.subspan(1)), {.transpose = transpose}); },
          .reference =
              [=](auto xs) {
                const bool is_vector = x.rank() == 1;
                const Shape left = is_vector ? with_axis(x, 0, 1) : x;
                const auto batch_of = [](const Shape& s) { return part(s, 0, s.rank() - 2); };
                const Shape batch = broadcast_shape(batch_of(left), batch_of(w.shape));
                const Index n = w.shape[w.shape.size() - 2], k = w.shape.back();
                const Shape full = concatenated(batch, Shape(left[left.size() - 2], transpose ? n : k));
                const auto total = [&](const Shape& p, bool absolute) {
                  const Shape at = part(p, 0, p.rank() - 2);
                  Real sum = 0;
                  for (Index i = 0; i < (transpose ? k : n); ++i) {
                    const Shape element = concatenated(broadcast_position(batch_of(w.shape), at),
                                                       transpose ? Shape(p.back(), i) : Shape(i, p.back()));
                    Shape place = concatenated(broadcast_position(batch_of(left), at), Shape(p[p.size() - 2], i));
                    if (is_vector) place = Shape(i);
                    const Real factor = xs[0](place);
                    sum += absolute ? std::abs(factor) * w.magnitude(xs.subspan(1), element)
                                    : factor * w(xs.subspan(1), element);
                  }
                  return sum;
                };
                Array y = make(as_float(dtype), full, [&](const Shape& p) { return total(p, false); });
                y.magnitude = make(float64, full, [&](const Shape& p) { return total(p, true); }).values;
                if (is_vector) y.shape = without_axis(full, -2);
                return Arrays{y};
              }};
}

std::vector<Variant> product_variants(Dtype dtype) {
  const Dtype like = as_float(dtype);
  return {product_of(dtype, like, {3, 4}, {{2, 4}, 4, 2, false}, true),
          product_of(dtype, like, {2, 6}, {{3, 6}, 8, 2, true}, true),
          product_of(dtype, like, {4}, {{2, 4}, 8, 1, false}, true),
          product_of(dtype, like, {2, 1, 3, 4}, {{3, 2, 4}, 4, 1, true}, true),
          product_of(dtype, like, {2, 2, 4}, {{2, 4}, 4, 2, false}, true),
          product_of(dtype, like, {3, 2}, {{2, 4}, 4, 2, false}, false),
          product_of(dtype, like, {2, 2, 3}, {{2, 3, 4}, 8, 2, true}, false),
          product_of(dtype, dtype == float64 ? float32 : float16, {2, 4}, {{3, 4}, 8, 2, false}, true),
          product_of(dtype, like, {2, 0}, {{3, 0}, 4, 1, false}, true),
          product_of(dtype, like, {0, 4}, {{3, 4}, 4, 1, false}, true),
          product_of(dtype, like, {2, 4}, {{0, 4}, 4, 1, true}, true),
          {.name = "of other lengths",
           .inputs = {{dtype, {2, 6}}, {uint8, {2, 2}, bytes}, {like, {2, 1}}},
           .call = [](auto xs) { return quantized_matmul(xs[0], {.packed = xs[1], .scales = xs[2]}); },
           .refusal = "the last length of x, 6, must be 4"},
          {.name = "of many groups",
           .inputs = {{dtype, {2, 4}}, {uint8, {2, 2}, bytes}, {like, {2, 4}}},
           .call = [](auto xs) { return quantized_matmul(xs[0], {.packed = xs[1], .scales = xs[2]}); },
           .refusal = "4 scales do not divide the 4 codes of a row into groups of whole bytes"},
          {.name = "of a number",
           .inputs = {{dtype, {}}, {uint8, {2, 2}, bytes}, {like, {2, 1}}},
           .call = [](auto xs) { return quantized_matmul(xs[0], {.packed = xs[1], .scales = xs[2]}); },
           .refusal = "x has rank 0"}};
}

Variant dequantized(Dtype dtype, const Weights& w) {
  return {.name = w.str(),
          .inputs = w.inputs(dtype),
          .call = [=](auto xs) { return dequantize(w.tensors(xs)); },
          .reference =
              [=](auto xs) {
                Array y = make(dtype, w.shape, [&](const Shape& p) { return w(xs, p); });
                y.magnitude = make(float64, w.shape, [&](const Shape& p) { return w.magnitude(xs, p); }).values;
                return Arrays{y};
              }};
}

std::vector<Variant> dequantize_variants(Dtype dtype) {
  return {dequantized(dtype, {{3, 8}, 4, 2, false}), dequantized(dtype, {{2, 6}, 8, 3, true}),
          dequantized(dtype, {{2, 2, 4}, 4, 1, true}), dequantized(dtype, {{0, 4}, 8, 2, false}),
          refused(
              "", dtype, {}, [](const Tensor& x) { return dequantize({.packed = x, .scales = x}); },
              "codes are " + std::string(name_of(dtype)) + ", and must be uint8")};
}

/// The codes or, in another variant, scales and biases, which have derivatives.
Variant quantized(Dtype dtype, const Shape& shape, QuantizeOptions options, bool codes) {
  const Index k = shape.back(), group = options.group_size == 0 ? k : options.group_size;
  const int bits = options.bits;
  const bool symmetric = options.symmetric;
  return {.name = shape.str() + " " + std::to_string(bits) + " bits in groups of " +
                  std::to_string(options.group_size) + (symmetric ? " symmetric" : "") + (codes ? ": codes" : ""),
          .inputs = {{dtype, shape}},
          .call =
              [=](auto xs) {
                const Quantized w = quantize(xs[0], options);
                Outputs all{codes ? w.packed : w.scales};
                if (!codes && w.biases) all.push_back(*w.biases);
                return all;
              },
          .reference =
              [=](auto xs) {
                const Array& w = xs[0];
                const Real most = bits == 8 ? 255 : 15, zero = bits == 8 ? 128 : 8;
                // The least and the greatest element of the group at a position of the scales.
                const auto extremes = [&](const Shape& p) {
                  std::vector<Real> values;
                  Shape at = p;
                  for (Index i = 0; i < group; ++i) {
                    at.back() = p.back() * group + i;
                    values.push_back(w(at));
                  }
                  const auto [low, high] = std::minmax_element(values.begin(), values.end());
                  return std::pair(*low, *high);
                };
                const Shape groups = with_last(shape, group == 0 ? 0 : k / group);
                const Array scales = make(dtype, groups, [&](const Shape& p) {
                  const auto [low, high] = extremes(p);
                  return symmetric ? std::max(std::abs(low), std::abs(high)) / (zero - 1) : (high - low) / most;
                });
                const Array biases = make(dtype, groups, [&](const Shape& p) { return extremes(p).first; });
                const auto code = [&](const Shape& p) {
                  Shape g = p;
                  g.back() = p.back() / group;
                  const Real scale = rounded(scales(g), dtype), bias = rounded(biases(g), dtype);
                  const Real nearest =
                      symmetric ? std::nearbyint(w(p) / scale) + zero : std::nearbyint((w(p) - bias) / scale);
                  return std::clamp(nearest, Real(0), most);
                };
                const Array packed = make(uint8, with_last(shape, k * bits / 8), [&](const Shape& p) {
                  if (bits == 8) return code(p);
                  Shape at = p;
                  at.back() = 2 * p.back();
                  const Real low = code(at);
                  ++at.back();
                  return low + 16 * code(at);
                });
                Arrays all{codes ? packed : scales};
                if (!codes && !symmetric) all.push_back(biases);
                return all;
              },
          .differentiable = !codes};
}

std::vector<Variant> quantize_variants(Dtype dtype) {
  std::vector<Variant> variants;
  for (const bool codes : {false, true})
    for (const Variant& variant : {quantized(dtype, {3, 8}, {.bits = 4, .group_size = 4}, codes),
                                   quantized(dtype, {2, 6}, {.bits = 8, .group_size = 0, .symmetric = true}, codes),
                                   quantized(dtype, {2, 2, 4}, {.bits = 8, .group_size = 2}, codes),
                                   quantized(dtype, {3, 4}, {.bits = 4, .group_size = 2, .symmetric = true}, codes),
                                   quantized(dtype, {0, 4}, {.bits = 4, .group_size = 2}, codes),
                                   quantized(dtype, {2, 0}, {.bits = 4, .group_size = 0, .symmetric = true}, codes)})
      variants.push_back(variant);
  variants.push_back(refused(
      "", dtype, {}, [](const Tensor& x) { return quantize(x).packed; }, "weights [] must be matrices"));
  return variants;
}

}  // namespace

void add_quantize_rows(std::vector<Row>& rows) {
  rows.push_back({.name = "quantize", .dtypes = float_dtypes, .variants = quantize_variants});
  rows.push_back({.name = "dequantize", .dtypes = float_dtypes, .variants = dequantize_variants});
  rows.push_back({.name = "quantized_matmul",
                  .dtypes = {float16, bfloat16, float32, float64, int32},
                  .variants = product_variants,
                  .bitwise = false});
}

}  // namespace table
