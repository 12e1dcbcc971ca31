// Matrix products, convolutions, pooling, attention and quantized weights as StableHLO.
#include <algorithm>

#include <stave/core/program/stablehlo_rules.h>
#include <stave/core/tensor/fail.h>

namespace stave_detail {

namespace {

HloValues matmul(const HloContext& c) { return {c.b.matmul(c.in(0), c.in(1))}; }

// "[[0, 1], [2, 3]]" for lows 0, 2 and highs 1, 3.
std::string padding(const Shape& low, const Shape& high) {
  std::string text;
  for (std::size_t k = 0; k < low.size(); ++k) text += fmt::format("{}[{}, {}]", k ? ", " : "", low[k], high[k]);
  return "[" + text + "]";
}

// The axis of groups is merged into that of features; feature_group_count is the number of groups.
HloValues convolution(const HloContext& c) {
  HloBuilder& b = c.b;
  const auto& a = c.as<ConvolutionAttributes>();
  const HloValue &x = c.in(0), &w = c.in(1);
  const std::size_t spatial = a.strides.size();
  const Index groups = x.shape[1];
  const auto with_lengths = [](Shape front, const Shape& lengths) {
    front.append(lengths.begin() + 3, lengths.end());
    return front;
  };
  const Shape& shape = c.shape();
  const HloValue operands[] = {b.reshape(x, with_lengths({x.shape[0], groups * x.shape[2]}, x.shape)),
                               b.reshape(w, with_lengths({groups * w.shape[1], w.shape[2]}, w.shape))};
  std::string axes;
  for (std::size_t k = 0; k < spatial; ++k) axes += ", " + std::to_string(k);
  const std::string lists = fmt::format(
      " dim_numbers = [b, f{0}]x[o, i{0}]->[b, f{0}], window = {{stride = {1}, pad = {2}, lhs_dilate = {3}, rhs_dilate "
      "= "
      "{4}}} {{batch_group_count = 1 : i64, feature_group_count = {5} : i64{6}}}",
      axes, hlo_list(a.strides), padding(a.low, a.high), hlo_list(a.input_dilations), hlo_list(a.dilations), groups,
      is_float(x.dtype) ? ", precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]" : "");
  const Dtype wide = is_half_float(x.dtype) ? float32 : x.dtype;
  const HloType type{wide, with_lengths({shape[0], groups * shape[2]}, shape)};
  return {b.convert(b.reshape(b.emit("convolution", operands, lists, type, "()"), shape), c.dtype())};
}

// max_pool and argmax_pool: padding is never chosen. NaN is the largest element.
HloValues pool(const HloContext& c) {
  HloBuilder& b = c.b;
  const auto& a = c.as<PoolAttributes>();
  const std::size_t spatial = a.windows.size(), others = c.in().shape.size() - spatial;
  const bool positions = c.id() == OpId::argmax_pool;
  const auto all_axes = [&](const Shape& numbers, Index other) {
    Shape found;
    found.resize(others, other);
    found.append(numbers.begin(), numbers.end());
    return found;
  };
  HloValues operands{c.in()}, initial{b.extreme(c.in().dtype, false)};
  if (positions) {
    const Shape places(std::span<const Index>(c.in().shape.begin() + static_cast<std::ptrdiff_t>(others), spatial));
    const HloValue flat = b.iota(c.dtype(), {places.elements()}, 0);
    operands.push_back(b.broadcast(b.reshape(flat, places), c.in().shape));
    initial.push_back(b.extreme(c.dtype(), true));
  }
  // Where padding is negative, x is cut first.
  Shape low, high, cut_low, cut_high, zeros;
  for (std::size_t k = 0; k < spatial; ++k) {
    low.push_back(std::max<Index>(a.low[k], 0));
    high.push_back(std::max<Index>(a.high[k], 0));
    cut_low.push_back(std::min<Index>(a.low[k], 0));
    cut_high.push_back(std::min<Index>(a.high[k], 0));
    zeros.push_back(0);
  }
  if (cut_low != zeros || cut_high != zeros)
    for (std::size_t i = 0; i < operands.size(); ++i)
      operands[i] = b.pad(operands[i], initial[i], all_axes(cut_low, 0), all_axes(cut_high, 0), all_axes(zeros, 0));
  Shape ones;
  ones.resize(spatial, 1);
  const std::string attributes = fmt::format(
      "window_dimensions = {}, window_strides = {}, base_dilations = {}, window_dilations = {}, padding = dense<{}> : "
      "tensor<{}x2xi64>",
      hlo_array(all_axes(a.windows, 1)), hlo_array(all_axes(a.strides, 1)), hlo_array(all_axes(ones, 1)),
      hlo_array(all_axes(a.dilations, 1)), padding(all_axes(low, 0), all_axes(high, 0)), others + spatial);
  std::vector<HloType> arguments, results;
  for (int pass = 0; pass < 2; ++pass)
    for (const HloValue& x : operands) arguments.push_back({x.dtype, {}});
  for (const HloValue& x : operands) results.push_back({x.dtype, c.shape()});
  const auto body = [&](HloSpan at) {
    return positions ? hlo_extreme_of_pairs(b, at, true) : HloValues{b.binary("maximum", at[0], at[1])};
  };
  operands.insert(operands.end(), initial.begin(), initial.end());
  return {b.emit_with("reduce_window", operands, {{arguments, body}}, attributes, results).back()};
}

// ---- attention: see AttentionAttributes ---------------------------------------------------------

struct Scores {
  HloValue values;
  HloValue takes_part = {};  // its id is -1 if all entries do
};
Scores scores(const HloContext& c, const HloValue& q, const HloValue& k, const HloValue* mask) {
  HloBuilder& b = c.b;
  const auto& a = c.as<AttentionAttributes>();
  const HloValue product = b.matmul(q, k, false, true);
  Scores found{b.multiply(product, b.full_like(product, a.scale))};
  const auto keep = [&](const HloValue& condition) {
    found.takes_part = found.takes_part.id < 0 ? condition : b.both(found.takes_part, condition);
  };
  if (mask && mask->dtype == bool_) keep(*mask);
  else if (mask) found.values = b.add(found.values, b.convert(*mask, product.dtype));
  const std::size_t last = product.shape.size() - 1;
  if (a.causal) keep(b.compare("LE", b.iota(int32, product.shape, last), b.iota(int32, product.shape, last - 1)));
  if (found.takes_part.id >= 0)
    found.values = b.select(found.takes_part, found.values, b.full_like(found.values, -hlo_infinity));
  return found;
}

Dtype computed_in_floats(Dtype dtype) { return is_half_float(dtype) ? float32 : dtype; }

HloValues attention(const HloContext& c) {
  HloBuilder& b = c.b;
  const Dtype wide = computed_in_floats(c.in(0).dtype);
  const HloValue q = b.convert(c.in(0), wide), k = b.convert(c.in(1), wide), v = b.convert(c.in(2), wide);
  const HloValue s = scores(c, q, k, c.inputs.size() > 3 ? &c.in(3) : nullptr).values;
  const std::size_t last = s.shape.size() - 1;
  const HloValue largest = b.max_along(s, last),
                 is_empty = b.compare("EQ", largest, b.full_like(largest, -hlo_infinity));
  const HloValue base = b.select(is_empty, b.full_like(largest, 0), largest);
  const HloValue e = b.unary("exponential", b.over("subtract", s, base));
  const HloValue total = b.convert(b.sum_along(b.convert(e, b.accumulator(wide)), last), wide);
  const HloValue divisor = b.select(is_empty, b.full_like(total, 1), total);
  const HloValue out = b.over("divide", b.matmul(e, v), divisor);
  const HloValue logarithm = b.add(base, b.unary("log", divisor));
  return {b.convert(out, c.dtype(0)), b.convert(b.reshape(logarithm, c.shape(1)), c.dtype(1))};
}

HloValues attention_gradient(const HloContext& c) {
  HloBuilder& b = c.b;
  const auto& a = c.as<AttentionAttributes>();
  const Dtype wide = computed_in_floats(c.in(0).dtype);
  HloValues given;
  for (std::size_t i = 0; i < 6; ++i) given.push_back(b.convert(c.in(i), wide));
  const HloValue &q = given[0], &k = given[1], &v = given[2], &ct = given[4];
  const Scores s = scores(c, q, k, c.inputs.size() > 6 ? &c.in(6) : nullptr);
  const auto per_row = [&](const HloValue& x) {
    Shape column = x.shape;
    column.push_back(1);
    return b.broadcast(b.reshape(x, column), s.values.shape);
  };
  HloValue p = b.unary("exponential", b.subtract(s.values, per_row(given[3])));
  if (s.takes_part.id >= 0) p = b.select(s.takes_part, p, b.full_like(p, 0));
  const HloValue t = b.scale(p, b.add(b.matmul(ct, v, false, true), per_row(given[5])));
  const auto scaled = [&](const HloValue& x) { return b.multiply(x, b.full_like(x, a.scale)); };
  const HloValue by_q = scaled(b.matmul(t, k)), by_k = scaled(b.matmul(t, q, true)), by_v = b.matmul(p, ct, true);
  return {b.convert(by_q, c.dtype(0)), b.convert(by_k, c.dtype(1)), b.convert(by_v, c.dtype(2))};
}

// ---- quantized weights: see QuantizedAttributes -------------------------------------------------

// The halves of bytes [..., m] as bytes [..., 2 m], the low half of each first.
HloValue halves(HloBuilder& b, const HloValue& bytes) {
  Shape column = bytes.shape, row = bytes.shape;
  column.push_back(1);
  row.back() *= 2;
  const HloValue low = b.both(bytes, b.full_like(bytes, 15));
  const HloValue high = b.binary("shift_right_logical", bytes, b.full_like(bytes, 4));
  const HloValue pairs[] = {b.reshape(low, column), b.reshape(high, column)};
  return b.reshape(b.concatenate(pairs, column.size() - 1), row);
}

HloValues quantized_matmul(const HloContext& c) {
  HloBuilder& b = c.b;
  const auto& a = c.as<QuantizedAttributes>();
  const Dtype wide = computed_in_floats(c.in(0).dtype);
  const HloValue codes = a.bits == 4 ? halves(b, c.in(1)) : c.in(1);
  Shape column = c.in(2).shape, groups = column;
  column.push_back(1);
  groups.push_back(groups.back() == 0 ? 0 : codes.shape.back() / groups.back());
  const auto of_group = [&](const HloValue& x) { return b.reshape(b.convert(x, wide), column); };
  HloValue w = b.convert(b.reshape(codes, groups), wide);
  if (c.inputs.size() == 3) w = b.subtract(w, b.full_like(w, static_cast<double>(1 << (a.bits - 1))));
  w = b.over("multiply", w, of_group(c.in(2)));
  if (c.inputs.size() > 3) w = b.over("add", w, of_group(c.in(3)));
  const HloValue product = b.matmul(b.convert(c.in(0), wide), b.reshape(w, codes.shape), false, a.transpose);
  return {b.convert(product, c.dtype())};
}

}  // namespace

HloRule hlo_rule_of_product(OpId id) {
  switch (id) {
    case OpId::matmul: return matmul;
    case OpId::convolution: return convolution;
    case OpId::max_pool:
    case OpId::argmax_pool: return pool;
    case OpId::attention: return attention;
    case OpId::attention_gradient: return attention_gradient;
    case OpId::quantized_matmul: return quantized_matmul;
    default: return nullptr;
  }
}

}  // namespace stave_detail
