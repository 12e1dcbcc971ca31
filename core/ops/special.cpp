// Records of the special operations, with their derivatives, and the functions that perform them.
//
// The first inputs of some operations are orders, which are whole numbers without a derivative.
// They are the orders of derivatives with respect to parameters (gammainc, betainc, zeta) or the
// orders of Bessel functions. The derivative of such an operation is the operation itself at
// another order.

#include <stave/core/ops/special.h>

#include <stave/core/op/op.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/layout.h>
#include <stave/core/tensor/fail.h>

namespace stave_detail {

namespace {

// ---- calls --------------------------------------------------------------------------------------

// Returns the dtype of the result.
Dtype result_dtype(const Op& op, std::span<const Operand> operands) {
  const Dtype dtype = dtype_of_all(operands);
  if (is_complex(dtype)) fail_complex(op, dtype);
  return is_float(dtype) ? dtype : default_dtype();
}

// Performs the operation on operands that broadcast. Errors name the function.
Tensor special(const char* function, const Op& op, std::span<Operand> operands) {
  return naming(function, [&] {
    Shape shape;
    Device device = cpu;
    for (Operand& x : operands)
      if (!x.is_scalar()) {
        device = require_defined(x.tensor(), function).device();
        if (!x.owns()) x = x.tensor();  // a handler may assign to the caller's variable
        shape = broadcast_shapes(shape, x.tensor().shape(), function);
      }
    const Dtype dtype = result_dtype(op, operands), computed = computed_in(dtype);
    Inputs inputs;
    for (Operand& x : operands) inputs.push_back(as_tensor(std::move(x), computed, &shape, device));
    const Tensor y = apply(op, std::move(inputs));
    return dtype == computed ? y : astype(y, dtype);
  });
}
template <class... Operands>
Tensor special(const char* function, const Op& op, Operands&&... operands) {
  Operand all[] = {Operand(std::forward<Operands>(operands))...};
  return special(function, op, std::span<Operand>(all));
}
// Performs the operation on operands in a derivative rule. Errors name the operation.
template <class... Operands>
Tensor at(const Op& op, const Operands&... operands) {
  return special(op.name, op, Operand(operands)...);
}

// ---- derivatives --------------------------------------------------------------------------------

[[noreturn]] void fail_no_rule(const Op& op, int operand) {
  fail<TransformError>(
      "the operation {} has no derivative with respect to operand {}: cut that operand off with stop_gradient", op.name,
      operand);
}

constexpr double root_two_pi = 2.5066282746310002, half_root_pi = 0.8862269254527580, half_pi = 1.5707963267948966;

// The ratio phi(x) / Phi(x) of the standard normal density and distribution function.
Tensor normal_ratio(const Tensor& x) {
  const Tensor below = minimum(x, 0), above = maximum(x, 0);
  return where(x < 0, 2 / root_two_pi * reciprocal(erfcx(-0.7071067811865476 * below)),
               2 / root_two_pi * exp_of_product(above, -0.5 * above) / erfc(-0.7071067811865476 * above));
}

// log(x / y)
Tensor log_ratio(const Tensor& x, const Tensor& y) {
  const Tensor zero = x == 0, other = where(zero, 1, x);
  return where(zero, log(x), rel_entr(other, y) / other);
}

// Returns the partial derivative of the operation with respect to input i at the inputs x, where
// the result is y.
Tensor partial(const Op& op, int i, std::span<const Tensor> x, const Tensor& y) {
  const auto by = [&](int input) { return i == input; };
  switch (op.id) {
    case OpId::gammainc:  // the order, a, x
      if (by(1)) return at(op, x[0] + 1, x[1], x[2]);
      if (by(2)) return at(op_gamma_density, x[0], x[1], x[2]);
      break;
    case OpId::gammaincc: return by(0) ? -at(op_gammainc, 1, x[0], x[1]) : -at(op_gamma_density, 0, x[0], x[1]);
    case OpId::gamma_density:
      // d/dx x^(a-1) e^-x = ((a-1) / x - 1) x^(a-1) e^-x, differentiated n times with respect to a
      if (by(1)) return at(op, x[0] + 1, x[1], x[2]);
      if (by(2))
        return (scale(x[1] - 1 - x[2], at(op, x[0], x[1], x[2])) + scale(x[0], at(op, x[0] - 1, x[1], x[2]))) / x[2];
      break;
    case OpId::betainc:  // the orders of derivatives with respect to a and b, then a, b, x
      if (by(2)) return at(op, x[0] + 1, x[1], x[2], x[3], x[4]);
      if (by(3)) return at(op, x[0], x[1] + 1, x[2], x[3], x[4]);
      if (by(4)) return at(op_beta_density, x[0], x[1], x[2], x[3], x[4]);
      break;
    case OpId::beta_density: {
      if (by(2)) return at(op, x[0] + 1, x[1], x[2], x[3], x[4]);
      if (by(3)) return at(op, x[0], x[1] + 1, x[2], x[3], x[4]);
      if (!by(4)) break;
      const Tensor rest = 1 - x[4], density = at(op, x[0], x[1], x[2], x[3], x[4]);
      return (scale(x[2] - 1, density) + scale(x[0], at(op, x[0] - 1, x[1], x[2], x[3], x[4]))) / x[4] -
             (scale(x[3] - 1, density) + scale(x[1], at(op, x[0], x[1] - 1, x[2], x[3], x[4]))) / rest;
    }
    case OpId::betaln: return digamma(x[static_cast<std::size_t>(i)]) - digamma(x[0] + x[1]);
    case OpId::poch: return by(0) ? y * (digamma(x[0] + x[1]) - digamma(x[0])) : y * digamma(x[0] + x[1]);
    case OpId::zeta_derivative:
      // d/dq zeta(s, q) = -s zeta(s + 1, q), differentiated n times with respect to s
      if (by(1)) return at(op, x[0] + 1, x[1], x[2]);
      if (by(2)) return -(x[1] * at(op, x[0], x[1] + 1, x[2]) + x[0] * at(op, x[0] - 1, x[1] + 1, x[2]));
      break;
    case OpId::ndtri: return root_two_pi * exp_of_product(y, 0.5 * y);
    case OpId::log_ndtr: return normal_ratio(x[0]);
    case OpId::erfcinv: return -half_root_pi * exp_of_product(y, y);
    case OpId::erfcx:  // DLMF 7.18.4
      if (by(1)) return -2 * (x[0] + 1) * at(op, x[0] + 1, x[1]);
      break;
    case OpId::bessel_j:
    case OpId::bessel_y:  // DLMF 10.6.1
      if (by(1)) return 0.5 * (at(op, x[0] - 1, x[1]) - at(op, x[0] + 1, x[1]));
      break;
    case OpId::bessel_i:  // DLMF 10.29.1
      if (by(1)) return 0.5 * (at(op, x[0] - 1, x[1]) + at(op, x[0] + 1, x[1]));
      break;
    case OpId::bessel_ie:
      if (by(1)) return 0.5 * (at(op, x[0] - 1, x[1]) + at(op, x[0] + 1, x[1])) - sign(x[1]) * y;
      break;
    case OpId::bessel_k:
      if (by(1)) return -0.5 * (at(op, x[0] - 1, x[1]) + at(op, x[0] + 1, x[1]));
      break;
    case OpId::bessel_ke:
      if (by(1)) return y - 0.5 * (at(op, x[0] - 1, x[1]) + at(op, x[0] + 1, x[1]));
      break;
    case OpId::expi: return exp(x[0]) / x[0];
    case OpId::expn:  // DLMF 8.19.13
      if (by(1)) return -at(op, x[0] - 1, x[1]);
      break;
    case OpId::spence:
    case OpId::dawsn:
    case OpId::sinc:
      if (by(1)) return at(op, x[0] + 1, x[1]);
      break;
    case OpId::sine_integral: return sinc(x[0] * 0.3183098861837907);  // sin(x) / x
    case OpId::cosine_integral: return cos(x[0]) / x[0];
    case OpId::fresnel_s: return sin(half_pi * square(x[0]));
    case OpId::fresnel_c: return cos(half_pi * square(x[0]));
    case OpId::hyp1f1:  // DLMF 13.3.15
      if (by(2)) return x[0] / x[1] * at(op, x[0] + 1, x[1] + 1, x[2]);
      break;
    case OpId::hyp2f1:  // DLMF 15.5.1
      if (by(3)) return x[0] * x[1] / x[2] * at(op, x[0] + 1, x[1] + 1, x[2] + 1, x[3]);
      break;
    case OpId::rel_entr: return by(0) ? 1 + log_ratio(x[0], x[1]) : -(x[0] / x[1]);
    case OpId::kl_div: return by(0) ? log_ratio(x[0], x[1]) : (x[1] - x[0]) / x[1];
    case OpId::lambertw:  // DLMF 4.13.4
      if (by(1)) return exp(-y) / (1 + y);
      break;
    default: break;
  }
  fail_no_rule(op, i);
}

Outputs jvp_special(const JvpContext& c) {
  Tensor tangent;
  for (std::size_t i = 0; i < c.call.inputs().size(); ++i)
    if (c.has(i))
      tangent = add_tangents(tangent,
                             scale(c.tangents[i], partial(c.call.op(), static_cast<int>(i), c.call.inputs(), c.out())));
  return tangent;
}
Tensor vjp_special(const VjpContext& c, int input) { return scale(c.ct(), partial(c.op, input, c.inputs, c.out())); }

// ---- records ------------------------------------------------------------------------------------

void infer_special(const Call& call, SmallVector<Abstract, 1>& outputs) {
  const Tensor& x = call.input(0);
  for (const Tensor& other : call.inputs())
    if (other.shape() != x.shape() || other.dtype() != x.dtype() || computed_in(x.dtype()) != x.dtype() ||
        !is_float(x.dtype()))
      fail<ShapeError>("{}: operands {} {} and {} {} must have one shape and be float32 or float64 here",
                       call.op().name, x.dtype(), x.shape(), other.dtype(), other.shape());
  outputs.emplace_back(x.shape(), x.dtype());
}

// Returns true if some partial derivative reads the result.
constexpr bool reads_result(OpId id) {
  switch (id) {
    case OpId::poch:
    case OpId::ndtri:
    case OpId::erfcinv:
    case OpId::bessel_ie:
    case OpId::bessel_ke:
    case OpId::lambertw: return true;
    default: return false;
  }
}

constexpr Op special_op(OpId id, const char* name, unsigned inputs) {
  // The derivatives of inverse functions read the result, and not the operand.
  const bool is_inverse = id == OpId::ndtri || id == OpId::erfcinv || id == OpId::lambertw;
  const unsigned operands = is_inverse ? 0 : (1u << inputs) - 1;
  const ValueSet reads = operands | (reads_result(id) ? ValueSet::outputs : 0);
  return {.id = id,
          .name = name,
          .infer = infer_special,
          .reads = {reads, reads},
          .jvp = jvp_special,
          .vjp = vjp_special,
          .batch = batch_elementwise};
}

}  // namespace

}  // namespace stave_detail

