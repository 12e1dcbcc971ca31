// Elementwise operations: records derived from the structs of elementwise_ops.h, and the functions
// that perform the operations.

#include <stave/core/ops/elementwise.h>

#include <cmath>
#include <limits>

#include <stave/core/op/function.h>
#include <stave/core/op/op.h>
#include <stave/core/ops/complex.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/element_sets.h>
#include <stave/core/ops/elementwise_ops.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/reduce.h>
#include <stave/core/ops/series.h>
#include <stave/core/ops/special.h>
#include <stave/core/tensor/default_dtype.h>
#include <stave/core/tensor/fail.h>

namespace stave_detail {

Tensor add_tangents(Tensor a, Tensor b) {
  if (!a.defined()) return b;
  return b.defined() ? add(std::move(a), std::move(b)) : a;
}

Dtype dtype_of_all(std::span<const Operand> operands) {
  Dtype dtype = bool_;
  bool has_tensor = false;
  for (const Operand& x : operands)
    if (!x.is_scalar()) {
      dtype = promote(dtype, x.tensor().dtype());
      has_tensor = true;
    }
  for (const Operand& x : operands)
    if (x.is_scalar()) dtype = has_tensor ? x.scalar().with(dtype) : promote(dtype, x.scalar().alone());
  return dtype;
}

namespace {

// ---- operation records derived from structs -------------------------------------------------

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

// Returns the partial derivative of S with respect to operand i, at the operands of `c`, times
// `factor`: scale(factor, dS/dx_i). A struct may define this product itself: a linear struct as
// tangent0, others as times0.
template <class S, int i, class X, class Context>
constexpr X product_with_partial(const X& factor, const Context& c) {
  if constexpr (i == 0) {
    if constexpr (requires { S::tangent0(factor); }) return S::tangent0(factor);
    else if constexpr (requires { S::times0(factor, factor, factor, factor); })
      return S::times0(factor, c.in(0), c.in(1), c.out());
    else if constexpr (requires { S::times0(factor, factor, factor); }) return S::times0(factor, c.in(0), c.out());
    else if constexpr (requires { S::partial0(factor, factor, factor); })
      return scale(factor, S::partial0(c.in(0), c.in(1), c.out()));
    else return scale(factor, S::partial0(c.in(0), c.out()));
  } else {
    if constexpr (requires { S::tangent1(factor); }) return S::tangent1(factor);
    else if constexpr (requires { S::times1(factor, factor, factor, factor); })
      return S::times1(factor, c.in(0), c.in(1), c.out());
    else return scale(factor, S::partial1(c.in(0), c.in(1), c.out()));
  }
}

// A stand-in for a tensor. It records from which values of an operation it was computed, and by how
// many operations. Evaluating a partial on stand-ins at compile time shows which values it reads
// and how often it rounds.
struct Traced {
  ValueSet from;
  int operations = 0;
  constexpr explicit Traced(ValueSet from, int operations = 0) : from(from), operations(operations) {}
  template <class Number>
    requires std::is_arithmetic_v<Number>
  constexpr Traced(Number) {}

