// Determinants, the QR decomposition and the matrix exponential as StableHLO, by the formulas of
// lower_factors.cpp and backends/cpu/expm.cpp.
#include <algorithm>
#include <cmath>
#include <numbers>

#include <stave/core/program/stablehlo_rules.h>

namespace stave_detail {

namespace {

HloValue stack_of_matrices(HloBuilder& b, const HloValue& x) {
  const Shape outer(std::span<const Index>(x.shape.begin(), x.shape.size() - 2));
  return b.reshape(x, {outer.elements(), x.shape[x.shape.size() - 2], x.shape.back()});
}

// ---- determinants -------------------------------------------------------------------------------

// The product of the pivots with the sign of the exchanges, as mantissa and exponent, so that no
// product overflows. Each is [count], in the dtype of sums.
struct Determinant {
  HloValue mantissa, exponent, is_finite;
};
// x = mantissa * 2^exponent, where the larger part of a complex mantissa is at least 1/2.
HloFrexp frexp(HloBuilder& b, const HloValue& x) {
  if (!is_complex(x.dtype)) return hlo_frexp(b, x);
  const HloValue larger = b.binary("maximum", b.abs(b.real(x)), b.abs(b.imag(x)));
  const HloValue exponent = hlo_frexp(b, larger).exponent, down = b.unary("negate", exponent);
  return {b.complex(hlo_ldexp(b, b.real(x), down), hlo_ldexp(b, b.imag(x), down)), exponent};
}
Determinant determinant(HloBuilder& b, const HloValue& x) {
  const Index count = x.shape[0], n = x.shape[1];
  const Dtype wide = b.accumulator(x.dtype);
  const HloLu lu = hlo_lu(b, x);
  const HloValue on_diagonal = b.compare("EQ", b.iota(int64, x.shape, 1), b.iota(int64, x.shape, 2));
  const HloValue pivots = b.convert(b.sum(b.select(on_diagonal, lu.packed, b.full_like(x, 0)), {2}), wide);
  const HloValue stays = b.compare("EQ", lu.exchanges, b.iota(int64, {count, n}, 1));
  const HloFrexp parts = frexp(b, b.select(stays, pivots, b.unary("negate", pivots)));
  const HloValue operands[] = {parts.mantissa, parts.exponent};
  const HloValue initial[] = {b.number(1, wide), b.number(0, real_of(wide))};
  const HloValues product = b.reduce(operands, initial, {1}, [&](HloSpan pairs) {
    const HloFrexp both = frexp(b, b.multiply(pairs[0], pairs[2]));
    return HloValues{both.mantissa, b.add(b.add(pairs[1], pairs[3]), both.exponent)};
  });
  return {product[0], product[1], lu.is_finite};
}

// A determinant of up to three rows is a sum of products. For more rows, and where the sum is
// infinite, NaN, or so small that underflow may have cost digits, it is the product of the pivots.
HloValues det(const HloContext& c) {
  HloBuilder& b = c.b;
  const HloValue x = stack_of_matrices(b, c.in());
  const Index n = x.shape[1];
  const Determinant of = determinant(b, x);
  const auto scaled = [&](const HloValue& part) { return hlo_ldexp(b, part, of.exponent); };
  HloValue product =
      is_complex(x.dtype) ? b.complex(scaled(b.real(of.mantissa)), scaled(b.imag(of.mantissa))) : scaled(of.mantissa);
  product = b.select(of.is_finite, product, b.full_like(product, hlo_nan));
  if (n > 0 && n <= 3 && !is_complex(x.dtype)) {
    const HloValue wide = b.convert(x, product.dtype);
    const auto e = [&](Index row, Index column) {
      return b.reshape(b.slice(b.slice(wide, 1, row, 1), 2, column, 1), product.shape);
    };
    const auto minor = [&](Index p, Index q) {
      return b.subtract(b.multiply(e(n - 2, p), e(n - 1, q)), b.multiply(e(n - 2, q), e(n - 1, p)));
    };
    const HloValue sum = n == 1 ? e(0, 0)
                         : n == 2
                             ? minor(0, 1)
                             : b.add(b.subtract(b.multiply(e(0, 0), minor(1, 2)), b.multiply(e(0, 1), minor(0, 2))),
                                     b.multiply(e(0, 2), minor(0, 1)));
    const double least = product.dtype == float64 ? 0x1p-900 : 0x1p-90;
    const HloValue is_usable = b.both(b.is_finite(sum), b.compare("GT", b.unary("abs", sum), b.full_like(sum, least)));
    product = b.select(is_usable, sum, product);
  }
  return {b.reshape(b.convert(product, c.dtype()), c.shape())};
}

HloValues slogdet(const HloContext& c) {
  HloBuilder& b = c.b;
  const Determinant of = determinant(b, stack_of_matrices(b, c.in()));
  const HloValue &m = of.mantissa, zero = b.full_like(m, 0), size = b.abs(m);
  const HloValue sign = is_complex(m.dtype)
                            ? b.select(b.compare("EQ", m, zero), zero, b.divide(m, b.convert(size, m.dtype)))
                            : b.select(b.compare("GT", m, zero), b.full_like(m, 1),
                                       b.select(b.compare("LT", m, zero), b.full_like(m, -1), zero));
  const HloValue logarithm = b.add(b.unary("log", size), b.multiply(of.exponent, b.full_like(size, std::numbers::ln2)));
  const auto finish = [&](const HloValue& x, const HloValue& is_usable, std::size_t i) {
    return b.reshape(b.convert(b.select(is_usable, x, b.full_like(x, hlo_nan)), c.dtype(i)), c.shape(i));
  };
  return {finish(sign, b.both(of.is_finite, b.compare("EQ", m, m)), 0), finish(logarithm, of.is_finite, 1)};
}

// ---- qr -----------------------------------------------------------------------------------------

// The power of two by which each matrix is multiplied, so that squares neither overflow nor
// underflow.
HloValue safe_scale(HloBuilder& b, const HloValue& x) {
  const bool is_wide = real_of(x.dtype) == float64;
  const double edge = is_wide ? 0x1p400 : 0x1p50, factor = is_wide ? 0x1p700 : 0x1p90;
  const HloValue largest = b.reduce("maximum", b.abs(x), b.number(0, real_of(x.dtype)), {1, 2});
  const auto full_like = [&](double value) { return b.full_like(largest, value); };
  const HloValue is_tiny =
      b.both(b.compare("LE", largest, full_like(1 / edge)), b.compare("GT", largest, full_like(0)));
  return b.select(b.compare("GE", largest, full_like(edge)), full_like(1 / factor),
                  b.select(is_tiny, full_like(factor), full_like(1)));
}

// x - tau v (v^H x) for each matrix of a stack; v is [count, m, 1] and tau [count, 1, 1]. A
// reflection with tau = 0 changes nothing.
HloValue reflected(HloBuilder& b, const HloValue& x, const HloValue& v, const HloValue& tau) {
  const HloValue product = b.matmul(b.conj(v), x, true);
  const HloValue row = b.multiply(product, b.broadcast(tau, product.shape));
  const HloValue change = b.multiply(b.broadcast(v, x.shape), b.broadcast(row, x.shape));
  const HloValue is_zero = b.broadcast(b.compare("EQ", tau, b.full_like(tau, 0)), x.shape);
  return b.select(is_zero, x, b.subtract(x, change));
}

// Step k of Householder's method, as LAPACK's geqrf. With alpha = a_kk, the head is minus the
// length of the column with the sign of Re alpha, and tau = (head - alpha) / head. The reflection
// with the factor conj(tau) makes the column zero below the head. The state: the matrices, the
// vectors of the reflections as columns, and their factors tau [count, 1, steps].
HloValues qr_step(HloBuilder& b, const HloValue& k, HloSpan state) {
  const HloValue& a = state[0];
  const Index count = a.shape[0], m = a.shape[1];
  const HloValue zero_position = b.number(0, int64);
  const HloValue starts[] = {zero_position, zero_position, k}, corner[] = {zero_position, k, k};
  const HloValue column = b.dynamic_slice(a, starts, {count, m, 1}), first = b.dynamic_slice(a, corner, {count, 1, 1});
  const HloValue row = b.iota(int64, column.shape, 1), at = b.broadcast(k, column.shape);
  const HloValue below = b.select(b.compare("GT", row, at), column, b.full_like(column, 0));
  const auto squares_of = [&](const HloValue& x) {
    const HloValue re = b.real(x), square = b.multiply(re, re);
    return is_complex(x.dtype) ? b.add(square, b.multiply(b.imag(x), b.imag(x))) : square;
  };
  const HloValue squares = b.sum_along(squares_of(below), 1), real_zero = b.full_like(squares, 0),
                 zero = b.full_like(first, 0);
  HloValue nothing = b.compare("EQ", squares, real_zero);
  if (is_complex(a.dtype)) nothing = b.both(nothing, b.compare("EQ", b.imag(first), real_zero));
  const HloValue length = b.unary("sqrt", b.add(squares_of(first), squares));
  const HloValue is_below_zero = b.compare("LT", b.real(first), real_zero);
  const HloValue head = b.convert(b.select(is_below_zero, length, b.unary("negate", length)), a.dtype);
  const HloValue tau = b.select(nothing, zero, b.divide(b.subtract(head, first), head));
  const HloValue scale =
      b.select(nothing, b.full_like(first, 1), b.divide(b.full_like(first, 1), b.subtract(first, head)));
  const HloValue v = b.select(b.compare("EQ", row, at), b.full_like(column, 1), b.over("multiply", below, scale));
  // Columns before k are triangular already, and the reflection makes column k so.
  const HloValue axis = b.iota(int64, a.shape, 2), from = b.broadcast(k, a.shape);
  const HloValue heads = b.broadcast(b.select(nothing, first, head), column.shape);
  const HloValue above =
      b.select(b.compare("EQ", row, at), heads, b.select(b.compare("LT", row, at), column, b.full_like(column, 0)));
  HloValue next = b.select(b.compare("GT", axis, from), reflected(b, a, v, b.conj(tau)), a);
  next = b.select(b.compare("EQ", axis, from), b.broadcast(above, a.shape), next);
  const HloValue vectors = b.dynamic_update_slice(state[1], v, starts);
  return {next, vectors, b.dynamic_update_slice(state[2], tau, starts)};
}

HloValues qr(const HloContext& c) {
  HloBuilder& b = c.b;
  const HloValue x = stack_of_matrices(b, c.in());
  const Index count = x.shape[0], m = x.shape[1], n = x.shape[2], steps = std::min(m, n), p = c.shape(0).back();
  const Shape square{count, m, p};
  const HloValue identity = b.astype(b.compare("EQ", b.iota(int64, square, 1), b.iota(int64, square, 2)), x.dtype);
  if (steps == 0) return {b.reshape(identity, c.shape(0)), b.number(0, x.dtype, c.shape(1))};
  const HloValue finite = hlo_all_finite(b, x), factor = safe_scale(b, x);
  const HloValue initial[] = {b.times_real(x, hlo_per_matrix(b, factor, x.shape)),
                              b.number(0, x.dtype, {count, m, steps}), b.number(0, x.dtype, {count, 1, steps})};
  const HloValues found = hlo_loop(b, b.number(steps, int64), initial,
                                   [&](const HloValue& k, HloSpan state) { return qr_step(b, k, state); });
  // q is the product of the reflections, applied to the identity from the last to the first.
  const HloValue backward[] = {identity, found[1], found[2]};
  const HloValues product = hlo_loop(b, b.number(steps, int64), backward, [&](const HloValue& step, HloSpan state) {
    const HloValue k = b.subtract(b.number(steps - 1, int64), step), zero = b.number(0, int64);
    const HloValue starts[] = {zero, zero, k};
    const HloValue v = b.dynamic_slice(state[1], starts, {count, m, 1});
    const HloValue tau = b.dynamic_slice(state[2], starts, {count, 1, 1});
    return HloValues{reflected(b, state[0], v, tau), state[1], state[2]};
  });
  const auto or_nan = [&](const HloValue& y, std::size_t i) {
    return b.reshape(b.select(hlo_per_matrix(b, finite, y.shape), y, b.full_like(y, hlo_nan)), c.shape(i));
  };
  const HloValue r = b.slice(found[0], 1, 0, c.shape(1)[c.shape(1).size() - 2]);
  return {or_nan(product[0], 0), or_nan(b.over("divide", r, b.convert(b.reshape(factor, {count, 1, 1}), r.dtype)), 1)};
}

// ---- expm ---------------------------------------------------------------------------------------

// The Pade approximant of order 13 of x / 2^s, squared s times (Higham, "The scaling and squaring
// method for the matrix exponential revisited", 2005). Its bound for the norm holds in both dtypes.
HloValues expm(const HloContext& c) {
  HloBuilder& b = c.b;
  const HloValue x = stack_of_matrices(b, c.in());
  const Index count = x.shape[0], n = x.shape[1];
  if (n == 0) return {c.in()};
  const HloValue finite = hlo_all_finite(b, x), zeros = b.full_like(x, 0);
  const HloValue given = b.select(hlo_per_matrix(b, finite, x.shape), x, zeros);
  const HloValue columns = b.sum(b.abs(given), {1});
  const Dtype real = real_of(x.dtype);
  const HloValue norm = b.reduce("maximum", columns, b.number(0, real), {1});
  // The exponent of norm / 5.37 is the number of halvings, if it is positive.
  const HloFrexp parts = hlo_frexp(b, b.divide(norm, b.full_like(norm, 5.371920351148152)));
  const HloValue halvings = b.binary("maximum", parts.exponent, b.full_like(norm, 0));
  const HloValue ones = b.reshape(b.full_like(norm, 1), {count, 1, 1});
  const HloValue unit = hlo_ldexp(b, ones, b.reshape(b.unary("negate", halvings), {count, 1, 1}));
  const HloValue a = b.times_real(given, b.broadcast(unit, x.shape));
  double coefficients[14] = {1};
  for (int i = 0; i < 13; ++i)
    coefficients[i + 1] = coefficients[i] * static_cast<double>(13 - i) / (static_cast<double>(26 - i) * (i + 1));
  const HloValue identity = b.astype(b.compare("EQ", b.iota(int64, x.shape, 1), b.iota(int64, x.shape, 2)), x.dtype);
  const HloValue a2 = b.matmul(a, a), a4 = b.matmul(a2, a2), a6 = b.matmul(a4, a2);
  // The sum of coefficients[first + k] a^k for k = 0, 2, ..., 12.
  const auto sum = [&](int first) {
    const auto times = [&](const HloValue& y, int k) { return b.multiply(y, b.full_like(y, coefficients[first + k])); };
    const HloValue high = b.add(b.add(times(a2, 8), times(a4, 10)), times(a6, 12));
    return b.add(b.add(b.add(times(identity, 0), times(a2, 2)), b.add(times(a4, 4), times(a6, 6))), b.matmul(a6, high));
  };
  const HloValue odd = b.matmul(a, sum(1)), even = sum(0);
  const HloLu lu = hlo_lu(b, b.subtract(even, odd));
  const HloValue first = hlo_solve(b, lu.packed, lu.order, b.add(even, odd), false);
  const HloValue most_halvings = b.convert(b.reduce("maximum", halvings, b.number(0, real), {0}), int64);
  const HloValue initial[] = {first, halvings};
  const HloValue found = hlo_loop(b, most_halvings, initial, [&](const HloValue& step, HloSpan state) {
    const HloValue left = b.broadcast(b.convert(step, real), state[1].shape);
    const HloValue goes_on = hlo_per_matrix(b, b.compare("LT", left, state[1]), x.shape);
    return HloValues{b.select(goes_on, b.matmul(state[0], state[0]), state[0]), state[1]};
  })[0];
  return {b.reshape(b.select(hlo_per_matrix(b, finite, x.shape), found, b.full_like(x, hlo_nan)), c.shape())};
}

}  // namespace

HloRule hlo_rule_of_factor(OpId id) {
  switch (id) {
    case OpId::det: return det;
    case OpId::slogdet: return slogdet;
    case OpId::qr: return qr;
    case OpId::expm: return expm;
    default: return nullptr;
  }
}

}  // namespace stave_detail
