// Records of the samplers that reject proposals, with their derivatives, and the functions that
// perform one of them.
//
// Input 0 are keys [batch..., 2]; parameters and result are [batch..., shape...]. Each gamma, von
// Mises or hypergeometric draw has a key of its own, row i of split(key, n). The Poisson and
// binomial draws of an array share keys, as in jax.random.

#include <stave/core/ops/random_samplers.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include <stave/core/ops/layout.h>
#include <stave/core/ops/random_frontend.h>
#include <stave/core/ops/reduce.h>
#include <stave/core/ops/special.h>
#include <stave/core/ops/transfer.h>

namespace stave_detail {

void require_one_key(const Key& key, const char* function) {
  if (key.data().rank() != 1) fail<ShapeError>("{}: an array of keys {}: vmap over it", function, key.data().shape());
}

Shape together(std::span<const Operand> parameters, const char* function) {
  Shape shape;
  for (const Operand& x : parameters)
    if (!x.is_scalar()) shape = broadcast_shapes(shape, x.tensor().shape(), function);
  return shape;
}

Shape drawn_shape(const Shape& of_parameters, const Shape& shape, const char* function) {
  for (Index length : shape)
    if (length < 0) fail<ShapeError>("{}: shape {} has a negative length", function, shape);
  if (shape.empty()) return of_parameters;
  bool fits = of_parameters.rank() <= shape.rank();
  for (std::size_t i = 1; fits && i <= of_parameters.size(); ++i) {
    const Index length = of_parameters[of_parameters.size() - i];
    fits = length == 1 || length == shape[shape.size() - i];
  }
  if (!fits)
    fail<ShapeError>("{}: the parameters have shape {}, which does not broadcast to {}", function, of_parameters,
                     shape);
  return shape;
}

Dtype drawn_dtype(std::span<const Operand> parameters) {
  const Dtype dtype = dtype_of_all(parameters);
  if (is_complex(dtype)) throw_complex(dtype);
  return is_float(dtype) ? dtype : default_dtype();
}

Drawing drawing_of(const char* function, const Key& key, const Shape& shape, std::span<Operand> parameters) {
  require_one_key(key, function);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    Operand& x = parameters[i];
    if (x.is_scalar()) continue;
    require_defined(x.tensor(), function, i + 1);
    if (!x.owns()) x = x.tensor();  // a handler may assign to the caller's variable
  }
  const Dtype dtype = drawn_dtype(parameters);
  return {drawn_shape(together(parameters, function), shape, function), dtype, computed_in(dtype), key.data().device()};
}

void require_float(Dtype dtype, const char* function) {
  if (!is_float(dtype))
    fail<DtypeError>("{}: {} is not a floating dtype: draw floats and convert with astype", function, dtype);
}

