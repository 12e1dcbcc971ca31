// Elementwise operations: records derived from the structs of elementwise_ops.h, and the functions that perform them.

#include <stave/core/ops/elementwise.h>

#include <stave/core/fail.h>
#include <stave/core/op.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise_ops.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/function.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/reduce.h>

namespace stave_detail {

Tensor add_tangents(Tensor a, Tensor b) {
  if (!a.defined()) return b;
  return b.defined() ? add(std::move(a), std::move(b)) : a;
}

namespace {

// ---- records derived from structs ------------------------------------------------------------------------

[[noreturn]] void fail_unlike(const Call& call, const Tensor& x, const Tensor& other) {
  fail<ShapeError>("{}: operands {} {} and {} {} must have one shape and dtype here", call.op().name,
                   name_of(x.dtype()), x.shape(), name_of(other.dtype()), other.shape());
}

void infer_elementwise(const Call& call, SmallVector<Abstract, 1>& outputs) {
  const Tensor& x = call.input(0);
  for (const Tensor& other : call.inputs().subspan(1))
    if (other.shape() != x.shape() || other.dtype() != x.dtype()) [[unlikely]]
      fail_unlike(call, x, other);
  outputs.emplace_back(x.shape(), call.op().result_dtype(x.dtype()));
}

// Partial i of S at the operands of `c`, times `factor`: scale(factor, dS/dx_i). A linear struct says it in one step.
template <class S, int i, class Context>
Tensor times_partial(const Tensor& factor, const Context& c) {
  if constexpr (i == 0) {
    if constexpr (requires { S::tangent0(factor); }) return S::tangent0(factor);
    else if constexpr (requires { S::partial0(factor, factor, factor); })
      return scale(factor, S::partial0(c.in(0), c.in(1), c.out()));
    else return scale(factor, S::partial0(c.in(0), c.out()));
  } else {
    if constexpr (requires { S::tangent1(factor); }) return S::tangent1(factor);
    else return scale(factor, S::partial1(c.in(0), c.in(1), c.out()));
  }
}

template <class S, bool binary>
Outputs jvp_elementwise(const JvpContext& c) {
  Tensor tangent;
  if (c.has(0)) tangent = times_partial<S, 0>(c.tangents[0], c);
  if constexpr (binary)
    if (c.has(1)) tangent = add_tangents(tangent, times_partial<S, 1>(c.tangents[1], c));
  return tangent;
}

template <class S, bool binary>
Tensor vjp_elementwise(const VjpContext& c, int input) {
  if constexpr (binary)
    if (input == 1) return times_partial<S, 1>(c.ct(), c);
  static_cast<void>(input);
  return times_partial<S, 0>(c.ct(), c);
}

Outputs batch_elementwise(const BatchContext& c) {
  Inputs inputs;
  for (std::size_t i = 0; i < c.inputs.size(); ++i) inputs.push_back(c.batched_in(i));
  return apply_elementwise(c.call.op(), inputs);
}

template <class S, bool binary>
constexpr Op elementwise_op(OpId id, const char* name) {
  Op op{.id = id, .name = name, .infer = infer_elementwise, .elementwise = true, .batch = batch_elementwise};
  op.boolean = S::result == Result::boolean;
  op.saves.inputs = S::reads == Reads::nothing || S::reads == Reads::output ? 0u : ~0u;
  op.saves.crossed = S::reads == Reads::other;
  op.saves.outputs = S::reads == Reads::output || S::reads == Reads::both;
  if constexpr (S::zero_derivative) {
    op.derivative = Derivative::zero;
  } else {
    op.jvp = jvp_elementwise<S, binary>;
    op.vjp = vjp_elementwise<S, binary>;
  }
  return op;
}

// ---- operands --------------------------------------------------------------------------------------------

// The dtype in which an operation of this domain computes operands that are of `dtype`.
constexpr Dtype admit(Operands domain, Dtype dtype) {
  switch (domain) {
    case Operands::floats: return is_float(dtype) ? dtype : float32;
    case Operands::numbers: return dtype == bool_ ? int32 : dtype;
    case Operands::bools: return bool_;
    case Operands::any: break;
  }
  return dtype;
}

Tensor unary(const Op& op, Operands domain, Tensor x) {
  const Dtype dtype = admit(domain, x.dtype());
  if (dtype != x.dtype()) x = astype(x, dtype);
  return apply_elementwise(op, {&x, 1});
}

Dtype common_dtype(const Operand& a, const Operand& b) {
  if (a.is_scalar())
    return b.is_scalar() ? promote(a.scalar().alone(), b.scalar().alone()) : a.scalar().with(b.tensor().dtype());
  return b.is_scalar() ? b.scalar().with(a.tensor().dtype()) : promote(a.tensor().dtype(), b.tensor().dtype());
}

const Shape& shape_of(const Operand& x) {
  if (!x.is_scalar()) return x.tensor().shape();
  static const Shape scalar;
  return scalar;
}

// Where a number goes: to the tensor that it meets.
Device device_of(std::initializer_list<const Operand*> operands) {
  for (const Operand* x : operands)
    if (!x->is_scalar()) return x->tensor().device();
  return cpu;
}

// Where several operations are performed for one, a handler of the first may assign to a variable that a later one reads.
void keep(Operand& x) {
  if (current && !x.is_scalar() && !x.owns()) x = x.tensor();
}

// Makes x a tensor of `dtype`, broadcast to `shape` if one is given.
void fit(Operand& x, Dtype dtype, const Shape* shape, Device device) {
  if (x.is_scalar() || x.tensor().dtype() != dtype || (shape && x.tensor().shape() != *shape))
    x = as_tensor(std::move(x), dtype, shape, device);
}

// Whether a number meets a tensor that stays as it is: what happens to most numbers.
bool joins(const Operand& number, const Operand& other, Operands domain) {
  if (!number.is_scalar() || other.is_scalar()) return false;
  const Dtype dtype = other.tensor().dtype();
  return admit(domain, number.scalar().with(dtype)) == dtype;
}

Tensor binary(const Op& op, Operands domain, Operand& a, Operand& b) {
  if (!a.is_scalar() && !b.is_scalar()) {  // most often there is nothing to fit
    const Node &x = a.tensor().node(), &y = b.tensor().node();
    if (x.dtype == y.dtype && admit(domain, x.dtype) == x.dtype && x.shape == y.shape)
      return apply_binary(op, std::move(a), std::move(b));
    keep(a);
    keep(b);
  } else if (joins(a, b, domain) || joins(b, a, domain)) {
    return apply_binary(op, std::move(a), std::move(b));
  }
  const Dtype dtype = admit(domain, common_dtype(a, b));
  Shape common;
  const Shape* shape = nullptr;  // to broadcast to
  if (shape_of(a) != shape_of(b)) shape = &(common = broadcast_shapes(shape_of(a), shape_of(b), op.name));
  const Device device = device_of({&a, &b});
  fit(a, dtype, shape, device);
  fit(b, dtype, shape, device);
  return apply_binary(op, std::move(a), std::move(b));
}

}  // namespace

Tensor as_tensor(Operand&& x, Dtype dtype, const Shape* shape, Device device) {
  if (x.is_scalar()) return constant(x.scalar(), dtype, shape ? *shape : Shape(), device);
  Tensor value = std::move(x).tensor();
  if (value.dtype() != dtype) value = astype(value, dtype);
  return shape && value.shape() != *shape ? broadcast_quietly(value, *shape) : std::move(value);
}

}  // namespace stave_detail

