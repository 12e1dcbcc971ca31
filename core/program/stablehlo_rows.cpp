// Operations on rows as StableHLO: softmax, layer_norm and their gradients, by the formulas of
// lower_reduce.cpp.
#include <stave/core/program/stablehlo_rules.h>

namespace stave_detail {

namespace {

std::size_t axis_of(const HloContext& c) { return static_cast<std::size_t>(c.as<AxisAttributes>().axis); }
std::size_t last_axis(const HloValue& x) { return x.shape.size() - 1; }

// exp(x - max) / sum(exp(x - max)), in the dtype of sums.
HloValue softmax_of(HloBuilder& b, const HloValue& given, std::size_t axis) {
  const HloValue x = b.convert(given, b.accumulator(given.dtype));
  const HloValue e = b.unary("exponential", b.over("subtract", x, b.max_along(x, axis)));
  return b.over("divide", e, b.sum_along(e, axis));
}

HloValues softmax(const HloContext& c) { return {c.b.convert(softmax_of(c.b, c.in(), axis_of(c)), c.dtype())}; }

// log(the sum of exp(terms)) along the axis, for terms whose maximum is 0: log1p(the sum without
// its largest term, which is 1).
HloValue log_sum_along(HloBuilder& b, const HloValue& terms, std::size_t axis) {
  const HloValue total = b.sum_along(b.unary("exponential", terms), axis);
  return b.unary("log_plus_one", b.subtract(total, b.full_like(total, 1)));
}

// x - max - log(the sum of exp(x - max)).
HloValues log_softmax(const HloContext& c) {
  HloBuilder& b = c.b;
  const std::size_t axis = axis_of(c);
  const HloValue off = b.convert(b.over("subtract", c.in(), b.max_along(c.in(), axis)), b.accumulator(c.dtype()));
  return {b.convert(b.over("subtract", off, log_sum_along(b, off, axis)), c.dtype())};
}

// max + log(the sum of exp(x - max)), where x - max is 0 for elements that equal an infinite max.
HloValues logsumexp(const HloContext& c) {
  HloBuilder& b = c.b;
  const std::size_t axis = axis_of(c);
  const HloValue max = b.max_along(c.in(), axis), off = b.over("subtract", c.in(), max);
  const HloValue wins = b.compare("EQ", c.in(), b.broadcast(max, c.in().shape));
  const HloValue terms = b.convert(b.select(wins, b.full_like(off, 0), off), b.accumulator(c.dtype()));
  const HloValue logarithm = log_sum_along(b, terms, axis);
  return {b.convert(b.add(b.convert(max, logarithm.dtype), logarithm), c.dtype())};
}

// y (e - sum(y e)) along the last axis, where e is ct minus the ct of the element with y > 1/2, if
// there is one.
HloValues softmax_gradient(const HloContext& c) {
  HloBuilder& b = c.b;
  const Dtype wide = b.accumulator(c.dtype());
  const HloValue y = b.convert(c.in(0), wide), ct = b.convert(c.in(1), wide);
  const std::size_t axis = last_axis(y);
  const HloValue of_winner = b.select(b.compare("GT", y, b.full_like(y, 0.5)), ct, b.full_like(ct, 0));
  const HloValue e = b.over("subtract", ct, b.sum_along(of_winner, axis));
  const HloValue relative = b.over("subtract", e, b.sum_along(b.scale(y, e), axis));
  return {b.convert(b.scale(relative, y), c.dtype())};
}

// ct - sum(ct) softmax(x) along the last axis. For an element with softmax(x) > 1/2 the result is
// minus the sum of the results of the others, which loses fewer digits.
HloValues log_softmax_gradient(const HloContext& c) {
  HloBuilder& b = c.b;
  const HloValue p = softmax_of(b, c.in(0), last_axis(c.in(0))), ct = b.convert(c.in(1), p.dtype);
  const std::size_t axis = last_axis(p);
  const HloValue sum = b.broadcast(b.sum_along(ct, axis), p.shape);
  const HloValue wins = b.compare("GT", p, b.full_like(p, 0.5));
  const HloValue others = b.select(wins, b.full_like(p, 0), b.subtract(ct, b.scale(sum, p)));
  const HloValue total = b.broadcast(b.sum_along(others, axis), p.shape);
  return {b.convert(b.select(wins, b.unary("negate", total), others), c.dtype())};
}

// ---- layer_norm: see NormAttributes -------------------------------------------------------------

// The normalized rows h = (x - mean) r, where r = 1 / sqrt(variance + epsilon) for each row, in the
// dtype of sums. An infinite r is replaced by 1.
struct NormalizedRows {
  HloValue h, r;
  NormalizedRows(HloBuilder& b, const HloValue& given, double epsilon) {
    const std::size_t axis = last_axis(given);
    const HloValue x = b.convert(given, b.accumulator(given.dtype));
    const auto mean = [&](const HloValue& terms) {
      const HloValue sum = b.sum_along(terms, axis);
      return b.divide(sum, b.full_like(sum, given.shape[axis]));
    };
    const HloValue off = b.over("subtract", x, mean(x)), variance = mean(b.multiply(off, off));
    const HloValue root = b.unary("sqrt", b.add(variance, b.full_like(variance, epsilon)));
    const HloValue inverse = b.divide(b.full_like(root, 1), root);
    r = b.select(b.compare("EQ", inverse, b.full_like(inverse, hlo_infinity)), b.full_like(inverse, 1), inverse);
    h = b.over("multiply", off, r);
  }
};

HloValues layer_norm(const HloContext& c) {
  HloBuilder& b = c.b;
  const NormalizedRows rows(b, c.in(0), c.as<NormAttributes>().epsilon);
  const auto wide = [&](std::size_t i) { return b.broadcast(b.convert(c.in(i), rows.h.dtype), c.shape()); };
  return {b.convert(b.add(b.multiply(wide(1), rows.h), wide(2)), c.dtype())};
}

HloValues layer_norm_gradient(const HloContext& c) {
  HloBuilder& b = c.b;
  const HloValue& x = c.in(0);
  const std::size_t axis = last_axis(x);
  const NormalizedRows rows(b, x, c.as<NormAttributes>().epsilon);
  const HloValue ct = b.convert(c.in(2), rows.h.dtype);
  const HloValue u = b.scale(b.broadcast(b.convert(c.in(1), ct.dtype), x.shape), ct);
  const auto mean = [&](const HloValue& terms) {
    const HloValue sum = b.sum_along(terms, axis);
    return b.broadcast(b.divide(sum, b.full_like(sum, x.shape[axis])), x.shape);
  };
  const HloValue rest = b.subtract(b.subtract(u, mean(u)), b.multiply(rows.h, mean(b.scale(rows.h, u))));
  const auto over_rows = [&](const HloValue& terms) { return b.convert(b.sum(terms, hlo_range(0, axis)), x.dtype); };
  return {b.convert(b.multiply(b.broadcast(rows.r, x.shape), rest), x.dtype), over_rows(b.scale(ct, rows.h)),
          over_rows(ct)};
}

}  // namespace

HloRule hlo_rule_of_rows(OpId id) {
  switch (id) {
    case OpId::softmax: return softmax;
    case OpId::log_softmax: return log_softmax;
    case OpId::logsumexp: return logsumexp;
    case OpId::softmax_gradient: return softmax_gradient;
    case OpId::log_softmax_gradient: return log_softmax_gradient;
    case OpId::layer_norm: return layer_norm;
    case OpId::layer_norm_gradient: return layer_norm_gradient;
    default: return nullptr;
  }
}

}  // namespace stave_detail