namespace {

// ---- inference ----------------------------------------------------------------------------------

// Throws unless the parameters have one shape, which begins with the batch axes of the keys.
void check_parameters(const Call& call) {
  const Tensor& keys = call.input(0);
  const Shape& shape = call.input(1).shape();
  const auto batch = static_cast<std::size_t>(std::max(0, keys.rank() - 1));
  if (keys.dtype() != uint32 || keys.rank() == 0 || keys.shape(-1) != 2 || shape.size() < batch ||
      !std::equal(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(batch), keys.shape().begin()))
    fail<ShapeError>("{}: keys {} {} do not fit parameters of shape {}", call.op().name, keys.dtype(), keys.shape(),
                     shape);
  for (const Tensor& x : call.inputs().subspan(1))
    if (x.shape() != shape || (x.dtype() != float32 && x.dtype() != float64))
      fail<ShapeError>("{}: parameters {} {} and {} {} must have one shape and be float32 or float64 here",
                       call.op().name, call.input(1).dtype(), shape, x.dtype(), x.shape());
}
void infer_floats(const Call& call, SmallVector<Abstract, 1>& outputs) {
  check_parameters(call);
  outputs.emplace_back(call.input(1).shape(), call.input(1).dtype());
}
void infer_counts(const Call& call, SmallVector<Abstract, 1>& outputs) {
  check_parameters(call);
  outputs.emplace_back(call.input(1).shape(), int32);
}

// ---- derivatives of gamma draws -----------------------------------------------------------------
// With P(a, x) constant, dx/da = -(dP/da) / (dP/dx), where P is gammainc.

// -(dP/da) / (dP/dx)
Tensor gamma_slope(const Tensor& a, const Tensor& x) {
  return -apply(op_gammainc, {ones_like(a), a, x}) / gamma_density(a, x);
}

// The derivative of a draw l of loggamma with respect to a. For small x = e^l, P = x^a / Gamma(a +
// 1), and l has the derivative (digamma(a + 1) - l) / a.
Tensor log_gamma_slope(const Tensor& a, const Tensor& l) {
  const Tensor is_small = l < -40, x = exp(where(is_small, 0, l));
  return where(is_small, (digamma(a + 1) - l) / a, gamma_slope(a, x) / x);
}

// The derivative of a draw x of gamma with respect to a.
Tensor linear_gamma_slope(const Tensor& a, const Tensor& x) {
  const Tensor is_small = x < 0x1p-60, inside = where(is_small, 1, x), tiny = where(x > 0 && is_small, x, 1);
  const Tensor small = where(x > 0, tiny * (digamma(a + 1) - log(tiny)) / a, 0);
  return where(is_small, small, gamma_slope(a, inside));
}

// ---- the derivative of von Mises draws ----------------------------------------------------------
// Let A = I_1(k) / I_0(k) be the mean of cos. With the distribution function constant, the
// derivative of a draw x > 0 with respect to k is -(integral of (cos t - A) exp(k (cos t - cos x))
// over 0 < t < x). That is also the same integral over x < t < pi. The first integral is used where
// the integrand is positive, so cos t > A, and the second one where it is negative. So neither
// cancels.

constexpr Index node_count = 32;

// The nodes and weights of Gauss and Legendre's rule on [0, 1]: roots of a Legendre polynomial, by
// Newton's method.
std::pair<std::vector<double>, std::vector<double>> legendre_rule() {
  constexpr auto n = static_cast<int>(node_count);
  std::vector<double> nodes, weights;
  for (int i = 0; i < n; ++i) {
    double x = std::cos(std::numbers::pi * (i + 0.75) / (n + 0.5)), slope = 1;
    for (int step = 0; step < 8; ++step) {
      double p = 1, before = 0;
      for (int k = 1; k <= n; ++k) before = std::exchange(p, ((2 * k - 1) * x * p - (k - 1) * before) / k);
      slope = n * (x * p - before) / (x * x - 1);
      x -= p / slope;
    }
    nodes.push_back(0.5 * (1 + x));
    weights.push_back(1 / ((1 - x * x) * slope * slope));
  }
  return {nodes, weights};
}

// The integral of f from low to high, element by element. f takes nodes [..., 32].
template <class F>
Tensor integral(const Tensor& low, const Tensor& high, F f) {
  static const auto rule = legendre_rule();
  const Device device = low.device();
  const Tensor length = expand_dims(high - low, -1), nodes = from(rule.first, device);
  return sum(f(expand_dims(low, -1) + length * nodes) * (length * from(rule.second, device)), -1);
}

// 1 - cos t = 2 sin(t / 2)^2
Tensor versine(const Tensor& t) { return 2 * square(sin(0.5 * t)); }

// 1 - A: the mean of 1 - cos t with weights exp(k (cos t - 1)).
Tensor mean_versine(const Tensor& k) {
  const Tensor end = minimum(12 / sqrt(maximum(stop_gradient(k), 1)), std::numbers::pi), zero = zeros_like(end);
  const Tensor per_node = expand_dims(k, -1);
  const auto weight = [&](const Tensor& t) { return exp(-per_node * versine(t)); };
  return integral(zero, end, [&](const Tensor& t) { return versine(t) * weight(t); }) / integral(zero, end, weight);
}

Tensor von_mises_slope_in_double(const Tensor& k, const Tensor& x) {
  const Tensor s = abs(x), center = mean_versine(k), is_inner = stop_gradient(versine(s) < center);
  const Tensor k_of_node = expand_dims(k, -1), center_of_node = expand_dims(center, -1);
  // (cos t - A) exp(k (cos t - cos s)), where cos t - cos s = 2 sin((s - t) / 2) sin((s + t) / 2)
  const auto integrand = [&](const Tensor& angle) {
    const Tensor off = expand_dims(angle, -1);
    return [=](const Tensor& t) {
      const Tensor power = 2 * k_of_node * sin(0.5 * (off - t)) * sin(0.5 * (off + t));
      return (center_of_node - versine(t)) * exp(power);
    };
  };
  const Tensor inner = where(is_inner, s, 0), outer = where(is_inner, std::numbers::pi, s);
  const Tensor reach = sqrt(square(outer) + 200 / maximum(k, 1)), end = stop_gradient(minimum(reach, std::numbers::pi));
  const Tensor below = -integral(zeros_like(s), inner, integrand(inner));
  return sign(x) * where(is_inner, below, integral(outer, end, integrand(outer)));
}

Tensor von_mises_slope(const Tensor& k, const Tensor& x) {
  return astype(von_mises_slope_in_double(astype(k, float64), astype(x, float64)), k.dtype());
}

// ---- rules --------------------------------------------------------------------------------------

// Returns the derivative of a draw y with respect to its parameter.
Tensor slope(OpId id, const Tensor& parameter, const Tensor& y) {
  switch (id) {
    case OpId::random_gamma: return linear_gamma_slope(parameter, y);
    case OpId::random_loggamma: return log_gamma_slope(parameter, y);
    default: return von_mises_slope(parameter, y);
  }
}
Outputs jvp_draw(const JvpContext& c) { return scale(c.tangent(1), slope(c.call.op().id, c.in(1), c.out())); }
Tensor vjp_draw(const VjpContext& c, int) { return scale(c.ct(), slope(c.op.id, c.in(1), c.out())); }

constexpr Op float_sampler(OpId id, const char* name) {
  const ValueSet reads = 0b10 | ValueSet::outputs;
  return {.id = id,
          .name = name,
          .infer = infer_floats,
          .reads = {reads, reads},
          .jvp = jvp_draw,
          .vjp = vjp_draw,
          .batch = batch_elementwise};
}
constexpr Op count_sampler(OpId id, const char* name) {
  return {.id = id, .name = name, .infer = infer_counts, .derivative = Derivative::zero, .batch = batch_elementwise};
}

// Performs the operation on a key and on parameters of one shape, which are moved to the CPU for it
// if they are elsewhere.
Tensor sampled(const Op& op, Inputs inputs) {
  const Device device = inputs[0].device();
  if (device == cpu) return apply(op, std::move(inputs));
  for (Tensor& input : inputs) input = to(input, cpu);
  return to(apply(op, std::move(inputs)), device);
}
template <std::same_as<Tensor>... P>
Tensor sampled(const Op& op, const Key& key, const P&... parameters) {
  return sampled(op, {key.data(), parameters...});
}

// Draws counts by an operation whose last parameter has the computed dtype if `is_last_rounded`.
// All other ones are float64.
template <std::same_as<Operand>... P>
Tensor counted(const char* function, const Op& op, bool is_last_rounded, const Key& key, const Shape& shape,
               P... parameters) {
  return named(function, [&] {
    Operand all[] = {std::move(parameters)...};
    const Drawing d = drawing_of(function, key, shape, all);
    Inputs inputs{key.data()};
    for (Operand& x : all) {
      const Dtype dtype = is_last_rounded && &x == std::end(all) - 1 ? d.computed : float64;
      inputs.push_back(as_tensor(std::move(x), dtype, &d.shape, d.device));
    }
    return sampled(op, std::move(inputs));
  });
}

}  // namespace

}  // namespace stave_detail

