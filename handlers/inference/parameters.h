// Helpers of the .cpp files of distributions: functions of parameters in their common dtype.
#pragma once

#include <concepts>
#include <limits>
#include <numbers>

#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/random.h>
#include <stave/handlers/inference/number_or_tensor.h>

namespace stave_detail {

using namespace stave;

inline constexpr double infinity = std::numeric_limits<double>::infinity();
inline constexpr double log_pi = 1.1447298858494001741, log_root_2_pi = 0.91893853320467274178;

/// Returns f(x, parameters...), computed in the common dtype of x and the parameters; float16 and
/// bfloat16 are computed in float32.
template <class F, std::same_as<NumberOrTensor>... P>
Tensor function_of(const Tensor& x, F f, const P&... parameters) {
  const Dtype dtype = common_float(x, parameters.tensor()...), computed = computed_in(dtype);
  return astype(f(astype(x, computed), parameters.in(computed, x.device())...), dtype);
}

/// Returns the logarithm of a probability, given the probability and its complement. It is accurate
/// also near 1.
inline Tensor log_of_probability(const Tensor& p, const Tensor& complement) {
  const Tensor is_small = p < 0.5;
  return where(is_small, log(where(is_small, p, 1)), log1p(-where(is_small, 0, complement)));
}
template <class Cdf, class Sf, std::same_as<NumberOrTensor>... P>
Tensor log_cdf_of(const Tensor& x, Cdf cdf, Sf sf, const P&... parameters) {
  const auto f = [&](const Tensor& y, const auto&... p) { return log_of_probability(cdf(y, p...), sf(y, p...)); };
  return function_of(x, f, parameters...);
}

/// Returns the broadcast shape of the parameters.
template <std::same_as<NumberOrTensor>... P>
Shape common_shape(const P&... parameters) {
  Shape shape;
  ((shape = broadcast_shapes(shape, parameters.shape(), "a distribution's parameters")), ...);
  return shape;
}

/// Returns f(parameters...), computed as in function_of, and broadcast to the shape of all
/// parameters.
template <class F, std::same_as<NumberOrTensor>... P>
Tensor moment_of(F f, const P&... parameters) {
  const Dtype dtype = common_float(parameters.tensor()...), computed = computed_in(dtype);
  Device device = cpu;
  ((device = parameters.is_number() ? device : parameters.tensor().device()), ...);
  return broadcast_to(astype(f(parameters.in(computed, device)...), dtype), common_shape(parameters...));
}

/// Returns f(shape, dtype, parameters...), where `shape` is followed by the broadcast shape of the
/// parameters. f makes the draw.
template <class F, std::same_as<NumberOrTensor>... P>
Tensor draw_as_computed(const Key& key, const Shape& shape, F f, const P&... parameters) {
  const Dtype computed_dtype = computed_in(common_float(parameters.tensor()...));
  const Shape beside = common_shape(parameters...);
  Shape all = shape;
  all.append(beside.begin(), beside.end());
  return f(all, computed_dtype, parameters.in(computed_dtype, key.data().device())...);
}
/// The same, rounded to the common dtype of the parameters.
template <class F, std::same_as<NumberOrTensor>... P>
Tensor draw(const Key& key, const Shape& shape, F f, const P&... parameters) {
  return astype(draw_as_computed(key, shape, f, parameters...), common_float(parameters.tensor()...));
}

/// Returns log_density where `inside` holds, else -infinity.
inline Tensor where_inside(const Tensor& inside, const Tensor& log_density) {
  return where(inside, log_density, -infinity);
}
/// Returns f(x) for x >= low, else `outside`. f is computed at `safe` elsewhere.
template <class F>
Tensor from_low(const Tensor& x, const Operand& low, const Operand& safe, double outside, F f) {
  const Tensor below = x < low;
  return where(below, outside, f(where(below, safe, x)));
}
inline Tensor number_like(double value, const Tensor& like) { return full({}, value, like.dtype(), like.device()); }

/// Returns log(1 - e^x) for x <= 0.
Tensor log1m_exp(const Tensor& x);

// The inverses of gammainc, betainc and the cdf of Student's t with respect to the probability p.
// They take any real dtype and are computed in float64. They have derivatives of any order with
// respect to all arguments.

/// Returns the logarithm of the x at which gammainc(a, x) is p, where q is 1 - p.
Tensor log_gamma_quantile(const Tensor& a, const Tensor& p, const Tensor& q);
/// Returns logit(x) for the x at which betainc(a, b, x) is p, where q is 1 - p.
Tensor logit_beta_quantile(const Tensor& a, const Tensor& b, const Tensor& p, const Tensor& q);
Tensor student_quantile(const Tensor& degrees, const Tensor& p);
/// Returns the cdf of Student's t with location 0 and scale 1.
Tensor student_cdf(const Tensor& t, const Tensor& degrees);
Tensor student_log_density(const Tensor& t, const Tensor& degrees);

}  // namespace stave_detail

/// Defines cdf, sf and log_cdf of the distribution `name` by functions of x and the parameters.
#define STAVE_DEFINE_PROBABILITIES(name, cdf_function, sf_function, ...)                        \
  Tensor name::cdf(const Tensor& x) const { return function_of(x, cdf_function, __VA_ARGS__); } \
  Tensor name::sf(const Tensor& x) const { return function_of(x, sf_function, __VA_ARGS__); }   \
  Tensor name::log_cdf(const Tensor& x) const { return log_cdf_of(x, cdf_function, sf_function, __VA_ARGS__); }
