// Creation and layout as StableHLO.
#include <stave/core/program/stablehlo_rules.h>

namespace stave_detail {

namespace {

HloValues same(const HloContext& c) { return {c.in()}; }
HloValues full(const HloContext& c) { return {c.b.number(c.as<FullAttributes>().value, c.dtype(), c.shape())}; }

// start + i * step, in float64 or int64.
HloValues iota(const HloContext& c) {
  HloBuilder& b = c.b;
  const auto& a = c.as<IotaAttributes>();
  const Dtype computed = is_float(a.dtype) ? b.accumulator(a.dtype) : int64;
  const HloValue i = b.iota(computed, c.shape(), 0);
  const HloValue scaled = a.step == Scalar(1) || a.step == Scalar(1.) ? i : b.multiply(i, b.full_like(i, a.step));
  const bool from_0 = a.start == Scalar(0) || a.start == Scalar(0.);
  return {b.convert(from_0 ? scaled : b.add(scaled, b.full_like(i, a.start)), a.dtype)};
}

HloValues reshape(const HloContext& c) { return {c.b.reshape(c.in(), c.shape())}; }
HloValues permute_dims(const HloContext& c) { return {c.b.transpose(c.in(), c.as<PermuteAttributes>().axes)}; }
HloValues broadcast_to(const HloContext& c) { return {c.b.broadcast(c.in(), c.shape())}; }

// A slice with steps below 0 is the reverse of the slice from its other end.
HloValues slice(const HloContext& c) {
  const auto& a = c.as<SliceAttributes>();
  Shape starts, limits, steps, reversed;
  for (std::size_t k = 0; k < a.starts.size(); ++k) {
    const Index step = std::abs(a.steps[k]), last = a.starts[k] + (a.lengths[k] - 1) * a.steps[k];
    starts.push_back(a.steps[k] < 0 ? last : a.starts[k]);
    limits.push_back(starts.back() + (a.lengths[k] - 1) * step + 1);
    steps.push_back(step);
    if (a.steps[k] < 0 && a.lengths[k] > 1) reversed.push_back(static_cast<Index>(k));
  }
  return {c.b.reverse(c.b.slice(c.in(), starts, limits, steps), reversed)};
}

HloValues pad(const HloContext& c) {
  const auto& a = c.as<PadAttributes>();
  const HloValue& x = c.in();
  if (x.shape.elements() == 0) return {c.b.number(a.value, c.dtype(), c.shape())};
  Shape low, high, interior, reversed;
  for (std::size_t k = 0; k < a.starts.size(); ++k) {
    const Index span = (x.shape[k] - 1) * a.steps[k], first = a.starts[k] + std::min<Index>(span, 0);
    low.push_back(first);
    high.push_back(a.shape[k] - first - std::abs(span) - 1);
    interior.push_back(x.shape[k] > 1 ? std::abs(a.steps[k]) - 1 : 0);
    if (a.steps[k] < 0 && x.shape[k] > 1) reversed.push_back(static_cast<Index>(k));
  }
  return {c.b.pad(c.b.reverse(x, reversed), c.b.number(a.value, c.dtype()), low, high, interior)};
}

HloValues concat(const HloContext& c) {
  const auto axis = static_cast<std::size_t>(c.as<AxisAttributes>().axis);
  HloValues parts;
  for (const HloValue& part : c.inputs)
    if (part.shape[axis] > 0) parts.push_back(part);
  return {c.b.concatenate(parts, axis)};
}

}  // namespace

HloRule hlo_rule_of_layout(OpId id) {
  switch (id) {
    case OpId::stop_gradient:
    case OpId::copy:
    case OpId::to: return same;
    case OpId::full: return full;
    case OpId::iota: return iota;
    case OpId::reshape: return reshape;
    case OpId::permute_dims: return permute_dims;
    case OpId::broadcast_to: return broadcast_to;
    case OpId::slice: return slice;
    case OpId::pad: return pad;
    case OpId::concat: return concat;
    default: return nullptr;
  }
}

}  // namespace stave_detail