namespace stave {

using namespace stave_detail;

constinit const Op op_random_gamma = float_sampler(OpId::random_gamma, "random_gamma");
constinit const Op op_random_loggamma = float_sampler(OpId::random_loggamma, "random_loggamma");
constinit const Op op_random_von_mises = float_sampler(OpId::random_von_mises, "random_von_mises");
constinit const Op op_random_poisson = count_sampler(OpId::random_poisson, "random_poisson");
constinit const Op op_random_binomial = count_sampler(OpId::random_binomial, "random_binomial");
constinit const Op op_random_hypergeometric = count_sampler(OpId::random_hypergeometric, "random_hypergeometric");

Tensor gamma(const Key& key, Operand concentration, const Shape& shape) {
  const auto draw = [&](const Drawing&, const Tensor& a) { return sampled(op_random_gamma, key, a); };
  return drawn("gamma", key, shape, draw, std::move(concentration));
}

Tensor loggamma(const Key& key, Operand concentration, const Shape& shape) {
  const auto draw = [&](const Drawing&, const Tensor& a) { return sampled(op_random_loggamma, key, a); };
  return drawn("loggamma", key, shape, draw, std::move(concentration));
}

Tensor von_mises(const Key& key, Operand location, Operand concentration, const Shape& shape) {
  const auto draw = [&](const Drawing&, const Tensor& center, const Tensor& k) {
    constexpr double pi = std::numbers::pi;
    const Tensor turned = center + sampled(op_random_von_mises, key, k);
    return turned - 2 * pi * round(stop_gradient(turned) / (2 * pi));
  };
  return drawn("von_mises", key, shape, draw, std::move(location), std::move(concentration));
}

Tensor poisson(const Key& key, Operand rate, const Shape& shape) {
  return counted("poisson", op_random_poisson, false, key, shape, std::move(rate));
}

// Uniform numbers are those of the parameters' dtype. The number of trials is not rounded to it.
Tensor binomial(const Key& key, Operand n, Operand p, const Shape& shape) {
  return counted("binomial", op_random_binomial, true, key, shape, std::move(n), std::move(p));
}

Tensor hypergeometric(const Key& key, Operand good, Operand bad, Operand drawn, const Shape& shape) {
  return counted("hypergeometric", op_random_hypergeometric, false, key, shape, std::move(good), std::move(bad),
                 std::move(drawn));
}

}  // namespace stave
