// Lowering of elementwise operations: the functions of core/ops/elementwise_ops.h, called with
// values of lowered code (Number), append the code that computes them.
#include <cstring>

#include <stave/core/ops/elementwise_ops.h>
#include <stave/core/program/complex_parts.h>
#include <stave/core/program/fused.h>
#include <stave/core/program/lower.h>
#include <stave/core/tensor/fail.h>

namespace stave_detail {

namespace {

// The Lowering that the functions of elementwise_ops.h write to, and the dtype of the operands of
// the operation that is lowered. It is a thread-local variable, because these functions construct a
// Number from a literal alone.
struct Target {
  Lowering* l = nullptr;
  Dtype dtype = bool_;
};
thread_local Target target;

struct Condition {
  int value;
};
// A value of the dtype of the operands.
struct Number {
  int value = -1;
  Number() = default;
  explicit Number(double literal) : value(target.l->number(Scalar(literal), target.dtype)) {}
  static Number of(int value) {
    Number x;
    x.value = value;
    return x;
  }
};

int write(ScalarOp op, int a, int b = -1, int c = -1) { return target.l->add(op, a, b, c); }

#define X(name, op) \
  Number name(Number a) { return Number::of(write(ScalarOp::op, a.value)); }
X(operator-, negative)
X(operator~, bit_not)
X(abs, abs)
X(sqrt, sqrt)
X(floor, floor)
X(ceil, ceil)
X(rint, rint)
X(trunc, trunc)
X(exp, exp)
X(exp2, exp2)
X(expm1, expm1)
X(log, log)
X(log2, log2)
X(log10, log10)
X(log1p, log1p)
X(sin, sin)
X(cos, cos)
X(tan, tan)
X(asin, asin)
X(acos, acos)
X(atan, atan)
X(sinh, sinh)
X(cosh, cosh)
X(tanh, tanh)
X(asinh, asinh)
X(acosh, acosh)
X(atanh, atanh)
X(erf, erf)
X(erfc, erfc)
X(erfinv, erfinv)
X(lgamma, lgamma)
X(digamma, digamma)
X(erfc_of_root_half, erfc_of_root_half)
#undef X
#define X(name, op) \
  Number name(Number a, Number b) { return Number::of(write(ScalarOp::op, a.value, b.value)); }
X(operator+, add)
X(operator-, subtract)
X(operator*, multiply)
X(operator/, divide)
X(operator&, bit_and)
X(operator|, bit_or)
X(operator^, bit_xor)
X(shifted_left, shift_left)
X(shifted_right, shift_right)
X(copysign, copysign)
X(pow, pow)
X(atan2, atan2)
X(hypot, hypot)
X(nextafter, nextafter)
X(zeta, zeta)
X(floor_divide, floor_divide)
X(remainder, remainder)
#undef X
#define X(name, op, left, right) \
  Condition name(Number a, Number b) { return {write(ScalarOp::op, left.value, right.value)}; }
X(operator==, equal, a, b)
X(operator!=, not_equal, a, b)
X(operator<, less, a, b)
X(operator<=, less_equal, a, b)
X(operator>, less, b, a)
X(operator>=, less_equal, b, a)
#undef X
#define X(name, op) \
  Condition name(Condition a, Condition b) { return {write(ScalarOp::op, a.value, b.value)}; }
X(operator&, bit_and)
X(operator|, bit_or)
X(operator^, bit_xor)
#undef X
Number select(Condition condition, Number a, Number b) {
  return Number::of(write(ScalarOp::select, condition.value, a.value, b.value));
}
Condition signbit(Number x) { return {write(ScalarOp::signbit, x.value)}; }
Condition isfinite(Number x) {
  if (!is_float(target.dtype)) return {target.l->number(true, bool_)};
  return {target.l->is_finite(x.value)};
}
Condition isinf(Number x) {
  if (!is_float(target.dtype)) return {target.l->number(false, bool_)};
  return abs(x) == Number(std::numeric_limits<double>::infinity());
}
Number lost_of_product(Number a, Number b, Number product) {
  return Number::of(write(ScalarOp::fma, a.value, b.value, (-product).value));
}

bool is_double(Number) { return target.dtype == float64; }

int result_of(Number x) { return x.value; }
int result_of(Condition x) { return x.value; }

template <class S>
int unary(Number x) {
  return result_of(S::value(x));
}
template <class S>
int binary(Number x, Number y) {
  return result_of(S::value(x, y));
}

}  // namespace

int lower_elementwise(Lowering& l, const Op& op, std::span<const int> operands, Dtype dtype) {
  switch (op.id) {
    case OpId::astype: return l.convert(operands[0], dtype);
    case OpId::stop_gradient: return operands[0];
    case OpId::where: return l.add(ScalarOp::select, operands[0], operands[1], operands[2]);
    default: break;
  }
  const Target outer = std::exchange(target, {&l, l.builder().dtype(operands[0])});
  const Number x = Number::of(operands[0]), y = Number::of(operands.back());
  const int result = [&] {
    switch (op.id) {
#define X(name, S) \
  case OpId::name: return unary<S>(x);
      STAVE_UNARY_OPS(X)
#undef X
#define X(name, S) \
  case OpId::name: return binary<S>(x, y);
      STAVE_BINARY_OPS(X)
#undef X
      default: return -1;
    }
  }();
  target = outer;
  return result;
}

// ---- complex numbers ----------------------------------------------------------------------------

namespace {

// Functions are computed in float64 and rounded once.
LoweredNumber of_complex(Lowering& l, OpId id, LoweredNumber a, LoweredNumber b, Dtype parts) {
  const Dtype computed = is_complex_arithmetic(id) ? parts : float64;
  const Target outer = std::exchange(target, {&l, computed});
  const auto parts_in = [&](LoweredNumber x) {
    return Parts<Number>{Number::of(l.convert(x.re, computed)), Number::of(l.convert(x.im, computed))};
  };
  const Parts<Number> found = value_of_parts(id, parts_in(a), parts_in(b));
  target = outer;
  return {l.convert(found.re.value, parts), l.convert(found.im.value, parts)};
}

LoweredNumber converted(Lowering& l, LoweredNumber x, Dtype dtype) {
  const bool was_complex = x.im >= 0;
  if (dtype == bool_ && was_complex) {
    const int zero = l.number(0, l.builder().dtype(x.re));
    return {l.add(ScalarOp::bit_or, l.add(ScalarOp::not_equal, x.re, zero), l.add(ScalarOp::not_equal, x.im, zero))};
  }
  if (!is_complex(dtype)) return {l.convert(x.re, dtype)};
  const Dtype parts = real_of(dtype);
  return {l.convert(x.re, parts), was_complex ? l.convert(x.im, parts) : l.number(0, parts)};
}

}  // namespace

LoweredNumber lower_elementwise(Lowering& l, const Op& op, std::span<const LoweredNumber> operands, Dtype dtype) {
  const LoweredNumber x = operands[0], y = operands.back();
  const auto both_parts = [&](ScalarOp op_of_parts, ScalarOp join) {
    return LoweredNumber{l.add(join, l.add(op_of_parts, x.re, y.re), l.add(op_of_parts, x.im, y.im))};
  };
  const bool is_complex_number = x.im >= 0;
  switch (op.id) {
    case OpId::stop_gradient: return x;
    case OpId::astype: return converted(l, x, dtype);
    case OpId::complex: return {x.re, y.re};
    case OpId::real: return {x.re};
    case OpId::imag: return {x.im};
    case OpId::where: {
      const auto chosen = [&](int a, int b) { return l.add(ScalarOp::select, x.re, a, b); };
      const LoweredNumber& a = operands[1];
      return {chosen(a.re, y.re), is_complex(dtype) ? chosen(a.im, y.im) : -1};
    }
    case OpId::equal:
      if (is_complex_number) return both_parts(ScalarOp::equal, ScalarOp::bit_and);
      break;
    case OpId::not_equal:
      if (is_complex_number) return both_parts(ScalarOp::not_equal, ScalarOp::bit_or);
      break;
    default: break;
  }
  if (is_complex_number) return of_complex(l, op.id, x, y, real_of(dtype));
  SmallVector<int, 3> values;
  for (const LoweredNumber& operand : operands) values.push_back(operand.re);
  return {lower_elementwise(l, op, values, dtype)};
}

// ---- fused regions ------------------------------------------------------------------------------

namespace {

// Computes the values of a region for one position of its inputs.
class RegionValues {
 public:
  RegionValues(Lowering& l, const Region& region, std::span<const Array> inputs)
      : l_(l), region_(region), inputs_(inputs) {}