namespace stave {

using namespace stave_detail;

Tensor BatchContext::batched_in(std::size_t i) const {
  return batched[i] ? inputs[i] : broadcast_lanes(inputs[i], size);
}

#define X(name, Struct)                                                                          \
  constinit const Op op_##name = elementwise_op<stave_detail::Struct, false>(OpId::name, #name); \
  Tensor name(Tensor x) { return unary(op_##name, stave_detail::Struct::operands, std::move(x)); }
STAVE_UNARY_STRUCTS(X)
#undef X

#define X(name, Struct)                                                                         \
  constinit const Op op_##name = elementwise_op<stave_detail::Struct, true>(OpId::name, #name); \
  Tensor name(Operand a, Operand b) { return binary(op_##name, stave_detail::Struct::operands, a, b); }
STAVE_BINARY_STRUCTS(X)
#undef X

#define X(symbol, name, Struct) \
  Tensor operator symbol(Operand a, Operand b) { return binary(op_##name, stave_detail::Struct::operands, a, b); }
X(+, add, Add)
X(-, subtract, Subtract)
X(*, multiply, Multiply)
X(/, divide, Divide)
X(%, remainder, Remainder)
X(==, equal, Equal)
X(!=, not_equal, NotEqual)
X(<, less, Less)
X(<=, less_equal, LessEqual)
X(>, greater, Greater)
X(>=, greater_equal, GreaterEqual)
#undef X

// ---- where, clip -----------------------------------------------------------------------------------------

constinit const Op op_where{
    .id = OpId::where,
    .name = "where",
    .infer =
        [](const Call& call, SmallVector<Abstract, 1>& outputs) {
          const Tensor &condition = call.input(0), &a = call.input(1), &b = call.input(2);
          if (condition.dtype() != bool_ || condition.shape() != a.shape() || b.shape() != a.shape() ||
              a.dtype() != b.dtype())
            fail<ShapeError>("where: operands {} {}, {} {}, {} {} must have one shape, and be bool and one dtype here",
                             condition.dtype(), condition.shape(), a.dtype(), a.shape(), b.dtype(), b.shape());
          outputs.push_back({a.shape(), a.dtype()});
        },
    .derivative = Derivative::linear,
    .linear_in = 0b110,
    .elementwise = true,
    .saves = {.inputs = 0b001},
    .vjp = [](const VjpContext& c,
              int input) { return input == 1 ? where(c.in(0), c.ct(), 0) : where(c.in(0), 0, c.ct()); },
    .batch = batch_elementwise,
};

Tensor where(Operand condition, Operand a, Operand b) {
  const Dtype dtype = common_dtype(a, b);
  Shape shape = broadcast_shapes(shape_of(a), shape_of(b), "where");
  shape = broadcast_shapes(shape_of(condition), shape, "where");
  for (Operand* x : {&condition, &a, &b}) keep(*x);
  const Device device = device_of({&a, &b, &condition});
  Inputs inputs;
  inputs.push_back(as_tensor(std::move(condition), bool_, &shape, device));
  inputs.push_back(as_tensor(std::move(a), dtype, &shape, device));
  inputs.push_back(as_tensor(std::move(b), dtype, &shape, device));
  return apply_elementwise(op_where, inputs);
}

Tensor clip(Operand x, Operand low, Operand high) {
  keep(high);
  return minimum(maximum(std::move(x), std::move(low)), std::move(high));
}

// ---- comparisons that answer on the host -----------------------------------------------------------------

bool array_equal(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && static_cast<bool>(all(equal(a, b)));
}

bool allclose(const Tensor& a, const Tensor& b, double rtol, double atol, bool equal_nan) {
  const Tensor x = astype(a, float64), y = astype(b, float64);
  Tensor close = less_equal(abs(x - y), atol + rtol * abs(y));
  close = logical_or(equal(x, y), logical_and(close, isfinite(y)));
  if (equal_nan) close = logical_or(close, logical_and(isnan(x), isnan(y)));
  return static_cast<bool>(all(close));
}

}  // namespace stave
