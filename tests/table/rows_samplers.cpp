// Rows of draws of real numbers from distributions. The references of derivatives of gamma and von
// Mises draws hold the probability that the draw is smaller.

#include <stave/core/ops/random_samplers.h>

#include <cmath>
#include <numbers>

#include "table/draws.h"
#include "table/row.h"

namespace table {

namespace {

// ---- rows of distributions of numbers -----------------------------------------------------------

/// Parameters of one element: at the point where derivatives are taken, and near it.
struct Parameters {
  std::vector<Real> at, here;
};

struct Distribution {
  std::string name;
  std::vector<Domain> domains;
  std::function<Tensor(const Key&, std::span<const Tensor>, const Shape&)> call;
  // Element i of a draw with numbers of a dtype.
  std::function<Real(Words, std::uint32_t i, const Parameters&, Dtype)> number;
  Real accuracy = 64;
};

/// The reference of a distribution for parameters that broadcast to a shape.
Arrays reference_of(const Distribution& d, const Shape& shape, Dtype dtype, std::span<const Array> at,
                    std::span<const Array> here) {
  std::uint32_t i = 0;
  Array y = make(dtype, shape, [&](const Shape& p) {
    Parameters parameters;
    for (std::size_t k = 1; k < here.size(); ++k) {
      parameters.at.push_back(at[k](broadcast_position(at[k].shape, p)));
      parameters.here.push_back(here[k](broadcast_position(here[k].shape, p)));
    }
    return d.number(key_of(here[0]), i++, parameters, drawn_in(dtype));
  });
  for (Real value : y.values) y.magnitude.push_back(std::max<Real>(1, std::abs(value)));
  return {y};
}

Variant drawn(const Distribution& d, Dtype dtype, const std::vector<Shape>& shapes, const Shape& shape,
              const Shape& result) {
  Variant variant{.name = shape.str() + " of " + result.str(), .inputs = {{uint32, {2}, {0, 4294967295.0}}}};
  for (std::size_t i = 0; i < shapes.size(); ++i) variant.inputs.push_back({dtype, shapes[i], d.domains[i]});
  variant.call = [=](auto xs) { return Outputs(d.call(Key(xs[0]), xs.subspan(1), shape)); };
  variant.reference = [=](auto xs) { return reference_of(d, result, dtype, xs, xs); };
  variant.smooth = [=](auto at, auto xs) { return reference_of(d, result, dtype, at, xs); };
  return variant;
}

std::vector<Variant> variants_of(const Distribution& d, Dtype dtype) {
  const std::size_t n = d.domains.size();
  std::vector<Variant> variants;
  variants.push_back(drawn(d, dtype, std::vector<Shape>(n, {2, 3}), {}, {2, 3}));
  variants.push_back(drawn(d, dtype, std::vector<Shape>(n, {3}), {2, 3}, {2, 3}));
  variants.push_back(drawn(d, dtype, std::vector<Shape>(n, {0, 2}), {}, {0, 2}));
  variants.push_back(drawn(d, dtype, std::vector<Shape>(n, Shape()), {}, {}));
  Variant arrays = drawn(d, dtype, std::vector<Shape>(n, {3}), {2}, {2});
  arrays.refusal = "which does not broadcast to [2]";
  variants.push_back(arrays);
  return with_bad_keys(std::move(variants));
}

#define PARAMETERS [](const Key& key, std::span<const Tensor> x, const Shape& shape)
#define NUMBER(...)                                                          \
  [](Words key, std::uint32_t i, const Parameters& p, Dtype dtype) -> Real { \
    const std::vector<Real>&a = p.here, &at = p.at;                          \
    (void)key, (void)i, (void)a, (void)at, (void)dtype;                      \
    return __VA_ARGS__;                                                      \
  }

Real wald_number(Words key, std::uint32_t i, Real m, Dtype dtype) {
  const Real v = normal_number(child(key, 0), i, dtype), y = m * v * v;
  const Real x = m * (1 + (y - std::sqrt(4 * y + y * y)) / 2);
  return unit(child(key, 1), i, dtype) <= m / (m + x) ? x : m * m / x;
}
Real triangular_number(Words key, std::uint32_t i, Real l, Real m, Real r, Dtype dtype) {
  const Real u = unit(key, i, dtype), width = r - l;
  return u < (m - l) / width ? l + std::sqrt(u * width * (m - l)) : r - std::sqrt((1 - u) * width * (r - m));
}
Real truncated_number(Words key, std::uint32_t i, Real low, Real high, Dtype dtype) {
  const Real root = std::numbers::sqrt2_v<Real>, a = std::erf(low / root), b = std::erf(high / root);
  return root * erfinv_reference(unit(key, i, dtype) * (b - a) + a);
}
Real logit_of_beta(Words key, std::uint32_t i, const Parameters& p, Dtype dtype) {
  const Real x = gamma_number(child(key, 0), i, p.at[0], p.here[0], dtype);
  const Real y = gamma_number(child(key, 1), i, p.at[1], p.here[1], dtype);
  return x / (x + y);
}

const std::vector<Distribution>& distributions() {
  static const std::vector<Distribution> all = {{"lognormal", {positive}, PARAMETERS{return lognormal(key, x[0], shape);
}
, NUMBER(std::exp(normal_number(key, i, dtype) * a[0])), 256
}  // namespace
, {"rayleigh", {positive}, PARAMETERS{return rayleigh(key, x[0], shape);
}  // namespace table
, NUMBER(a[0] * std::sqrt(-2 * std::log(unit(key, i, dtype))))
}
, {"pareto", {positive}, PARAMETERS{return pareto(key, x[0], shape);
}
, NUMBER(std::exp(exponential_number(key, i, dtype) / a[0])), 256
}
, {"weibull_min", {positive, positive}, PARAMETERS{return weibull_min(key, x[0], x[1], shape);
}
, NUMBER(a[0] * std::pow(exponential_number(key, i, dtype), 1 / a[1])), 256
}
, {"triangular", {{-2, -1}, {-0.5, 0.5}, {1, 2}}, PARAMETERS{return triangular(key, x[0], x[1], x[2], shape);
}
, NUMBER(triangular_number(key, i, a[0], a[1], a[2], dtype))
}
, {"wald", {positive}, PARAMETERS{return wald(key, x[0], shape);
}
, NUMBER(wald_number(key, i, a[0], dtype))
}
, {"double_sided_maxwell", {{-2, 2}, positive}, PARAMETERS{return double_sided_maxwell(key, x[0], x[1], shape);
}
, NUMBER(sign_number(child(key, 1), i, dtype) * maxwell_number(child(key, 0), i, dtype) * a[1] + a[0])
}
, {"truncated_normal", {{-2, -0.5}, {0.5, 2}}, PARAMETERS{return truncated_normal(key, x[0], x[1], shape);
}
, NUMBER(truncated_number(key, i, a[0], a[1], dtype)), 256
}
, {"generalized_normal", {positive}, PARAMETERS{return generalized_normal(key, x[0], shape);
}
,
    NUMBER(sign_number(child(key, 1), i, dtype) *
           std::pow(gamma_number(child(key, 0), i, 1 / at[0], 1 / a[0], dtype), 1 / a[0])),
    256
}
, {"gamma", {positive}, PARAMETERS{return gamma(key, x[0], shape);
}
, NUMBER(gamma_number(key, i, at[0], a[0], dtype))
}
, {"loggamma", {positive}, PARAMETERS{return loggamma(key, x[0], shape);
}
, NUMBER(std::log(gamma_number(key, i, at[0], a[0], dtype)))
}
, {"beta", {positive, positive}, PARAMETERS{return beta(key, x[0], x[1], shape);
}
, NUMBER(logit_of_beta(key, i, p, dtype))
}
, {"chisquare", {positive}, PARAMETERS{return chisquare(key, x[0], shape);
}
, NUMBER(2 * gamma_number(key, i, at[0] / 2, a[0] / 2, dtype))
}
, {"f_distribution", {positive, {3, 8}}, PARAMETERS{return f_distribution(key, x[0], x[1], shape);
}
,
    NUMBER(gamma_number(child(key, 1), i, at[0] / 2, a[0] / 2, dtype) / a[0] /
           (gamma_number(child(key, 0), i, at[1] / 2, a[1] / 2, dtype) / a[1])),
    256
}
, {"student_t", {{1, 6}}, PARAMETERS{return student_t(key, x[0], shape);
}
,
    NUMBER(normal_number(child(key, 0), i, dtype) *
           std::sqrt(a[0] / 2 / gamma_number(child(key, 1), i, at[0] / 2, a[0] / 2, dtype))),
    256
}
, {"von_mises", {{-0.5, 0.5}, {4, 9}}, PARAMETERS{return von_mises(key, x[0], x[1], shape);
}
, NUMBER(a[0] + von_mises_number(key, i, at[1], a[1]))
}
,
}
;
return all;
}

// ---- rows without parameters --------------------------------------------------------------------

struct Plain {
  std::string name;
  std::function<Tensor(const Key&, const Shape&, Dtype)> call;
  std::function<Real(Words, std::uint32_t i, Dtype)> number;
  std::function<Real(Real)> magnitude = [](Real y) { return std::max<Real>(1, std::abs(y)); };
};

std::vector<Variant> variants_of(const Plain& plain, Dtype dtype) {
  std::vector<Variant> variants;
  const Input key{uint32, {2}, {0, 4294967295.0}};
  for (const Shape& shape : {Shape(2, 3), Shape(5), Shape(), Shape(0, 3)})
    variants.push_back({.name = shape.str(),
                        .inputs = {key},
                        .call = [=](auto xs) { return Outputs(plain.call(Key(xs[0]), shape, dtype)); },
                        .reference =
                            [=](auto xs) {
                              Array y = counted(dtype, shape, [&](std::uint32_t i) {
                                return plain.number(key_of(xs[0]), i, drawn_in(dtype));
                              });
                              for (Real value : y.values) y.magnitude.push_back(plain.magnitude(value));
                              return Arrays{y};
                            },
                        .differentiable = false});
  return with_bad_keys(std::move(variants));
}

Real logistic_number(Words key, std::uint32_t i, Dtype dtype) {
  const Real u = uniform_number(key, i, std::ldexp(Real(1), float_shape(dtype).least), 1, dtype);
  return std::log(u) - std::log1p(-u);
}
Real laplace_number(Words key, std::uint32_t i, Dtype dtype) {
  const Real u = uniform_number(key, i, std::ldexp(Real(1), -float_shape(dtype).digits) - 1, 1, dtype);
  return std::copysign(std::log1p(-std::abs(u)), -u);
}
Real cauchy_number(Words key, std::uint32_t i, Dtype dtype) {
  const Real u = uniform_number(key, i, std::ldexp(Real(1), 1 - float_shape(dtype).digits), 1, dtype);
  return std::tan(pi * (u - 0.5L));
}

const std::vector<Plain>& plain_distributions() {
  static const std::vector<Plain> all = {
      {"exponential", exponential, exponential_number},
      {"laplace", laplace, laplace_number},
      {"logistic", logistic, logistic_number},
      {"cauchy", cauchy, cauchy_number, [](Real y) { return 1 + y * y; }},
      {"maxwell", maxwell, maxwell_number},
  };
  return all;
}

}  // namespace

void add_sampler_rows(std::vector<Row>& rows) {
  for (const Plain& plain : plain_distributions())
    rows.push_back({.name = plain.name,
                    .dtypes = float_dtypes,
                    .variants = [&plain](Dtype dtype) { return variants_of(plain, dtype); },
                    .accuracy = 16});
  const Plain signs{"rademacher", [](const Key& key, const Shape& shape, Dtype d) { return rademacher(key, shape, d); },
                    sign_number};
  rows.push_back({.name = "rademacher",
                  .dtypes = {float16, bfloat16, float32, float64, int8, int16, int32, int64},
                  .variants = [signs](Dtype dtype) { return variants_of(signs, dtype); }});
  for (const Distribution& d : distributions())
    rows.push_back({.name = d.name,
                    .dtypes = float_dtypes,
                    .variants = [&d](Dtype dtype) { return variants_of(d, dtype); },
                    .accuracy = d.accuracy});
}

}  // namespace table
