// Operations at computed positions as StableHLO. What the text does for an index out of range is
// XLA's choice: gather and slices read and write at the nearest position in range, and scatter
// leaves the update out.
#include <stave/core/program/stablehlo_rules.h>
#include <stave/core/tensor/fail.h>

namespace stave_detail {

HloValue hlo_gather(HloBuilder& b, const HloValue& x, const HloValue& indices, std::size_t batch) {
  const std::size_t at = indices.shape.size() - batch - 1, indexed = static_cast<std::size_t>(indices.shape.back());
  Shape shape(std::span<const Index>(indices.shape.begin(), indices.shape.end() - 1)), sizes;
  for (std::size_t k = 0; k < x.shape.size(); ++k) {
    sizes.push_back(k < batch + indexed ? 1 : x.shape[k]);
    if (k >= batch + indexed) shape.push_back(x.shape[k]);
  }
  const std::string outer = hlo_list(hlo_range(0, batch)), inner = hlo_list(hlo_range(batch, indexed));
  const HloValue operands[] = {x, indices};
  return b.emit_with("gather", operands, {},
                     fmt::format("dimension_numbers = #stablehlo.gather<offset_dims = {}, collapsed_slice_dims = {}, "
                                 "operand_batching_dims = {}, start_indices_batching_dims = {}, start_index_map = {}, "
                                 "index_vector_dim = {}>, slice_sizes = {}, indices_are_sorted = false",
                                 hlo_list(hlo_range(batch + at, x.shape.size() - batch - indexed)), inner, outer, outer,
                                 inner, batch + at, hlo_array(sizes)),
                     {{x.dtype, shape}})[0];
}

HloValue hlo_scatter(HloBuilder& b, const HloValue& x, const HloValue& indices, const HloValue& updates,
                     std::size_t batch, FunctionRef<HloValue(const HloValue&, const HloValue&)> combine) {
  const std::size_t at = indices.shape.size() - batch - 1, indexed = static_cast<std::size_t>(indices.shape.back());
  const std::string outer = hlo_list(hlo_range(0, batch)), inner = hlo_list(hlo_range(batch, indexed));
  const HloValue operands[] = {x, indices, updates};
  const auto body = [&](HloSpan pair) { return HloValues{combine(pair[0], pair[1])}; };
  return b.emit_with("scatter", operands, {{{{x.dtype, {}}, {x.dtype, {}}}, body}},
                     fmt::format("scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = {}, "
                                 "inserted_window_dims = {}, input_batching_dims = {}, scatter_indices_batching_dims = "
                                 "{}, scatter_dims_to_operand_dims = {}, index_vector_dim = {}>, indices_are_sorted = "
                                 "false, unique_indices = false",
                                 hlo_list(hlo_range(batch + at, x.shape.size() - batch - indexed)), inner, outer, outer,
                                 inner, batch + at),
                     {x.type()})[0];
}

namespace {

// The entries of `shape` at axes [first, first + count).
Shape part(const Shape& shape, std::size_t first, std::size_t count) {
  return Shape(std::span<const Index>(shape.begin() + static_cast<std::ptrdiff_t>(first), count));
}

// Returns the positions of indices that may count from the end, and adds a check that the positions
// are in [0, lengths - sizes].
HloValue positions(HloBuilder& b, const HloValue& indices, const Shape& lengths, const Shape& sizes, bool from_end) {
  const auto along_last = [&](const Shape& numbers) {
    return b.broadcast(b.constant(std::span<const Index>(numbers.begin(), numbers.size()), indices.dtype),
                       indices.shape);
  };
  HloValue at = indices;
  const HloValue zero = b.full_like(at, 0);
  if (from_end) at = b.select(b.compare("LT", at, zero), b.add(at, along_last(lengths)), at);
  b.check([&] {
    Shape last;
    for (std::size_t k = 0; k < lengths.size(); ++k) last.push_back(lengths[k] - sizes[k]);
    return b.both(b.compare("LE", zero, at), b.compare("LE", at, along_last(last)));
  });
  return at;
}
HloValue checked_indices(const HloContext& c, const HloValue& x, const HloValue& indices) {
  const auto& a = c.as<GatherAttributes>();
  const auto indexed = static_cast<std::size_t>(indices.shape.back());
  Shape ones;
  ones.resize(indexed, 1);
  return positions(c.b, indices, part(x.shape, static_cast<std::size_t>(a.batch_dims), indexed), ones, a.from_end);
}

HloValues gather(const HloContext& c) {
  const HloValue at = checked_indices(c, c.in(0), c.in(1));
  return {hlo_gather(c.b, c.in(0), at, static_cast<std::size_t>(c.as<GatherAttributes>().batch_dims))};
}

// Returns the updates, in which an update that a later one of the same position overwrites is
// replaced by that later one, because XLA may write updates in any order.
HloValue last_updates(HloBuilder& b, const HloValue& x, const HloValue& indices, const HloValue& updates,
                      std::size_t batch) {
  const std::size_t at = indices.shape.size() - batch - 1, indexed = static_cast<std::size_t>(indices.shape.back());
  const Shape outer = part(indices.shape, 0, batch), places = part(indices.shape, batch, at);
  const Index count = places.elements();
  if (count <= 1) return updates;
  Shape flat = outer, targets = part(x.shape, 0, batch + indexed), flat_updates = outer, flat_indices = outer;
  flat.push_back(count);
  flat_updates.push_back(count);
  flat_indices.push_back(count);
  flat_indices.push_back(indices.shape.back());
  flat_updates.append(updates.shape.begin() + static_cast<std::ptrdiff_t>(batch + at), updates.shape.end());
  const Dtype dtype = count > 0x7FFFFFFF ? int64 : int32;
  const HloValue to = b.reshape(indices, flat_indices);
  const HloValue winners = hlo_scatter(b, b.number(0, dtype, targets), to, b.iota(dtype, flat, batch), batch,
                                       [&](const HloValue& u, const HloValue& v) { return b.binary("maximum", u, v); });
  Shape with_index = flat;
  with_index.push_back(1);
  const HloValue winner = b.reshape(hlo_gather(b, winners, to, batch), with_index);
  return b.reshape(hlo_gather(b, b.reshape(updates, flat_updates), winner, batch), updates.shape);
}

HloValues scatter(const HloContext& c) {
  HloBuilder& b = c.b;
  const auto batch = static_cast<std::size_t>(c.as<GatherAttributes>().batch_dims);
  if (c.in(2).shape.elements() == 0 || c.in(0).shape.elements() == 0) return {c.in(0)};
  const HloValue at = checked_indices(c, c.in(0), c.in(1));
  if (c.id() == OpId::scatter)
    return {hlo_scatter(b, c.in(0), at, last_updates(b, c.in(0), at, c.in(2), batch), batch,
                        [](const HloValue&, const HloValue& update) { return update; })};
  const bool widens = is_half_float(c.dtype()) && c.id() != OpId::scatter_min && c.id() != OpId::scatter_max;
  const Dtype wide = widens ? float32 : c.dtype();
  const auto combine = [&](const HloValue& u, const HloValue& v) {
    switch (c.id()) {
      case OpId::scatter_add: return u.dtype == bool_ ? b.either(u, v) : b.add(u, v);
      case OpId::scatter_multiply: return u.dtype == bool_ ? b.both(u, v) : b.multiply(u, v);
      case OpId::scatter_min: return b.binary("minimum", u, v);
      default: return b.binary("maximum", u, v);
    }
  };
  return {b.convert(hlo_scatter(b, b.convert(c.in(0), wide), at, b.convert(c.in(2), wide), batch, combine), c.dtype())};
}

// The start of each axis of a slice, as scalars; zeros for the other axes. The operation must have
// no batch.
HloValues scalars(HloBuilder& b, const HloValue& starts) {
  HloValues found;
  for (Index k = 0; k < starts.shape[0]; ++k) found.push_back(b.reshape(b.slice(starts, 0, k, 1), {}));
  return found;
}
HloValue slice_starts(const HloContext& c, const HloValue& starts) {
  const auto& a = c.as<DynamicSliceAttributes>();
  const Shape& shape = c.in(0).shape;
  return positions(c.b, starts, part(shape, shape.size() - a.sizes.size(), a.sizes.size()), a.sizes, true);
}
// The axes of windows, those behind the axes of the batch.
Shape window_axes(const Shape& shape, std::size_t batch) { return hlo_range(batch, shape.size() - batch); }

HloValues dynamic_slice(const HloContext& c) {
  HloBuilder& b = c.b;
  const auto& a = c.as<DynamicSliceAttributes>();
  const auto batch = static_cast<std::size_t>(a.batch_dims);
  const HloValue& x = c.in(0);
  const HloValue starts = slice_starts(c, c.in(1));
  if (batch == 0) return {b.dynamic_slice(x, scalars(b, starts), a.sizes)};
  const std::string outer = hlo_list(hlo_range(0, batch)), inner = hlo_list(window_axes(x.shape, batch));
  Shape sizes;
  sizes.resize(batch, 1);
  sizes.append(a.sizes.begin(), a.sizes.end());
  const HloValue operands[] = {x, starts};
  return b.emit_with("gather", operands, {},
                     fmt::format("dimension_numbers = #stablehlo.gather<offset_dims = {}, collapsed_slice_dims = [], "
                                 "operand_batching_dims = {}, start_indices_batching_dims = {}, start_index_map = {}, "
                                 "index_vector_dim = {}>, slice_sizes = {}, indices_are_sorted = false",
                                 inner, outer, outer, inner, batch, hlo_array(sizes)),
                     {c.results[0]});
}

HloValues dynamic_update_slice(const HloContext& c) {
  HloBuilder& b = c.b;
  const auto& a = c.as<DynamicSliceAttributes>();
  const auto batch = static_cast<std::size_t>(a.batch_dims);
  const HloValue &x = c.in(0), &update = c.in(1);
  if (update.shape.elements() == 0) return {x};
  const HloValue starts = slice_starts(c, c.in(2));
  if (batch == 0) return {b.dynamic_update_slice(x, update, scalars(b, starts))};
  const std::string outer = hlo_list(hlo_range(0, batch)), inner = hlo_list(window_axes(x.shape, batch));
  const HloValue operands[] = {x, starts, update};
  const auto body = [&](HloSpan pair) { return HloValues{pair[1]}; };
  return b.emit_with("scatter", operands, {{{{x.dtype, {}}, {x.dtype, {}}}, body}},
                     fmt::format("scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = {}, "
                                 "input_batching_dims = {}, scatter_indices_batching_dims = {}, "
                                 "scatter_dims_to_operand_dims = {}, index_vector_dim = {}>, indices_are_sorted = "
                                 "false, unique_indices = true",
                                 inner, outer, outer, inner, batch),
                     {x.type()});
}

}  // namespace

HloRule hlo_rule_of_index(OpId id) {
  switch (id) {
    case OpId::gather: return gather;
    case OpId::scatter:
    case OpId::scatter_add:
    case OpId::scatter_multiply:
    case OpId::scatter_min:
    case OpId::scatter_max: return scatter;
    case OpId::dynamic_slice: return dynamic_slice;
    case OpId::dynamic_update_slice: return dynamic_update_slice;
    default: return nullptr;
  }
}

}  // namespace stave_detail
