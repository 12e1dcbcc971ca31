// Lowering of operations on complex numbers. A complex array is an array of floats with one more
// axis, that of the parts (Array in lower.h), so operations that move elements have the rules of
// floats, with attributes for that axis where they name the last axes. Sums are those of the parts,
// as in the CPU's kernels (backends/parts_apart.h). Elementwise operations, products and scans
// compute with pairs of values.
#include <utility>

#include <stave/core/op/all_ops.h>
#include <stave/core/program/complex_parts.h>
#include <stave/core/program/fused.h>
#include <stave/core/program/lower_rows.h>
#include <stave/core/program/region.h>
#include <stave/core/tensor/fail.h>

namespace stave_detail {

namespace {

// x without the axis of the parts: an array of the real parts, or of the imaginary ones.
Array part_of(const Array& x, Index part) {
  const std::size_t last = x.shape.size() - 1;
  return Lowering::view(x, axes_of(x.shape, 0, last), axes_of(x.strides, 0, last), part * x.strides[last]);
}

// The complex array with these parts.
Array joined(Lowering& l, const Array& re, const Array& im, Dtype dtype) {
  return l.compute_numbers(re.shape, {&dtype, 1}, [&](Positions at, std::span<LoweredNumber> result) {
    result[0] = {l.element(re, at), l.element(im, at)};
  })[0];
}

Array view(const Array& x, const Program::Instruction& step) {
  const std::size_t last = x.shape.size() - 1;
  Array found = lowered_view(Lowering::view(x, axes_of(x.shape, 0, last), axes_of(x.strides, 0, last)), step);
  if (!found.source) return {};
  found.shape.push_back(2);
  found.strides.push_back(x.strides[last]);
  return found;
}

// The same operation with other attributes, by the rule of floats.
Arrays by_rule(const LoweringContext& c, AttributesPtr attributes) {
  Program::Instruction step = c.instruction;
  step.attributes = std::move(attributes);
  return lowering_rule_of(step.op->id)(LoweringContext{c.l, step, c.inputs, c.results});
}
Arrays by_rule(const LoweringContext& c) { return by_rule(c, c.instruction.attributes); }

Arrays full_of_complex(const LoweringContext& c) {
  const ComplexElement<double> value = c.as<FullAttributes>().value.complex();
  const Array one = c.l.of_values({2}, c.dtype(), {c.l.number(value.re, c.dtype()), c.l.number(value.im, c.dtype())});
  return {Lowering::broadcast(one, c.shape())};
}

Arrays pad(const LoweringContext& c, Dtype dtype) {
  const auto& a = c.as<PadAttributes>();
  const ComplexElement<double> value = a.value.complex();
  const auto extended = [&](Shape shape, Index last) {
    shape.push_back(last);
    return shape;
  };
  if (value.re == value.im)
    return by_rule(
        c, make_intrusive<PadAttributes>(extended(a.shape, 2), extended(a.starts, 0), extended(a.steps, 1), value.re));
  const Program::Variable of_part{a.shape, c.dtype(), cpu, nullptr};
  const Program::Variable* const result = &of_part;
  const auto padded = [&](Index part, double number) {
    Program::Instruction step = c.instruction;
    step.attributes = make_intrusive<PadAttributes>(a.shape, a.starts, a.steps, number);
    Array x = part_of(c.in(0), part);
    return lowering_rule_of(OpId::pad)(LoweringContext{c.l, step, {&x, 1}, {&result, 1}})[0];
  };
  const Array re = padded(0, value.re), im = padded(1, value.im);
  return {joined(c.l, re, im, dtype)};
}

// dynamic_slice and dynamic_update_slice: the axis of the parts is sliced whole, from 0 on.
Arrays at_starts(const LoweringContext& c) {
  const auto& a = c.as<DynamicSliceAttributes>();
  Shape sizes = a.sizes;
  sizes.push_back(2);
  Array& starts = c.inputs.back();
  const Array given = std::move(starts);
  const Index count = given.shape.back();
  Shape shape = given.shape;
  ++shape.back();
  starts = c.l.compute(shape, given.dtype, [&](Positions at) {
    PositionList place(at);
    const int zero = c.l.number(0, given.dtype);
    if (count == 0) return zero;
    if (at.back().value < 0 && at.back().number < count) return c.l.element(given, at);
    if (at.back().value < 0) return zero;
    const int is_given = c.l.add(ScalarOp::less, at.back().value, c.l.index(count));
    place.back() = c.l.position_of(c.l.add(ScalarOp::select, is_given, at.back().value, c.l.index(0)));
    return c.l.add(ScalarOp::select, is_given, c.l.element(given, place), zero);
  });
  return by_rule(c, make_intrusive<DynamicSliceAttributes>(a.batch_dims, std::move(sizes)));
}

// Four products of floats, as the CPU's kernel of small complex matrices computes them.
Arrays matmul(const LoweringContext& c, Dtype dtype) {
  Shape shape = c.shape();
  shape.pop_back();
  const Program::Variable of_part{shape, c.dtype(), cpu, nullptr};
  const Program::Variable* const result = &of_part;
  const auto product = [&](Index left, Index right) {
    Array inputs[] = {part_of(c.in(0), left), part_of(c.in(1), right)};
    return lowering_rule_of(OpId::matmul)(LoweringContext{c.l, c.instruction, inputs, {&result, 1}})[0];
  };
  const Array rr = product(0, 0), ii = product(1, 1), ri = product(0, 1), ir = product(1, 0);
  return c.l.compute_numbers(shape, {&dtype, 1}, [&](Positions at, std::span<LoweredNumber> found) {
    found[0] = {c.l.add(ScalarOp::subtract, c.l.element(rr, at), c.l.element(ii, at)),
                c.l.add(ScalarOp::add, c.l.element(ri, at), c.l.element(ir, at))};
  });
}

// ---- products and recurrences, in float64 -------------------------------------------------------

LoweredNumber in_float64(Lowering& l, LoweredNumber x) { return {l.convert(x.re, float64), l.convert(x.im, float64)}; }
LoweredNumber rounded(Lowering& l, std::span<const int> state, Dtype dtype) {
  return {l.convert(state[0], real_of(dtype)), l.convert(state[1], real_of(dtype))};
}
LoweredNumber combined(Lowering& l, OpId id, LoweredNumber a, LoweredNumber b) {
  const LoweredNumber operands[] = {a, b};
  return lower_elementwise(l, record_of(id), operands, complex128);
}

Arrays prod(const LoweringContext& c, Dtype dtype) {
  Lowering& l = c.l;
  const Array& x = c.in(0);
  const Shape axes = c.as<ReduceAttributes>().axes;
  const bool keepdims = c.as<ReduceAttributes>().keepdims;
  Shape shape = c.shape(), reduced;
  shape.pop_back();
  for (const Index axis : axes) reduced.push_back(x.shape[static_cast<std::size_t>(axis)]);
  return l.compute_numbers(
      shape, {&dtype, 1},
      [&](Positions at, std::span<LoweredNumber> found) {
        int state[] = {l.number(1, float64), l.number(0, float64)};
        l.fold(reduced, state, [&](Positions inside, std::span<int> now) {
          PositionList place;
          std::size_t kept = 0, inner = 0;
          for (std::size_t axis = 0; axis + 1 < x.shape.size(); ++axis) {
            const bool is_reduced = inner < axes.size() && axes[inner] == static_cast<Index>(axis);
            place.push_back(is_reduced ? inside[inner++] : at[keepdims ? axis : kept++]);
          }
          const LoweredNumber next =
              combined(l, OpId::multiply, {now[0], now[1]}, in_float64(l, l.number_at(x, dtype, place)));
          now[0] = next.re;
          now[1] = next.im;
        });
        found[0] = rounded(l, state, dtype);
      },
      8 * std::max<Index>(1, reduced.elements()));
}

// cumulative_prod, h = h a, and linear_recurrence, h = scale(a, h) + b.
Arrays scan(const LoweringContext& c, Dtype dtype) {
  Lowering& l = c.l;
  const auto& a = c.as<ScanAttributes>();
  const auto axis = static_cast<std::size_t>(a.axis);
  const bool adds = c.instruction.op->id == OpId::linear_recurrence;
  const Array &factors = c.in(0), &terms = c.inputs.back();
  const Array out = l.allocate(c.shape(), c.dtype());
  Shape shape = c.shape();
  shape.pop_back();
  const Index length = shape[axis];
  const bool unrolled = Lowering::is_unrolled(shape, 8);
  l.for_each(
      keepdims_shape(shape, axis),
      [&](Positions at) {
        int state[] = {l.number(adds ? 0 : 1, float64), l.number(0, float64)};
        const auto run = [&](Positions along, std::span<int> now) {
          PositionList place = with(at, axis, a.reverse ? l.shifted(along[0], length - 1, -1) : along[0]);
          const LoweredNumber factor = in_float64(l, l.number_at(factors, dtype, place));
          LoweredNumber next = combined(l, adds ? OpId::scale : OpId::multiply, factor, {now[0], now[1]});
          if (adds) next = combined(l, OpId::add, next, in_float64(l, l.number_at(terms, dtype, place)));
          now[0] = next.re;
          now[1] = next.im;
          const LoweredNumber element = rounded(l, now, dtype);
          place.push_back(Position(0));
          l.store(out, place, element.re);
          place.back() = Position(1);
          l.store(out, place, element.im);
        };
        l.fold({length}, state, run, unrolled ? 1 : length + 1);
      },
      unrolled);
  return {l.preloaded(out)};
}

// ---- elementwise operations ---------------------------------------------------------------------

// Divisions and functions take tens of operations.
Index cost_of(OpId id) { return is_complex_arithmetic(id) && id != OpId::divide ? 2 : 16; }

Arrays elementwise(const LoweringContext& c, std::span<const Dtype> dtypes, Dtype dtype) {
  const Op& op = *c.instruction.op;
  Shape shape = c.shape();
  if (is_complex(dtype)) shape.pop_back();
  const bool moves = is_of_parts(op) || op.id == OpId::where || op.id == OpId::astype;
  return c.l.compute_numbers(
      shape, {&dtype, 1},
      [&](Positions at, std::span<LoweredNumber> found) {
        SmallVector<LoweredNumber, 3> operands;
        for (std::size_t i = 0; i < c.inputs.size(); ++i) operands.push_back(c.l.number_at(c.in(i), dtypes[i], at));
        found[0] = lower_elementwise(c.l, op, operands, dtype);
      },
      moves ? 1 : cost_of(op.id));
}

}  // namespace

Arrays lower_complex(const LoweringContext& c, std::span<const Dtype> dtypes, Dtype dtype) {
  const Op& op = *c.instruction.op;
  if (dynamic_cast<const FusedAttributes*>(c.instruction.attributes.get())) return lower_fused(c);
  switch (op.id) {
    case OpId::stop_gradient: return {c.in(0)};
    case OpId::copy: return {c.l.contiguous(c.in(0))};
    case OpId::real: return {part_of(c.in(0), 0)};
    case OpId::imag: return {part_of(c.in(0), 1)};
    case OpId::reshape: return {c.l.reshaped(c.in(0), c.shape())};
    case OpId::full: return full_of_complex(c);
    case OpId::pad: return pad(c, dtype);
    case OpId::concat:
    case OpId::gather:
    case OpId::scatter:
    case OpId::scatter_add:
    case OpId::sum:
    case OpId::cumulative_sum: return by_rule(c);
    case OpId::dynamic_slice:
    case OpId::dynamic_update_slice: return at_starts(c);
    case OpId::matmul: return matmul(c, dtype);
    case OpId::prod: return prod(c, dtype);
    case OpId::cumulative_prod:
    case OpId::linear_recurrence: return scan(c, dtype);
    default: break;
  }
  if (op.may_be_view()) {
    Array found = view(c.in(0), c.instruction);
    if (!found.source) found = view(c.l.contiguous(c.in(0)), c.instruction);
    if (found.source) return {found};
  }
  if (op.elementwise || is_of_parts(op) || op.id == OpId::astype || op.id == OpId::where)
    return elementwise(c, dtypes, dtype);
  fail<DtypeError>(
      "{}: {} on complex numbers is an operation which lowered code does not have: compute on the real and imaginary "
      "parts, or leave the operation out of the program",
      c.l.function(), op.name);
}

}  // namespace stave_detail
