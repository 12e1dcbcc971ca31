// Reductions as StableHLO.
#include <limits>

#include <stave/core/program/stablehlo_rules.h>

namespace stave_detail {

HloValue hlo_reduction(HloBuilder& b, OpId id, const HloValue& x, const Shape& axes, const HloType& result) {
  const Dtype wide = b.accumulator(x.dtype);
  const auto reduced = [&] {
    switch (id) {
      case OpId::sum: return b.reduce("add", b.convert(x, wide), b.number(0, wide), axes);
      case OpId::prod: return b.reduce("multiply", b.convert(x, wide), b.number(1, wide), axes);
      case OpId::max: return b.reduce("maximum", x, b.extreme(x.dtype, false), axes);
      case OpId::min: return b.reduce("minimum", x, b.extreme(x.dtype, true), axes);
      case OpId::all: return b.reduce("and", x, b.number(true, bool_), axes);
      default: return b.reduce("or", x, b.number(false, bool_), axes);
    }
  };
  return b.reshape(b.convert(axes.empty() ? x : reduced(), result.dtype), result.shape);
}

HloValues hlo_extreme_of_pairs(HloBuilder& b, HloSpan pairs, bool largest) {
  const HloValue &x = pairs[0], &at = pairs[1], &y = pairs[2], &place = pairs[3];
  const HloValue beats = b.compare(largest ? "GT" : "LT", x, y), first = b.compare("LT", at, place);
  HloValue wins = beats, ties = b.compare("EQ", x, y);
  if (is_float(x.dtype)) {
    const HloValue x_is_nan = b.is_nan(x), y_is_nan = b.is_nan(y);
    wins = b.either(beats, b.both(x_is_nan, b.invert(y_is_nan)));
    ties = b.either(ties, b.both(x_is_nan, y_is_nan));
  }
  wins = b.either(wins, b.both(ties, first));
  return {b.select(wins, x, y), b.select(wins, at, place)};
}

namespace {

HloValues reduce(const HloContext& c) {
  return {hlo_reduction(c.b, c.id(), c.in(), c.as<ReduceAttributes>().axes, c.results[0])};
}

// argmax and argmin: over one axis, or over all axes in row-major order.
HloValues arg_reduce(const HloContext& c) {
  HloBuilder& b = c.b;
  const auto& axes = c.as<ReduceAttributes>().axes;
  const bool largest = c.id() == OpId::argmax;
  const bool is_flat = axes.size() != 1;
  const HloValue x = is_flat ? b.reshape(c.in(), {c.in().shape.elements()}) : c.in();
  const std::size_t axis = is_flat ? 0 : static_cast<std::size_t>(axes[0]);
  const Scalar beyond = c.dtype() == int32 ? Scalar(std::numeric_limits<std::int32_t>::max())
                                           : Scalar(std::numeric_limits<std::int64_t>::max());
  const HloValue operands[] = {x, b.iota(c.dtype(), x.shape, axis)};
  const HloValue initial[] = {b.extreme(x.dtype, !largest), b.number(beyond, c.dtype())};
  const HloValues found = b.reduce(operands, initial, {static_cast<Index>(axis)},
                                   [&](HloSpan pairs) { return hlo_extreme_of_pairs(b, pairs, largest); });
  return {b.reshape(found[1], c.shape())};
}

}  // namespace

HloRule hlo_rule_of_reduction(OpId id) {
  switch (id) {
    case OpId::sum:
    case OpId::prod:
    case OpId::max:
    case OpId::min:
    case OpId::all:
    case OpId::any: return reduce;
    case OpId::argmax:
    case OpId::argmin: return arg_reduce;
    default: return nullptr;
  }
}

}  // namespace stave_detail
