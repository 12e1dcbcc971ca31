// Scans, sorting and searching as StableHLO.
#include <stave/core/program/stablehlo_rules.h>
#include <stave/core/tensor/fail.h>

namespace stave_detail {

namespace {

// ---- scans --------------------------------------------------------------------------------------

// x moved by a number of places along an axis, with `value` in front.
HloValue moved(HloBuilder& b, const HloValue& x, std::size_t axis, Index places, const HloValue& value) {
  Shape low, high, interior;
  for (std::size_t k = 0; k < x.shape.size(); ++k) {
    low.push_back(k == axis ? places : 0);
    high.push_back(k == axis ? -places : 0);
    interior.push_back(0);
  }
  return b.pad(x, value, low, high, interior);
}

// By doubling: after step i each element combines the 2^i elements up to it. The number of steps is
// the logarithm of the length, and each takes all elements at once.
HloValues scan(const HloContext& c) {
  HloBuilder& b = c.b;
  const auto& a = c.as<ScanAttributes>();
  const auto axis = static_cast<std::size_t>(a.axis);
  const bool keeps_dtype = c.id() == OpId::cummax || c.id() == OpId::cummin;
  const Dtype computed = keeps_dtype ? c.dtype() : b.accumulator(c.dtype());
  const Shape reversed = a.reverse ? Shape{static_cast<Index>(axis)} : Shape{};
  const auto given = [&](std::size_t i) { return b.reverse(b.convert(c.in(i), computed), reversed); };
  HloValue x = given(c.inputs.size() - 1), factor;
  if (c.id() == OpId::linear_recurrence) factor = given(0);
  for (Index places = 1; places < x.shape[axis]; places *= 2) switch (c.id()) {
      case OpId::cumulative_sum: x = b.add(x, moved(b, x, axis, places, b.number(0, computed))); break;
      case OpId::cumulative_prod: x = b.multiply(x, moved(b, x, axis, places, b.number(1, computed))); break;
      case OpId::cummax: x = b.binary("maximum", x, moved(b, x, axis, places, b.extreme(computed, false))); break;
      case OpId::cummin: x = b.binary("minimum", x, moved(b, x, axis, places, b.extreme(computed, true))); break;
      default:  // a2 (a1 s + b1) + b2 = (a1 a2) s + (a2 b1 + b2)
        x = b.add(b.scale(factor, moved(b, x, axis, places, b.number(0, computed))), x);
        factor = b.scale(factor, moved(b, factor, axis, places, b.number(1, computed)));
    }
  return {b.convert(b.reverse(x, reversed), c.dtype())};
}

// ---- sorting ------------------------------------------------------------------------------------

HloValues sorted(HloBuilder& b, HloSpan operands, std::size_t axis, bool descending) {
  std::vector<HloType> scalars, results;
  for (const HloValue& x : operands) {
    scalars.insert(scalars.end(), 2, {x.dtype, {}});
    results.push_back(x.type());
  }
  const auto body = [&](HloSpan pairs) {
    return HloValues{descending ? hlo_is_before(b, pairs[1], pairs[0]) : hlo_is_before(b, pairs[0], pairs[1])};
  };
  return b.emit_with("sort", operands, {{scalars, body}}, fmt::format("dimension = {} : i64, is_stable = true", axis),
                     results);
}

HloValues sort(const HloContext& c) {
  const auto& a = c.as<SortAttributes>();
  return sorted(c.b, {&c.in(), 1}, static_cast<std::size_t>(a.axis), a.descending);
}

HloValue argsorted(const HloContext& c, std::size_t axis, bool descending) {
  const HloValue operands[] = {c.in(), c.b.iota(c.dtype(), c.in().shape, axis)};
  return sorted(c.b, operands, axis, descending)[1];
}
HloValues argsort(const HloContext& c) {
  const auto& a = c.as<SortAttributes>();
  return {argsorted(c, static_cast<std::size_t>(a.axis), a.descending)};
}
HloValues argtopk(const HloContext& c) {
  const auto& a = c.as<TopkAttributes>();
  const auto axis = static_cast<std::size_t>(a.axis);
  return {c.b.slice(argsorted(c, axis, true), axis, 0, a.k)};
}

// A binary search for all values at once: the count of entries that come before a value grows by
// falling powers of two.
HloValues searchsorted(const HloContext& c) {
  HloBuilder& b = c.b;
  const auto& a = c.as<SearchAttributes>();
  const auto batch = static_cast<std::size_t>(a.batch_dims);
  const HloValue &entries = c.in(0), &values = c.in(1);
  const Index n = entries.shape.back();
  HloValue count = b.number(0, c.dtype(), c.shape());
  Index step = 1;
  while (step * 2 <= n) step *= 2;
  Shape index_shape = c.shape();
  index_shape.push_back(1);
  for (; n > 0 && step > 0; step /= 2) {
    const HloValue next = b.add(count, b.full_like(count, step));
    const HloValue at = b.binary("minimum", b.subtract(next, b.full_like(next, 1)), b.full_like(next, n - 1));
    const HloValue entry = hlo_gather(b, entries, b.reshape(at, index_shape), batch);
    const HloValue before = a.right ? b.invert(hlo_is_before(b, values, entry)) : hlo_is_before(b, entry, values);
    count = b.select(b.both(before, b.compare("LE", next, b.full_like(next, n))), next, count);
  }
  return {count};
}

}  // namespace

HloValue hlo_is_before(HloBuilder& b, const HloValue& a, const HloValue& c) {
  const HloValue less = b.compare("LT", a, c);
  if (!is_float(a.dtype)) return less;
  return b.either(less, b.both(b.is_nan(c), b.invert(b.is_nan(a))));
}

HloRule hlo_rule_of_scan(OpId id) {
  switch (id) {
    case OpId::cumulative_sum:
    case OpId::cumulative_prod:
    case OpId::cummax:
    case OpId::cummin:
    case OpId::linear_recurrence: return scan;
    case OpId::sort: return sort;
    case OpId::argsort: return argsort;
    case OpId::argtopk: return argtopk;
    case OpId::searchsorted: return searchsorted;
    default: return nullptr;
  }
}

}  // namespace stave_detail