  constexpr Dtype dtype() const { return float32; }
  constexpr Traced after() const { return Traced(from, operations + 1); }
  constexpr Traced with(const Traced& other) const {
    return Traced(ValueSet(from.mask | other.from.mask), operations + other.operations + 1);
  }
  friend constexpr Traced astype(Traced x, Dtype) { return x.after(); }
  friend constexpr Traced zeta_derivative(int, Traced s, Traced q) { return s.with(q); }
  friend constexpr Traced where(Traced condition, Traced a, Traced b) { return condition.with(a).with(b); }
// clang-format off
#define X(name, ...) [[maybe_unused]] friend constexpr Traced name(Traced x) { return x.after(); }
  STAVE_UNARY_OPS(X) X(stop_gradient) X(operator-)
#undef X
#define X(name, ...) \
  [[maybe_unused]] friend constexpr Traced name(Traced a, Traced b) { return a.with(b); }
  STAVE_BINARY_OPS(X) X(operator+) X(operator-) X(operator*) X(operator/) X(operator==) X(operator<) X(operator>)
#undef X
};
// clang-format on

struct TracedCall {
  constexpr Traced in(int i) const { return Traced(ValueSet(1u << i)); }
  constexpr Traced out() const { return Traced(ValueSet(ValueSet::outputs)); }
};

template <class S, int i>
constexpr Traced traced_partial = product_with_partial<S, i>(Traced(1), TracedCall());

// The operands and the result of a call, as partial i of S reads them: converted to float32.
template <class S, int i, class Context>
struct Widened {
  const Context& c;
  static Tensor wide(const Tensor& x) { return astype(x, float32); }
  static constexpr bool reads(unsigned value) { return (traced_partial<S, i>.from.mask & value) != 0; }
  Tensor in(int j) const { return reads(1u << j) ? wide(c.in(j)) : Tensor(); }
  Tensor out() const { return reads(ValueSet::outputs) ? wide(c.out()) : Tensor(); }
};

// Returns the partial derivative with respect to operand i, times `factor`. If the product takes at
// most two operations, they are performed in the dtype of the operands, even for 16-bit floats,
// since two roundings do little harm. Otherwise 16-bit floats are converted to float32, which also
// avoids overflow.
template <class S, int i, class Context>
Tensor times_partial(const Tensor& factor, const Context& c) {
  if constexpr (traced_partial<S, i>.operations > 2)
    if (is_half_float(factor.dtype())) {
      const Widened<S, i, Context> wide{c};
      return astype(product_with_partial<S, i>(wide.wide(factor), wide), factor.dtype());
    }
  return product_with_partial<S, i>(factor, c);
}

template <class S, bool binary>
constexpr Derivative structure_of() {
  if constexpr (requires { S::bilinear; }) return Derivative::bilinear;
  constexpr bool linear = requires(Traced x) {
    S::tangent0(x);
    requires(!binary || requires { S::tangent1(x); });
  };
  return linear ? Derivative::linear : Derivative::rules;
}

template <class S, bool binary>
Outputs jvp_elementwise(const JvpContext& c) {
  if constexpr (binary && structure_of<S, binary>() == Derivative::linear)
    if (c.has(0) && c.has(1)) return perform(c.call.with_inputs({c.tangents[0], c.tangents[1]}));
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

constexpr decltype(Op::series) series_of(OpId id) {
  switch (id) {
    case OpId::divide:
    case OpId::scale_by_inverse: return series_divide;
    case OpId::reciprocal: return series_reciprocal;
    case OpId::square: return series_square;
    case OpId::sqrt: return series_sqrt;
    case OpId::exp2: return series_exp2;
    case OpId::tanh: return series_tanh;
    case OpId::sech_squared: return series_sech_squared;
    case OpId::sigmoid: return series_sigmoid;
    case OpId::logistic_density: return series_logistic_density;
    default: return nullptr;
  }
}

template <class S, bool binary>
constexpr Op elementwise_op(OpId id, const char* name) {
  Op op{.id = id, .name = name, .infer = infer_elementwise, .elementwise = true, .batch = batch_elementwise};
  op.takes_complex = takes_complex(id);
  op.boolean = S::result == Result::boolean;
  op.is_cheap_arithmetic = S::work == Work::arithmetic;
  if (id == OpId::multiply || id == OpId::scale) op.depends = depends_scaled;
  if constexpr (S::zero_derivative) {
    op.derivative = Derivative::zero;
  } else {
    op.derivative = structure_of<S, binary>();
    op.jvp = jvp_elementwise<S, binary>;
    op.vjp = vjp_elementwise<S, binary>;
    op.series = series_of(id);
    op.reads[0] = traced_partial<S, 0>.from;
    if constexpr (binary) op.reads[1] = traced_partial<S, 1>.from;
  }
  return op;
}

// ---- operands -------------------------------------------------------------------------------

[[noreturn]] void fail_without_bits(const Op& op, Operands domain, Dtype dtype) {
  fail<DtypeError>("{}: {} has no bits to work on: give integers{}, by astype", op.name, dtype,
                   domain == Operands::bits ? " or bool" : "");
}

// Returns the dtype in which an operation of this domain computes, for operands of `dtype`. Throws
// DtypeError if the domain does not include `dtype`.
inline Dtype admit(const Op& op, Operands domain, Dtype dtype) {
  if (is_complex(dtype) && !op.takes_complex && domain != Operands::bools) [[unlikely]]
    fail_complex(op, dtype);
  switch (domain) {
    case Operands::floats: return is_inexact(dtype) ? dtype : default_dtype();
    case Operands::numbers: return dtype == bool_ ? int32 : dtype;
    case Operands::bools: return bool_;
    case Operands::integers:
    case Operands::bits:
      if (is_float(dtype)) fail_without_bits(op, domain, dtype);
      return domain == Operands::integers && dtype == bool_ ? int32 : dtype;
    case Operands::any: break;
  }
  return dtype;
}

// Returns an operation on a complex number that is computed from its parts. Throws DtypeError if
// the operation is not defined for complex numbers.
Tensor computed_from_parts(const Op& op, const Tensor& z) {
  const auto either = [&](const Tensor& re, const Tensor& im) { return logical_or(re, im); };
  switch (op.id) {
    case OpId::abs: return hypot(real(z), imag(z));
    case OpId::sign: {
      // The unit vector is computed from the parts, since their squares might overflow.
      const Tensor re = real(z), im = imag(z), is_number = logical_not(either(isnan(re), isnan(im)));
      const auto cosine = [&](const Tensor& a, const Tensor& b) {
        return where(is_number, direction_cosine(a, b), std::numeric_limits<double>::quiet_NaN());
      };
      return complex(cosine(re, im), cosine(im, re));
    }
    case OpId::isnan: return either(isnan(real(z)), isnan(imag(z)));
    case OpId::isinf: return either(isinf(real(z)), isinf(imag(z)));
    case OpId::isfinite: return logical_and(isfinite(real(z)), isfinite(imag(z)));
    case OpId::round: return complex(round(real(z)), round(imag(z)));
    default: fail_complex(op, z.dtype());
  }
}

Tensor unary(const Op& op, Operands domain, Tensor x) {
  if (is_complex(require_defined(x, op.name).dtype()) && !op.takes_complex && domain != Operands::bools) [[unlikely]]
    return named(
        op.name, [&] { return computed_from_parts(op, x); }, x);
  const Dtype dtype = admit(op, domain, x.dtype());
  if (dtype != x.dtype()) x = astype(x, dtype);
  return apply_elementwise(op, {&x, 1});
}

// Makes an operand own its tensor. If a function performs several operations, a handler
// of the first one may assign to the variable to which an operand of a later one refers.
void keep(Operand& x) {
  if (current && !x.is_scalar() && !x.owns()) x = x.tensor();
}

// Makes x a tensor of `dtype`, broadcast to `shape` if one is given.
void fit(Operand& x, Dtype dtype, const Shape* shape, Device device) {
  if (x.is_scalar() || x.tensor().dtype() != dtype || (shape && x.tensor().shape() != *shape))
    x = as_tensor(std::move(x), dtype, shape, device);
}

// Returns whether one operand is a number and the other a tensor that needs no conversion.
// This is the common case for numbers.
bool joins(const Op& op, const Operand& number, const Operand& other, Operands domain) {
  if (!number.is_scalar() || other.is_scalar()) return false;
  const Dtype dtype = other.tensor().dtype();
  return admit(op, domain, number.scalar().with(dtype)) == dtype;
}

Tensor fit_and_apply(const Op& op, Operands domain, Operand& a, Operand& b) {
  if (!a.is_scalar() && !b.is_scalar()) {  // in the common case no operand needs conversion
    const Node &x = require_defined(a.tensor(), op.name, 0).node(), &y = require_defined(b.tensor(), op.name, 1).node();
    if (x.dtype == y.dtype && admit(op, domain, x.dtype) == x.dtype && x.shape == y.shape)
      return apply_binary(op, std::move(a), std::move(b));
    keep(a);
    keep(b);
  } else {
    check_defined(op.name, {&a, &b});
    if (joins(op, a, b, domain) || joins(op, b, a, domain)) return apply_binary(op, std::move(a), std::move(b));
  }
  const Dtype dtype = admit(op, domain, dtype_of_both(a, b));
  Shape common;
  const Shape* shape = nullptr;  // the shape to which operands broadcast
  if (shape_of(a) != shape_of(b)) shape = &(common = broadcast_shapes(shape_of(a), shape_of(b), op.name));
  const Device device = device_of({&a, &b});
  fit(a, dtype, shape, device);
  fit(b, dtype, shape, device);
  return apply_binary(op, std::move(a), std::move(b));
}

Tensor binary(const Op& op, Operands domain, Operand& a, Operand& b) {
  return naming(op.name, [&] { return fit_and_apply(op, domain, a, b); });
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
STAVE_UNARY_OPS(X)
#undef X

#define X(name, Struct)                                                                         \
  constinit const Op op_##name = elementwise_op<stave_detail::Struct, true>(OpId::name, #name); \
  Tensor name(Operand a, Operand b) { return binary(op_##name, stave_detail::Struct::operands, a, b); }
STAVE_BINARY_OPS(X)
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
X(&, bitwise_and, BitwiseAnd)
X(|, bitwise_or, BitwiseOr)
X(^, bitwise_xor, BitwiseXor)
#undef X

namespace {

// Assigns operation(a, b) to a. The old value of a is kept until the new one is computed, so a is
// unchanged if the operation throws.
Tensor& assign(const char* symbol, Tensor (*operation)(Operand, Operand), Tensor& a, Operand&& b) {
  if (!a.defined())
    fail<TransformError>(
        "{}: the left operand is an empty Tensor (default-constructed or moved from): begin with zeros(shape) "
        "or zeros_like(x)",
        symbol);
  return a = operation(a, std::move(b));
}

}  // namespace

Tensor& operator+=(Tensor& a, Operand b) { return assign("+=", add, a, std::move(b)); }
Tensor& operator-=(Tensor& a, Operand b) { return assign("-=", subtract, a, std::move(b)); }
Tensor& operator*=(Tensor& a, Operand b) { return assign("*=", multiply, a, std::move(b)); }
Tensor& operator/=(Tensor& a, Operand b) { return assign("/=", divide, a, std::move(b)); }

// ---- where, complex, clip -----------------------------------------------------------------

constinit const Op op_where{
    .id = OpId::where,
    .name = "where",
    .takes_complex = true,
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
    .vjp = [](const VjpContext& c,
              int input) { return input == 1 ? where(c.in(0), c.ct(), 0) : where(c.in(0), 0, c.ct()); },
    .batch = batch_elementwise,
    .depends = depends_where,
    .is_cheap_arithmetic = true,
};

Tensor where(Operand condition, Operand a, Operand b) {
  check_defined("where", {&condition, &a, &b});
  const Dtype dtype = dtype_of_both(a, b);
  Shape shape = broadcast_shapes(shape_of(a), shape_of(b), "where");
  shape = broadcast_shapes(shape_of(condition), shape, "where");
  for (Operand* x : {&condition, &a, &b}) keep(*x);
  const Device device = device_of({&a, &b, &condition});
  Inputs inputs;
  naming("where", [&] {
    inputs.push_back(as_tensor(std::move(condition), bool_, &shape, device));
    inputs.push_back(as_tensor(std::move(a), dtype, &shape, device));
    inputs.push_back(as_tensor(std::move(b), dtype, &shape, device));
  });
  return apply_elementwise(op_where, inputs);
}

Tensor complex(Operand re, Operand im) {
  check_defined("complex", {&re, &im});
  const Dtype both = dtype_of_both(re, im);
  if (is_complex(both))
    fail<DtypeError>("complex: the operands are the real and the imaginary part, and must be real, not {}", both);
  const Dtype dtype = real_of(complex_of(is_float(both) ? both : default_dtype()));
  const Shape shape = broadcast_shapes(shape_of(re), shape_of(im), "complex");
  for (Operand* x : {&re, &im}) keep(*x);
  const Device device = device_of({&re, &im});
  Inputs inputs;
  naming("complex", [&] {
    inputs.push_back(as_tensor(std::move(re), dtype, &shape, device));
    inputs.push_back(as_tensor(std::move(im), dtype, &shape, device));
  });
  return apply(op_complex, std::move(inputs));
}

Tensor clip(Operand x, Operand low, Operand high) {
  check_defined("clip", {&x, &low, &high});
  keep(high);
  return named("clip", [&] { return minimum(maximum(std::move(x), std::move(low)), std::move(high)); });
}

// ---- functions composed of others -----------------------------------------------------------

namespace {

// Calls the body with x converted to floats. First the other operands become owners of their
// tensors, because handlers may assign to the caller's variables while the body runs.
template <class Body, class... Operands>
Tensor of_floats(const char* function, const Tensor& x, Body&& body, Operands&... operands) {
  check_defined(function, {&operands...}, 1);
  (keep(operands), ...);
  return named(
      function, [&] { return body(floating(x)); }, x);
}

Dtype dtype_with(Dtype dtype, const Operand& x) { return x.is_scalar() ? dtype : promote(dtype, x.tensor().dtype()); }

// Like of_floats, for bodies of several operations, which would round 16-bit floats repeatedly.
// The body computes them in float32, and the result is rounded once.
template <class Body, class... Operands>
Tensor of_wide_floats(const char* function, const Tensor& x, Body&& body, Operands&... operands) {
  const auto widened = [&](const Tensor& t) {
    Dtype dtype = t.dtype();
    ((dtype = dtype_with(dtype, operands)), ...);
    return is_half_float(dtype) ? astype(body(astype(t, float32)), dtype) : body(t);
  };
  return of_floats(function, x, widened, operands...);
}

}  // namespace

// A branch that `where` does not select has derivative 0, even if it overflowed: `where` gives it
// the cotangent 0, and `scale` keeps that 0.

Tensor leaky_relu(Tensor x, Operand slope) {
  return of_floats(
      "leaky_relu", x, [&](const Tensor& t) { return where(t > 0, t, slope * t); }, slope);
}

Tensor elu(Tensor x, Operand alpha) {
  return of_wide_floats(
      "elu", x, [&](const Tensor& t) { return where(t > 0, t, alpha * expm1(t)); }, alpha);
}

Tensor selu(Tensor x) {
  constexpr double alpha = 1.6732632423543772, scale = 1.0507009873554805;
  return of_wide_floats("selu", x, [](const Tensor& t) { return scale * where(t > 0, t, alpha * expm1(t)); });
}

Tensor celu(Tensor x, Operand alpha) {
  return of_wide_floats(
      "celu", x, [&](const Tensor& t) { return where(t > 0, t, alpha * expm1(t / alpha)); }, alpha);
}

Tensor hardtanh(Tensor x, Operand low, Operand high) {
  return of_floats(
      "hardtanh", x, [&](const Tensor& t) { return where(t <= low, low, where(t >= high, high, t)); }, low, high);
}

Tensor hardsigmoid(Tensor x) {
  return of_floats("hardsigmoid", x, [](const Tensor& t) { return where(t <= -3, 0, where(t >= 3, 1, (t + 3) / 6)); });
}

Tensor hardswish(Tensor x) {
  return of_floats("hardswish", x,
                   [](const Tensor& t) { return where(t <= -3, 0, where(t >= 3, t, t * (t + 3) / 6)); });
}

Tensor mish(Tensor x) {
  return of_wide_floats("mish", x, [](const Tensor& t) {
    const Tensor y = scale(t, tanh(softplus(t)));  // 0 at -inf
    // For x < -40 the value is that of silu(x), since tanh(softplus(x)) may be denormal there and
    // has lost digits. The derivatives are those of y, and have lost these digits.
    return y + stop_gradient(where(t < -40, silu(minimum(t, -40)) - y, 0));
  });
}

Tensor log_sigmoid(Tensor x) {
  return of_wide_floats("log_sigmoid", x, [](const Tensor& t) { return -softplus(-t); });
}

Tensor entr(Tensor x) {
  const double infinity = std::numeric_limits<double>::infinity();
  return of_wide_floats("entr", x, [&](const Tensor& t) { return where(t < 0, -infinity, -xlogy(t, t)); });
}

// ---- comparisons that answer on the host ----------------------------------------------------

bool array_equal(const Tensor& a, const Tensor& b) {
  return named(
      "array_equal", [&] { return a.shape() == b.shape() && static_cast<bool>(all(equal(a, b))); }, a, b);
}

bool allclose(const Tensor& a, const Tensor& b, double rtol, double atol, bool equal_nan) {
  return named(
      "allclose",
      [&] {
        const Dtype dtype = is_complex(promote(a.dtype(), b.dtype())) ? complex128 : float64;
        const Tensor x = astype(a, dtype), y = astype(b, dtype);
        Tensor is_close = less_equal(abs(x - y), atol + rtol * abs(y));
        is_close = logical_or(equal(x, y), logical_and(is_close, isfinite(y)));
        if (equal_nan) is_close = logical_or(is_close, logical_and(isnan(x), isnan(y)));
        return static_cast<bool>(all(is_close));
      },
      a, b);
}

}  // namespace stave
