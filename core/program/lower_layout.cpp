// Lowering of layout operations and of the creation of arrays: outputs are views, or each element
// is copied or computed.
#include <stave/core/program/lower.h>

namespace stave_detail {

namespace {

Arrays full(const LoweringContext& c) {
  const int value = c.l.number(c.as<FullAttributes>().value, c.dtype());
  return {Lowering::broadcast(c.l.of_values({}, c.dtype(), {value}), c.shape())};
}

Arrays iota(const LoweringContext& c) {
  const auto& a = c.as<IotaAttributes>();
  const Dtype computed = is_float(a.dtype) ? float64 : int64;
  const int start = c.l.number(a.start, computed), step = c.l.number(a.step, computed);
  return {c.l.compute(c.shape(), c.dtype(), [&](Positions at) {
    const int i = c.l.convert(c.l.value_of(at[0]), computed);
    return c.l.convert(c.l.add(ScalarOp::add, start, c.l.add(ScalarOp::multiply, i, step)), a.dtype);
  })};
}

// Writes the elements of x to `out`, beginning at `starts`, `steps` apart along each axis.
void insert(Lowering& l, const Array& x, const Array& out, const Shape& starts, const Shape& steps) {
  Strides strides = all_equal(x.shape.size(), 0);
  Index offset = 0;
  for (std::size_t axis = 0; axis < x.shape.size(); ++axis) {
    strides[axis] = out.strides[axis] * steps[axis];
    offset += out.strides[axis] * starts[axis];
  }
  l.copy(x, Lowering::view(out, x.shape, std::move(strides), offset));
}

// The same for the elements of a small array of this shape, which are values.
void insert(Lowering& l, const Array& x, const Shape& shape, Elements& values, const Shape& starts,
            const Shape& steps) {
  const Strides strides = contiguous_strides(shape);
  l.for_each(
      x.shape,
      [&](Positions at) {
        Index place = 0;
        for (std::size_t axis = 0; axis < shape.size(); ++axis)
          place += strides[axis] * (starts[axis] + steps[axis] * at[axis].number);
        values[static_cast<std::size_t>(place)] = l.element(x, at);
      },
      true);
}

Arrays pad(const LoweringContext& c) {
  const auto& a = c.as<PadAttributes>();
  const Array x = c.in(0);
  const int value = c.l.number(a.value, c.dtype());
  if (Lowering::is_unrolled(c.shape())) {
    Elements values(static_cast<std::size_t>(c.shape().elements()), value);
    insert(c.l, x, c.shape(), values, a.starts, a.steps);
    return {c.l.of_values(c.shape(), c.dtype(), std::move(values))};
  }
  const Array filled = Lowering::broadcast(c.l.of_values({}, c.dtype(), {value}), c.shape());
  const Array out = c.l.allocate(c.shape(), c.dtype());
  c.l.copy(filled, out);
  insert(c.l, x, out, a.starts, a.steps);
  return {out};
}

Arrays concat(const LoweringContext& c) {
  const auto axis = static_cast<std::size_t>(c.as<AxisAttributes>().axis);
  const bool is_small = Lowering::is_unrolled(c.shape());
  Elements values(is_small ? static_cast<std::size_t>(c.shape().elements()) : 0);
  const Array out = is_small ? Array() : c.l.allocate(c.shape(), c.dtype());
  Shape starts = all_equal(c.shape().size(), 0);
  const Shape steps = all_equal(c.shape().size(), 1);
  for (const Array& part : c.inputs) {
    if (is_small) insert(c.l, part, c.shape(), values, starts, steps);
    else insert(c.l, part, out, starts, steps);
    starts[axis] += part.shape[axis];
  }
  return {is_small ? c.l.of_values(c.shape(), c.dtype(), std::move(values)) : out};
}

Arrays slice(const LoweringContext& c) {
  const auto& a = c.as<SliceAttributes>();
  const Array& x = c.in(0);
  Strides strides = all_equal(x.shape.size(), 0);
  Index offset = 0;
  for (std::size_t axis = 0; axis < x.shape.size(); ++axis) {
    strides[axis] = x.strides[axis] * a.steps[axis];
    offset += x.strides[axis] * a.starts[axis];
  }
  return {Lowering::view(x, c.shape(), std::move(strides), offset)};
}

Arrays reshape(const LoweringContext& c) { return {c.l.reshaped(c.in(0), c.shape())}; }

}  // namespace

LoweringRule lowering_of_layout(OpId id) {
  switch (id) {
    case OpId::full: return full;
    case OpId::iota: return iota;
    case OpId::pad: return pad;
    case OpId::concat: return concat;
    case OpId::slice: return slice;
    case OpId::reshape: return reshape;
    default: return nullptr;
  }
}

}  // namespace stave_detail
