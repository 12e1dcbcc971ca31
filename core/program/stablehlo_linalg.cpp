// Linear algebra as StableHLO: systems of equations. Stacks of matrices are [count, m, n] inside.
#include <algorithm>

#include <stave/core/program/stablehlo_rules.h>
#include <stave/core/tensor/fail.h>

namespace stave_detail {

HloValues hlo_loop(HloBuilder& b, const HloValue& steps, HloSpan values,
                   FunctionRef<HloValues(const HloValue&, HloSpan)> body) {
  HloValues operands{b.number(0, int64), steps};
  operands.insert(operands.end(), values.begin(), values.end());
  std::vector<HloType> types;
  for (const HloValue& x : operands) types.push_back(x.type());
  const auto goes_on = [&](HloSpan at) { return HloValues{b.compare("LT", at[0], at[1])}; };
  const auto step = [&](HloSpan at) {
    HloValues next = body(at[0], at.subspan(2));
    next.insert(next.begin(), {b.add(at[0], b.number(1, int64)), at[1]});
    return next;
  };
  HloValues found = b.emit_with("while", operands, {{types, goes_on}, {types, step}}, "", types);
  found.erase(found.begin(), found.begin() + 2);
  return found;
}

HloValue hlo_triangular_solve(HloBuilder& b, const HloValue& a, const HloValue& x, bool lower, bool transpose,
                              bool unit) {
  const HloValue operands[] = {a, x};
  return b.emit_with(
      "triangular_solve", operands, {},
      fmt::format("left_side = true, lower = {}, transpose_a = #stablehlo<transpose {}>, unit_diagonal = {}", lower,
                  transpose ? "TRANSPOSE" : "NO_TRANSPOSE", unit),
      {x.type()})[0];
}

namespace {

Shape stack_shape(const Shape& shape, std::size_t kept) {
  return Shape(std::span<const Index>(shape.begin(), shape.size() - kept));
}
// Returns x with all its axes but the last `kept` merged into one.
HloValue flat(HloBuilder& b, const HloValue& x, std::size_t kept) {
  Shape shape{stack_shape(x.shape, kept).elements()};
  shape.append(x.shape.end() - static_cast<std::ptrdiff_t>(kept), x.shape.end());
  return b.reshape(x, shape);
}
HloValue is_position(HloBuilder& b, const Shape& shape, std::size_t axis, const char* direction, const HloValue& at) {
  return b.compare(direction, b.iota(int64, shape, axis), b.broadcast(at, shape));
}

// ---- lu -----------------------------------------------------------------------------------------

// Rows k and `best` of x [count, m, n] exchanged; best is [count].
HloValue exchanged(HloBuilder& b, const HloValue& x, const HloValue& k, const HloValue& best) {
  const Index count = x.shape[0];
  const HloValue zero = b.number(0, int64);
  const HloValue starts[] = {zero, k, zero};
  const HloValue upper = b.dynamic_slice(x, starts, hlo_with(x.shape, 1, 1));
  const HloValue lower = hlo_gather(b, x, b.reshape(best, {count, 1, 1}), 1);
  const HloValue is_best = b.compare("EQ", b.iota(int64, x.shape, 1), hlo_per_matrix(b, best, x.shape));
  const HloValue is_k = is_position(b, x.shape, 1, "EQ", k);
  return b.select(is_k, b.broadcast(lower, x.shape), b.select(is_best, b.broadcast(upper, x.shape), x));
}

// Step k: the row with the largest element of column k from row k on comes to row k, and multiples
// of it are subtracted from the rows below.
HloValues lu_step(HloBuilder& b, const HloValue& k, HloSpan state) {
  const Index count = state[0].shape[0], m = state[0].shape[1], n = state[0].shape[2];
  const HloValue zero = b.number(0, int64);
  const auto column_of = [&](const HloValue& x) {
    const HloValue starts[] = {zero, zero, k};
    return b.dynamic_slice(x, starts, {count, m, 1});
  };
  const HloValue column = b.reshape(column_of(state[0]), {count, m});
  const HloValue from_k = is_position(b, column.shape, 1, "GE", k);
  // LAPACK compares complex numbers by the sum of the sizes of their parts.
  const HloValue magnitude =
      is_complex(column.dtype) ? b.add(b.abs(b.real(column)), b.abs(b.imag(column))) : b.abs(column);
  const HloValue sizes = b.select(from_k, magnitude, b.full_like(magnitude, -1));
  const HloValue operands[] = {sizes, b.iota(int64, column.shape, 1)};
  const HloValue initial[] = {b.extreme(sizes.dtype, false), b.number(m - 1, int64)};
  const HloValue best =
      b.reduce(operands, initial, {1}, [&](HloSpan pairs) { return hlo_extreme_of_pairs(b, pairs, true); })[1];
  const HloValue a = exchanged(b, state[0], k, best), order = exchanged(b, state[2], k, best);
  const HloValue at_k = is_position(b, state[1].shape, 1, "EQ", k);
  const HloValue exchanges = b.select(at_k, hlo_per_matrix(b, best, state[1].shape), state[1]);

  const HloValue row_starts[] = {zero, k, zero}, starts[] = {zero, k, k};
  const HloValue top = b.dynamic_slice(a, row_starts, {count, 1, n});
  const HloValue number = b.broadcast(b.dynamic_slice(a, starts, {count, 1, 1}), {count, m, 1});
  const HloValue is_below = is_position(b, {count, m, 1}, 1, "GT", k);
  const HloValue divides = b.both(is_below, b.compare("NE", number, b.full_like(number, 0)));
  const HloValue old = column_of(a), factors = b.select(divides, b.divide(old, number), old);
  const HloValue product = b.multiply(b.broadcast(factors, a.shape), b.broadcast(top, a.shape));
  const HloValue inside = b.both(b.broadcast(divides, a.shape), is_position(b, a.shape, 2, "GT", k));
  const HloValue updated = b.select(inside, b.subtract(a, product), a);
  return {b.select(is_position(b, a.shape, 2, "EQ", k), b.broadcast(factors, a.shape), updated), exchanges, order};
}

}  // namespace

HloLu hlo_lu(HloBuilder& b, const HloValue& x) {
  const Index count = x.shape[0], m = x.shape[1], n = x.shape[2], steps = std::min(m, n);
  const HloValue rows = b.iota(int64, {count, m, 1}, 1), pivots = b.iota(int64, {count, steps}, 1);
  if (steps == 0) return {x, pivots, b.reshape(rows, {count, m}), b.number(true, bool_, {count})};
  const HloValue initial[] = {x, pivots, rows};
  const HloValues found = hlo_loop(b, b.number(steps, int64), initial,
                                   [&](const HloValue& k, HloSpan state) { return lu_step(b, k, state); });
  const HloValue finite = hlo_all_finite(b, found[0]);
  const auto if_finite = [&](const HloValue& a, const HloValue& other) {
    return b.select(hlo_per_matrix(b, finite, a.shape), a, other);
  };
  return {if_finite(found[0], b.full_like(x, hlo_nan)), if_finite(found[1], pivots),
          b.reshape(if_finite(found[2], rows), {count, m}), finite};
}

HloValue hlo_solve(HloBuilder& b, const HloValue& packed, const HloValue& order, const HloValue& right,
                   bool transpose) {
  const Index count = packed.shape[0], n = packed.shape[1];
  const HloValue rows = b.reshape(b.convert(order, int64), {count, n, 1});
  if (!transpose) {
    const HloValue y = hlo_triangular_solve(b, packed, hlo_gather(b, right, rows, 1), true, false, true);
    return hlo_triangular_solve(b, packed, y, false, false, false);
  }
  const HloValue y = hlo_triangular_solve(b, packed, right, false, true, false);
  const HloValue x = hlo_triangular_solve(b, packed, y, true, true, true);
  return hlo_scatter(b, b.full_like(x, 0), rows, x, 1, [](const HloValue&, const HloValue& update) { return update; });
}

namespace {

// The factor of (a + a^H) / 2; NaN where a matrix is not positive definite or not finite.
HloValues cholesky(const HloContext& c) {
  HloBuilder& b = c.b;
  const HloValue x = flat(b, c.in(), 2), half = b.multiply(x, b.full_like(x, 0.5));
  const HloValue a = b.add(half, b.adjoint(half)), finite = hlo_all_finite(b, a);
  const HloValue factor = b.emit("cholesky", {a}, ", lower = true", a.type());
  const HloValue row = b.iota(int64, a.shape, 1), column = b.iota(int64, a.shape, 2);
  const HloValue on_diagonal = b.compare("EQ", row, column);
  const HloValue lower = b.select(b.compare("GE", row, column), factor, b.full_like(factor, 0));
  const HloValue is_positive = b.compare("GT", b.real(lower), b.number(0, real_of(lower.dtype), lower.shape));
  const HloValue is_good = b.both(b.is_finite(lower), b.either(b.invert(on_diagonal), is_positive));
  const HloValue is_definite = b.both(finite, b.reduce("and", is_good, b.number(true, bool_), {1, 2}));
  if (!c.as<CholeskyAttributes>().nan_if_indefinite) b.check([&] { return b.either(is_definite, b.invert(finite)); });
  return {b.reshape(b.select(hlo_per_matrix(b, is_definite, a.shape), lower, b.full_like(lower, hlo_nan)), c.shape())};
}

// Checks that the diagonals of a stack have no 0.
void check_diagonal(HloBuilder& b, const HloValue& a) {
  b.check([&] {
    const HloValue off = b.compare("NE", b.iota(int64, a.shape, 1), b.iota(int64, a.shape, 2));
    return b.either(off, b.compare("NE", a, b.full_like(a, 0)));
  });
}

HloValues triangular_solve(const HloContext& c) {
  HloBuilder& b = c.b;
  const auto& a = c.as<TriangularAttributes>();
  const HloValue triangle = flat(b, c.in(0), 2), right = flat(b, c.in(1), 2);
  if (!a.unit) check_diagonal(b, triangle);
  return {b.reshape(hlo_triangular_solve(b, triangle, right, a.lower, a.transpose, a.unit), c.shape())};
}

HloValues lu(const HloContext& c) {
  HloBuilder& b = c.b;
  const HloLu found = hlo_lu(b, flat(b, c.in(), 2));
  return {b.reshape(found.packed, c.shape(0)), b.reshape(b.convert(found.exchanges, c.dtype(1)), c.shape(1)),
          b.reshape(b.convert(found.order, c.dtype(2)), c.shape(2))};
}

HloValues solve(const HloContext& c) {
  HloBuilder& b = c.b;
  const HloValue right = flat(b, c.in(1), 2), packed = flat(b, c.in(2), 2), order = flat(b, c.in(3), 1);
  check_diagonal(b, packed);
  return {b.reshape(hlo_solve(b, packed, order, right, c.as<SolveAttributes>().transpose), c.shape())};
}

}  // namespace

HloRule hlo_rule_of_linalg(OpId id) {
  switch (id) {
    case OpId::cholesky: return cholesky;
    case OpId::triangular_solve: return triangular_solve;
    case OpId::lu: return lu;
    case OpId::solve: return solve;
    default: return nullptr;
  }
}

}  // namespace stave_detail