  void compute(Positions at) {
    values_.clear();
    for (std::size_t i = 0; i < inputs_.size(); ++i)
      values_.push_back(l_.number_at(inputs_[i], region_.inputs()[i], at));
    for (const Region::Step& step : region_.steps()) values_.push_back(value_of(step));
  }
  LoweredNumber operator[](int value) const { return values_[static_cast<std::size_t>(value)]; }

 private:
  LoweredNumber value_of(const Region::Step& step) {
    if (!step.op) return number_of(step);
    SmallVector<LoweredNumber, 3> operands;
    for (const int operand : step.operands) operands.push_back(values_[static_cast<std::size_t>(operand)]);
    return lower_elementwise(l_, *step.op, operands, step.dtype);
  }
  LoweredNumber number_of(const Region::Step& step) {
    const auto part = [&](std::size_t i) {
      std::int64_t bytes = 0;
      const Dtype dtype = real_of(step.dtype);
      std::memcpy(&bytes, reinterpret_cast<const char*>(step.bytes.words) + i * size_of(dtype), size_of(dtype));
      return l_.builder().number_of_bytes(bytes, dtype);
    };
    return {part(0), is_complex(step.dtype) ? part(1) : -1};
  }

  Lowering& l_;
  const Region& region_;
  std::span<const Array> inputs_;
  std::vector<LoweredNumber> values_;
};

}  // namespace

Arrays lower_fused(const LoweringContext& c) {
  const Region& region = *c.as<FusedAttributes>().region;
  RegionValues values(c.l, region, c.inputs);
  Shape shape = c.in(0).shape;
  if (is_complex(region.inputs()[0])) shape.pop_back();  // the axis of the parts
  const auto inputs = static_cast<int>(region.inputs().size());
  // Reduces a value, which is real. The order of the reduction follows the strides of the array if
  // the value is an input, and strides of 0 if it is a constant. A computed value counts as
  // row-major.
  const auto reduce = [&](const Region::Reduction& it, const Shape& result, FunctionRef<int(Positions)> element) {
    const int given = region.given(it.value);
    if (given >= 0 && given < inputs)
      return lower_reduction(c.l, *it.op, c.in(static_cast<std::size_t>(given)), it.axes, result);
    const Strides strides = given >= 0 ? all_equal(shape.size(), 0) : contiguous_strides(shape);
    return lower_reduction(c.l, *it.op, shape, strides, region.dtype(it.value), it.axes, result, element);
  };
  // A single reduction needs no memory for the values that it reduces.
  if (region.outputs().size() == 1)
    if (const Region::Reduction* const only = region.reduction(region.outputs()[0]))
      return {reduce(*only, c.shape(), [&](Positions at) {
        values.compute(at);
        return values[only->value].re;
      })};
  // The values of the outputs, before their reductions.
  std::vector<int> computed;
  std::vector<Dtype> dtypes;
  for (const int output : region.outputs()) {
    computed.push_back(region.value_behind(output));
    dtypes.push_back(region.dtype(computed.back()));
  }
  Arrays outputs = c.l.compute_numbers(shape, dtypes, [&](Positions at, std::span<LoweredNumber> results) {
    values.compute(at);
    for (std::size_t k = 0; k < results.size(); ++k) results[k] = values[computed[k]];
  });
  for (std::size_t k = 0; k < outputs.size(); ++k)
    if (const Region::Reduction* const reduction = region.reduction(region.outputs()[k]))
      outputs[k] = reduce(*reduction, c.shape(k), [&](Positions at) { return c.l.element(outputs[k], at); });
  return outputs;
}

}  // namespace stave_detail
