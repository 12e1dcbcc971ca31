// Lowering of scans, and of sorting by ranks: the place of an element is the number of elements
// that stand before it.
#include <utility>

#include <stave/core/program/lower_rows.h>

namespace stave_detail {

namespace {

// ---- scans --------------------------------------------------------------------------------------

// The steps of a scan. step(state, a, b) changes the state and returns the next element of the
// output; a and b are the elements of the first and the last input.
struct ScanStep {
  Lowering& l;
  OpId id;
  Dtype dtype;

  Dtype computed() const { return id == OpId::cummax || id == OpId::cummin ? dtype : accumulator(dtype); }
  std::vector<int> start() const {
    switch (id) {
      case OpId::cumulative_sum: return LoweredSum{l, dtype}.start();
      case OpId::cumulative_prod: return {l.number(1, computed())};
      case OpId::linear_recurrence: return {l.number(0, computed())};
      default: return {extreme_number(l, dtype, id == OpId::cummin)};
    }
  }
  int step(std::span<int> state, int a, int b) const {
    if (id == OpId::cumulative_sum) {
      const LoweredSum sum{l, dtype};
      sum.step(state, a);
      return sum.finish(state);
    }
    const int x = l.convert(a, computed());
    switch (id) {
      case OpId::cumulative_prod: state[0] = l.add(ScalarOp::multiply, state[0], x); break;
      case OpId::linear_recurrence:
        state[0] = l.add(ScalarOp::add, scaled(l, x, state[0]), l.convert(b, computed()));
        break;
      default: state[0] = choose(l, id == OpId::cummax, state[0], x);
    }
    return l.convert(state[0], dtype);
  }
};

Arrays scan(const LoweringContext& c) {
  Lowering& l = c.l;
  const auto& a = c.as<ScanAttributes>();
  const auto axis = static_cast<std::size_t>(a.axis);
  const Array &x = c.in(0), &y = c.inputs.back();
  const Index length = x.shape[axis];
  const Array out = l.allocate(c.shape(), c.dtype());
  const ScanStep step{l, c.instruction.op->id, c.dtype()};
  const bool unrolled = Lowering::is_unrolled(c.shape());
  l.for_each(
      keepdims_shape(c.shape(), axis),
      [&](Positions at) {
        std::vector<int> state = step.start();
        const auto run = [&](Positions along, std::span<int> now) {
          const PositionList place = with(at, axis, a.reverse ? l.shifted(along[0], length - 1, -1) : along[0]);
          l.store(out, place, step.step(now, l.element(x, place), l.element(y, place)));
        };
        l.fold({length}, state, run, unrolled ? 1 : length + 1);
      },
      unrolled);
  return {l.preloaded(out)};
}

// ---- sorting ------------------------------------------------------------------------------------

// The order of sorting, in which NaN is the largest number.
struct Order {
  Lowering& l;
  bool descending;

  int is_nan(int x) const { return l.add(ScalarOp::not_equal, x, x); }
  int before(int a, int b) const {
    if (descending) std::swap(a, b);
    const int less = l.add(ScalarOp::less, a, b);
    if (!is_float(l.builder().dtype(a))) return less;
    return l.add(ScalarOp::bit_or, less, l.add(ScalarOp::bit_and, is_nan(b), l.add(ScalarOp::equal, a, a)));
  }
  int equal(int a, int b) const {
    const int equal = l.add(ScalarOp::equal, a, b);
    if (!is_float(l.builder().dtype(a))) return equal;
    return l.add(ScalarOp::bit_or, equal, l.add(ScalarOp::bit_and, is_nan(a), is_nan(b)));
  }
};

// For each element, how many elements of its row along the axis come before it in a stable sort.
Array ranks(Lowering& l, const Array& x, std::size_t axis, bool descending) {
  const Order order{l, descending};
  const Index length = x.shape[axis];
  return l.compute(
      x.shape, int64,
      [&](Positions at) {
        const int value = l.element(x, at);
        int count = l.index(0);
        l.fold({length}, std::span(&count, 1), [&](Positions other, std::span<int> now) {
          const int b = l.element(x, with(at, axis, other[0]));
          const int is_earlier = l.add(ScalarOp::less, l.value_of(other[0]), l.value_of(at[axis]));
          const int before = l.add(ScalarOp::bit_or, order.before(b, value),
                                   l.add(ScalarOp::bit_and, order.equal(b, value), is_earlier));
          now[0] = l.add(ScalarOp::add, now[0], l.convert(before, int64));
        });
        return count;
      },
      length);
}

Arrays sort(const LoweringContext& c) {
  Lowering& l = c.l;
  const auto& a = c.as<SortAttributes>();
  const auto axis = static_cast<std::size_t>(a.axis);
  const Array x = c.in(0), rank = ranks(l, x, axis, a.descending);
  const Array out = l.allocate(c.shape(), c.dtype());
  l.for_each(
      x.shape,
      [&](Positions at) {
        const Position to = l.position_of(l.element(rank, at));
        const bool positions = c.instruction.op->id == OpId::argsort;
        l.store(out, with(at, axis, to), positions ? l.convert(l.value_of(at[axis]), c.dtype()) : l.element(x, at));
      },
      Lowering::is_unrolled(x.shape));
  return {l.preloaded(out)};
}

Arrays argtopk(const LoweringContext& c) {
  Lowering& l = c.l;
  const auto& a = c.as<TopkAttributes>();
  const auto axis = static_cast<std::size_t>(a.axis);
  const Array x = c.in(0), rank = ranks(l, x, axis, true);
  const Array order = l.allocate(x.shape, c.dtype());
  l.for_each(
      x.shape,
      [&](Positions at) {
        l.store(order, with(at, axis, l.position_of(l.element(rank, at))), l.convert(l.value_of(at[axis]), c.dtype()));
      },
      Lowering::is_unrolled(x.shape));
  return {Lowering::view(order, c.shape(), order.strides)};
}

Arrays searchsorted(const LoweringContext& c) {
  Lowering& l = c.l;
  const auto& a = c.as<SearchAttributes>();
  const Array &sorted = c.in(0), &values = c.in(1);
  const Order order{l, false};
  return {l.compute(
      c.shape(), c.dtype(),
      [&](Positions at) {
        const int value = l.element(values, at);
        PositionList place(at.begin(), at.begin() + a.batch_dims);
        place.push_back(Position(0));
        int count = l.index(0);
        l.fold({sorted.shape.back()}, std::span(&count, 1), [&](Positions along, std::span<int> now) {
          place.back() = along[0];
          const int entry = l.element(sorted, place);
          int counts = order.before(entry, value);
          if (a.right) counts = l.add(ScalarOp::bit_or, counts, order.equal(entry, value));
          now[0] = l.add(ScalarOp::add, now[0], l.convert(counts, int64));
        });
        return l.convert(count, c.dtype());
      },
      sorted.shape.back())};
}

}  // namespace

LoweringRule lowering_of_scan(OpId id) {
  switch (id) {
    case OpId::cumulative_sum:
    case OpId::cumulative_prod:
    case OpId::cummax:
    case OpId::cummin:
    case OpId::linear_recurrence: return scan;
    case OpId::sort:
    case OpId::argsort: return sort;
    case OpId::argtopk: return argtopk;
    case OpId::searchsorted: return searchsorted;
    default: return nullptr;
  }
}

}  // namespace stave_detail
