// Lowering of operations at computed positions. An index out of range fails a check of the lowered
// code, where a kernel would throw.
#include <stave/core/program/lower_rows.h>
#include <stave/core/tensor/fail.h>

namespace stave_detail {

namespace {

// Returns the position of an index along an axis of this length, and checks that it is in
// [0, last]. Negative indices count from the end if `from_end` is set.
Position checked(const LoweringContext& c, int value, Index length, Index last, bool from_end) {
  Lowering& l = c.l;
  int at = l.convert(value, int64);
  if (from_end) {
    const int is_negative = l.add(ScalarOp::less, at, l.index(0));
    at = l.add(ScalarOp::select, is_negative, l.add(ScalarOp::add, at, l.index(length)), at);
  }
  const int in_range = l.add(ScalarOp::bit_and, l.add(ScalarOp::less_equal, l.index(0), at),
                             l.add(ScalarOp::less_equal, at, l.index(last)));
  l.check(in_range,
          fmt::format("{}: an index is out of range for an axis of length {}", c.instruction.op->name, length));
  return l.position_of(at);
}

// The numbers of axes in the groups of gather and scatter: batch..., at..., and the indexed axes of
// x (d1..dk). See GatherAttributes.
struct GatherAxes {
  std::size_t batch, at, indexed;
  GatherAxes(const GatherAttributes& a, const Array& indices)
      : batch(static_cast<std::size_t>(a.batch_dims)), at(indices.shape.size() - batch - 1),
        indexed(static_cast<std::size_t>(indices.shape.back())) {}

  // The position in x of the element that gather reads for position `place` of its output.
  PositionList in_operand(const LoweringContext& c, const Array& x, const Array& indices, Positions place,
                          bool from_end) const {
    PositionList found(place.begin(), place.begin() + static_cast<std::ptrdiff_t>(batch));
    PositionList index(place.begin(), place.begin() + static_cast<std::ptrdiff_t>(batch + at));
    index.push_back(Position(0));
    for (std::size_t k = 0; k < indexed; ++k) {
      index.back() = Position(static_cast<Index>(k));
      const Index length = x.shape[batch + k];
      found.push_back(checked(c, c.l.element(indices, index), length, length - 1, from_end));
    }
    found.append(place.begin() + static_cast<std::ptrdiff_t>(batch + at), place.end());
    return found;
  }
};

Arrays gather(const LoweringContext& c) {
  const auto& a = c.as<GatherAttributes>();
  const Array &x = c.in(0), &indices = c.in(1);
  const GatherAxes axes(a, indices);
  return {c.l.compute(c.shape(), c.dtype(),
                      [&](Positions at) { return c.l.element(x, axes.in_operand(c, x, indices, at, a.from_end)); })};
}

// Returns the element of the array after an update by a scatter operation.
int combined(Lowering& l, OpId id, int present, int update) {
  switch (id) {
    case OpId::scatter_add: return l.add(ScalarOp::add, present, update);
    case OpId::scatter_multiply: return l.add(ScalarOp::multiply, present, update);
    case OpId::scatter_max: return choose(l, true, present, update);
    case OpId::scatter_min: return choose(l, false, present, update);
    default: return update;
  }
}

Arrays scatter(const LoweringContext& c) {
  const auto& a = c.as<GatherAttributes>();
  const Array indices = c.in(1), updates = c.in(2);
  const Array out = c.l.writable(std::move(c.in(0)));
  const GatherAxes axes(a, indices);
  c.l.for_each(
      updates.shape,
      [&](Positions at) {
        const PositionList place = axes.in_operand(c, out, indices, at, a.from_end);
        const int update = c.l.element(updates, at);
        const OpId id = c.instruction.op->id;
        c.l.store(out, place, id == OpId::scatter ? update : combined(c.l, id, c.l.element(out, place), update));
      },
      Lowering::is_unrolled(updates.shape, 1));
  return {c.l.preloaded(out)};
}

// The first position of the slice along each sliced axis. `at` begins with the position along the
// batch axes.
PositionList slice_starts(const LoweringContext& c, const Array& x, const Array& starts, const Shape& sizes,
                          Positions at) {
  const std::size_t batch = x.shape.size() - sizes.size();
  PositionList index(at.begin(), at.begin() + static_cast<std::ptrdiff_t>(batch)), found;
  index.push_back(Position(0));
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    index.back() = Position(static_cast<Index>(k));
    const Index length = x.shape[batch + k];
    found.push_back(checked(c, c.l.element(starts, index), length, length - sizes[k], true));
  }
  return found;
}
// A position in the slice as a position in the whole array.
PositionList moved(const LoweringContext& c, Positions at, Positions starts) {
  PositionList place(at);
  const std::size_t batch = at.size() - starts.size();
  for (std::size_t k = 0; k < starts.size(); ++k) place[batch + k] = c.l.sum(place[batch + k], starts[k]);
  return place;
}

Arrays dynamic_slice(const LoweringContext& c) {
  const auto& a = c.as<DynamicSliceAttributes>();
  const Array &x = c.in(0), &starts = c.in(1);
  return {c.l.compute(c.shape(), c.dtype(), [&](Positions at) {
    return c.l.element(x, moved(c, at, slice_starts(c, x, starts, a.sizes, at)));
  })};
}

Arrays dynamic_update_slice(const LoweringContext& c) {
  const auto& a = c.as<DynamicSliceAttributes>();
  const Array update = c.in(1), starts = c.in(2);
  const Array out = c.l.writable(std::move(c.in(0)));
  c.l.for_each(
      update.shape,
      [&](Positions at) {
        c.l.store(out, moved(c, at, slice_starts(c, out, starts, a.sizes, at)), c.l.element(update, at));
      },
      Lowering::is_unrolled(update.shape, 1));
  return {c.l.preloaded(out)};
}

}  // namespace

LoweringRule lowering_of_index(OpId id) {
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