namespace stave {

using namespace stave_detail;

#define X(name, inputs, orders) constinit const Op op_##name = special_op(OpId::name, #name, inputs);
STAVE_SPECIAL_OPS(X)
#undef X

Tensor gammainc(Operand a, Operand x) { return special("gammainc", op_gammainc, 0, std::move(a), std::move(x)); }
Tensor gammaincc(Operand a, Operand x) { return special("gammaincc", op_gammaincc, std::move(a), std::move(x)); }
Tensor gamma_density(Operand a, Operand x) {
  return special("gamma_density", op_gamma_density, 0, std::move(a), std::move(x));
}
Tensor betainc(Operand a, Operand b, Operand x) {
  return special("betainc", op_betainc, 0, 0, std::move(a), std::move(b), std::move(x));
}
Tensor beta_density(Operand a, Operand b, Operand x) {
  return special("beta_density", op_beta_density, 0, 0, std::move(a), std::move(b), std::move(x));
}
Tensor betaln(Operand a, Operand b) { return special("betaln", op_betaln, std::move(a), std::move(b)); }
Tensor poch(Operand a, Operand m) { return special("poch", op_poch, std::move(a), std::move(m)); }
Tensor zeta_derivative(int n, Operand s, Operand q) {
  if (n < 0) fail<IndexError>("zeta_derivative: the order {} is negative", n);
  return special("zeta_derivative", op_zeta_derivative, n, std::move(s), std::move(q));
}

Tensor multigammaln(const Tensor& a, int d) {
  if (d < 1) fail<IndexError>("multigammaln: the dimension is {}: give 1 or more", d);
  return named(
      "multigammaln",
      [&] {
        // The terms are lgamma(a) or lgamma(a - 1/2), less logarithms of a - 1, a - 3/2, a - 2, ...
        constexpr double log_pi = 1.1447298858494002;
        return in_floats(
            [&](const Tensor& x) {
              Tensor value = (d + 1) / 2 * lgamma(x) + 0.25 * d * (d - 1) * log_pi;
              if (d > 1) value = value + d / 2 * lgamma(x - 0.5);
              if (d > 2) {
                const Tensor i = arange(2, d, 1, x.dtype(), x.device()), counts = floor((d + 1 - i) / 2);
                const Tensor logs = sum(counts * log(expand_dims(x, -1) - 0.5 * i), -1);
                value = value - where(isinf(x), 0, logs);
              }
              return where(x > 0.5 * (d - 1), value, std::numeric_limits<double>::quiet_NaN());
            },
            a);
      },
      a);
}

Tensor gammasgn(const Tensor& x) {
  return named(
      "gammasgn",
      [&] {
        const Tensor y = floating(x), below = floor(y), half = 0.5 * below;
        const Tensor alternating = where(half == floor(half), 1, -1);
        const Tensor left =
            where(logical_or(below == y, isinf(y)), std::numeric_limits<double>::quiet_NaN(), alternating);
        return astype(where(y > 0, 1, where(y == 0, copysign(1, y), where(isnan(y), y, left))), y.dtype());
      },
      x);
}

#define STAVE_OF_ONE(name, ...) \
  Tensor name(const Tensor& x) { return special(#name, __VA_ARGS__, x); }
STAVE_OF_ONE(ndtri, op_ndtri)
STAVE_OF_ONE(log_ndtr, op_log_ndtr)
STAVE_OF_ONE(erfcx, op_erfcx, 0)
STAVE_OF_ONE(erfcinv, op_erfcinv)
STAVE_OF_ONE(dawsn, op_dawsn, 0)
STAVE_OF_ONE(bessel_j0, op_bessel_j, 0)
STAVE_OF_ONE(bessel_j1, op_bessel_j, 1)
STAVE_OF_ONE(bessel_y0, op_bessel_y, 0)
STAVE_OF_ONE(bessel_y1, op_bessel_y, 1)
STAVE_OF_ONE(bessel_i0, op_bessel_i, 0)
STAVE_OF_ONE(bessel_i0e, op_bessel_ie, 0)
STAVE_OF_ONE(bessel_i1, op_bessel_i, 1)
STAVE_OF_ONE(bessel_i1e, op_bessel_ie, 1)
STAVE_OF_ONE(bessel_k0, op_bessel_k, 0)
STAVE_OF_ONE(bessel_k0e, op_bessel_ke, 0)
STAVE_OF_ONE(bessel_k1, op_bessel_k, 1)
STAVE_OF_ONE(bessel_k1e, op_bessel_ke, 1)
STAVE_OF_ONE(expi, op_expi)
STAVE_OF_ONE(exp1, op_expn, 1)
STAVE_OF_ONE(spence, op_spence, 0)
STAVE_OF_ONE(sinc, op_sinc, 0)
#undef STAVE_OF_ONE

Tensor bessel_jn(int n, const Tensor& x) { return special("bessel_jn", op_bessel_j, n, x); }
Tensor expn(int n, const Tensor& x) {
  if (n < 0) fail<IndexError>("expn: the order {} is negative", n);
  return special("expn", op_expn, n, x);
}
std::pair<Tensor, Tensor> fresnel(const Tensor& x) {
  return {special("fresnel", op_fresnel_s, x), special("fresnel", op_fresnel_c, x)};
}
std::pair<Tensor, Tensor> sici(const Tensor& x) {
  return {special("sici", op_sine_integral, x), special("sici", op_cosine_integral, x)};
}

Tensor hyp1f1(Operand a, Operand b, Operand x) {
  return special("hyp1f1", op_hyp1f1, std::move(a), std::move(b), std::move(x));
}
Tensor hyp2f1(Operand a, Operand b, Operand c, Operand x) {
  return special("hyp2f1", op_hyp2f1, std::move(a), std::move(b), std::move(c), std::move(x));
}

Tensor rel_entr(Operand x, Operand y) { return special("rel_entr", op_rel_entr, std::move(x), std::move(y)); }
Tensor kl_div(Operand x, Operand y) { return special("kl_div", op_kl_div, std::move(x), std::move(y)); }
Tensor lambertw(const Tensor& x, int k) {
  if (k != 0 && k != -1) fail<IndexError>("lambertw: the branch {} is not real: give 0 or -1", k);
  return special("lambertw", op_lambertw, k, x);
}

namespace {

// The sum of weights exp(x - largest), and `largest`, which has no derivative.
struct WeightedSum {
  Tensor sum, largest;

  WeightedSum(const Tensor& x, const Tensor& weights, const Axes& axes, KeepDims keep) {
    const Shape shape = broadcast_shapes(x.shape(), weights.shape(), "logsumexp");
    const Tensor terms = broadcast_to(x, shape), factors = broadcast_to(weights, shape);
    const Tensor counted = where(factors == 0, -std::numeric_limits<double>::infinity(), terms);
    const Tensor top = stop_gradient(stave::max(counted, axes, keepdims)), unit = where(isfinite(top), top, 0);
    // The exponential of a term without weight is only a derivative: it must not overflow.
    const Tensor off = terms - unit, bounded = where(factors == 0, minimum(off, 80), off);
    sum = stave::sum(scale(factors, exp(bounded)), axes, keep);
    largest = keep.value ? unit : squeeze(unit, axes.normalize(unit.rank(), "logsumexp"));
  }
};

}  // namespace

Tensor logsumexp(const Tensor& x, const Tensor& weights, const Axes& axes, KeepDims keep) {
  const auto of_floats = [&](const Tensor& y, const Tensor& w) {
    const WeightedSum total(y, w, axes, keep);
    return log(total.sum) + total.largest;
  };
  return named(
      "logsumexp", [&] { return in_floats(of_floats, x, weights); }, x, weights);
}

std::pair<Tensor, Tensor> signed_logsumexp(const Tensor& x, const Tensor& weights, const Axes& axes, KeepDims keep) {
  return named(
      "signed_logsumexp",
      [&] {
        const Dtype dtype = common_float(x, weights), computed = computed_in(dtype);
        const WeightedSum total(astype(x, computed), astype(weights, computed), axes, keep);
        return std::pair(astype(log(abs(total.sum)) + total.largest, dtype), astype(sign(total.sum), dtype));
      },
      x, weights);
}

}  // namespace stave
