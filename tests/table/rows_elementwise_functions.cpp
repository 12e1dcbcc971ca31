// Rows of elementwise functions that are composed of operations. References are those of <cmath>
// and <numeric>.

#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/elementwise_functions.h>

#include <cmath>
#include <numbers>
#include <numeric>

#include "table/reference.h"
#include "table/row.h"

namespace table {

namespace {

using RealFunction = std::function<Real(Real)>;
using RealFunctions = std::vector<std::function<Real(Real, Real)>>;
using OfOperands = std::function<Outputs(const Tensor&, const Tensor&)>;

// Variants of a function of one operand, whose results are f[k](x near at, x).
std::vector<Variant> of_one(Dtype dtype, const std::vector<Dtype>& results, const Domain& domain,
                            const std::function<Outputs(const Tensor&)>& call, const RealFunctions& formulas,
                            Real size = 0) {
  const auto reference = [=](const Array& at, const Array& x) {
    Arrays arrays;
    for (std::size_t k = 0; k < results.size(); ++k) {
      arrays.push_back(mapped(results[k], at, x, formulas[k]));
      if (size != 0) arrays.back() = sized(arrays.back(), size);
    }
    return arrays;
  };
  std::vector<Variant> variants;
  for (const Shape& shape : {Shape(2, 3), Shape(5), Shape(0, 2), Shape()})
    variants.push_back({.name = shape.str(),
                        .inputs = {{dtype, shape, domain}},
                        .call = [=](auto xs) { return call(xs[0]); },
                        .reference = [=](auto xs) { return reference(xs[0], xs[0]); },
                        .smooth = [=](auto at, auto xs) { return reference(at[0], xs[0]); }});
  return variants;
}

// Variants of a function of two operands.
std::vector<Variant> of_two(Dtype dtype, Dtype second, const std::vector<Dtype>& results, const Domain& first_domain,
                            const Domain& second_domain, const OfOperands& call, const RealFunctions& formulas,
                            bool differentiable = true, Real size = 0) {
  std::vector<Variant> variants;
  const std::vector<std::pair<Shape, Shape>> shapes = {
      {{2, 3}, {2, 3}}, {{2, 3}, {3}}, {{5}, {5}}, {{0, 2}, {0, 2}}, {{}, {}}};
  for (const auto& [a, b] : shapes)
    variants.push_back({.name = a.str() + " " + b.str(),
                        .inputs = {{dtype, a, first_domain}, {second, b, second_domain}},
                        .call = [=](auto xs) { return call(xs[0], xs[1]); },
                        .reference =
                            [=](auto xs) {
                              Arrays arrays;
                              for (std::size_t k = 0; k < results.size(); ++k) {
                                arrays.push_back(mapped(results[k], xs[0], xs[1], formulas[k]));
                                if (size != 0) arrays.back() = sized(arrays.back(), size);
                              }
                              return arrays;
                            },
                        .differentiable = differentiable});
  return variants;
}

Variant special(Variant variant) {
  variant.name += " special values";
  variant.differentiable = false;
  for (Input& input : variant.inputs) {
    input.domain = {.choices = special_values};
    input.differentiable = false;
  }
  return variant;
}

// The exponent e of x = m 2^e with 1/2 <= |m| < 1.
int exponent_of(Real x) {
  int e = 0;
  std::frexp(x, &e);
  return std::isfinite(x) ? e : 0;
}

std::vector<Variant> of_extreme(Dtype dtype, Tensor (*f)(Operand, Operand), Real (*formula)(Real, Real)) {
  std::vector<Variant> variants = of_two(dtype, dtype, {as_number(dtype)}, {}, {},
                                         [f](const Tensor& a, const Tensor& b) { return Outputs{f(a, b)}; }, {formula});
  if (is_float(dtype)) variants.push_back(special(variants[0]));
  return variants;
}

}  // namespace

void add_elementwise_function_rows(std::vector<Row>& rows) {
  rows.push_back({.name = "positive",
                  .dtypes = all_dtypes,
                  .variants =
                      [](Dtype dtype) {
                        return of_one(dtype, {as_number(dtype)}, {},
                                      [](const Tensor& x) { return Outputs{stave::positive(x)}; },
                                      {[](Real, Real x) { return x; }});
                      },
                  .accuracy = 0});
  rows.push_back(
      {.name = "fmax",
       .dtypes = all_dtypes,
       .variants =
           [](Dtype dtype) { return of_extreme(dtype, stave::fmax, [](Real a, Real b) { return std::fmax(a, b); }); },
       .accuracy = 0});
  rows.push_back(
      {.name = "fmin",
       .dtypes = all_dtypes,
       .variants =
           [](Dtype dtype) { return of_extreme(dtype, stave::fmin, [](Real a, Real b) { return std::fmin(a, b); }); },
       .accuracy = 0});
  rows.push_back({.name = "heaviside",
                  .dtypes = all_dtypes,
                  .variants =
                      [](Dtype dtype) {
                        return of_two(
                            dtype, dtype, {as_float(dtype)}, {.choices = {-2, 0, 1}}, {},
                            [](const Tensor& x, const Tensor& y) { return Outputs{heaviside(stop_gradient(x), y)}; },
                            {[](Real x, Real y) -> Real { return x < -1     ? 0
                                                                 : x > 0.5L ? 1
                                                                            : y; }});
                      },
                  .accuracy = 0,
                  .no_derivative = {{0, "piecewise constant"}}});
  rows.push_back(
      {.name = "divmod", .dtypes = {float32, float64, int8, uint8, int32, int64}, .variants = [](Dtype dtype) {
         return of_two(
             dtype, dtype, {dtype, dtype}, {-12, 12}, {1.3, 5},
             [](const Tensor& a, const Tensor& b) {
               const auto [quotient, rest] = divmod(a, b);
               return Outputs{quotient, rest};
             },
             {[](Real a, Real b) { return std::floor(a / b); },
              [](Real a, Real b) { return a - std::floor(a / b) * b; }},
             true, 16);
       }});
  rows.push_back({.name = "float_power", .dtypes = {float32, float64, int32}, .variants = [](Dtype dtype) {
                    return of_two(dtype, dtype, {float64}, {1, 3}, {0.5, 3},
                                  [](const Tensor& a, const Tensor& b) { return Outputs{float_power(a, b)}; },
                                  {[](Real a, Real b) { return std::pow(a, b); }});
                  }});
  for (const bool multiple : {false, true})
    rows.push_back(
        {.name = multiple ? "lcm" : "gcd",
         .dtypes = integer_dtypes,
         .variants =
             [=](Dtype dtype) {
               return of_two(
                   dtype, dtype, {dtype}, {-11, 11}, {-11, 11},
                   [=](const Tensor& a, const Tensor& b) { return Outputs{multiple ? lcm(a, b) : gcd(a, b)}; },
                   {[=](Real a, Real b) -> Real {
                     const auto m = static_cast<Index>(a), n = static_cast<Index>(b);
                     return static_cast<Real>(multiple ? std::lcm(m, n) : std::gcd(m, n));
                   }},
                   false);
             },
         .accuracy = 0});
  rows.push_back({.name = "ldexp",
                  .dtypes = float_dtypes,
                  .variants =
                      [](Dtype dtype) {
                        return of_two(dtype, int32, {dtype}, {}, {-3, 3},
                                      [](const Tensor& x, const Tensor& e) { return Outputs{ldexp(x, e)}; },
                                      {[](Real x, Real e) { return std::ldexp(x, static_cast<int>(e)); }});
                      },
                  .accuracy = 0});
  rows.push_back({.name = "frexp",
                  .dtypes = float_dtypes,
                  .variants =
                      [](Dtype dtype) {
                        std::vector<Variant> variants =
                            of_one(dtype, {dtype}, {-6, 6}, [](const Tensor& x) { return Outputs{frexp(x).first}; },
                                   {[](Real at, Real x) { return std::ldexp(x, -exponent_of(at)); }});
                        for (Variant& variant :
                             of_one(dtype, {int32}, {-6, 6}, [](const Tensor& x) { return Outputs{frexp(x).second}; },
                                    {[](Real at, Real) -> Real { return exponent_of(at); }})) {
                          variant.name += " exponent";
                          variant.differentiable = false;
                          variants.push_back(std::move(variant));
                        }
                        for (const std::size_t i : {1u, 5u}) variants.push_back(special(variants[i]));
                        return variants;
                      },
                  .accuracy = 0});
  rows.push_back({.name = "modf",
                  .dtypes = float_dtypes,
                  .variants =
                      [](Dtype dtype) {
                        return of_one(dtype, {dtype, dtype}, {-6, 6},
                                      [](const Tensor& x) {
                                        const auto [fraction, whole] = modf(x);
                                        return Outputs{fraction, whole};
                                      },
                                      {[](Real at, Real x) { return x - std::trunc(at); },
                                       [](Real at, Real) { return std::trunc(at); }});
                      },
                  .accuracy = 0});
  rows.push_back(
      {.name = "nan_to_num",
       .dtypes = all_dtypes,
       .variants =
           [](Dtype dtype) {
             std::vector<Variant> variants = of_one(
                 dtype, {dtype}, {},
                 [](const Tensor& x) { return Outputs{nan_to_num(x, {.nan = 0.5, .posinf = 7, .neginf = -3})}; },
                 {[](Real, Real x) -> Real { return std::isnan(x)   ? 0.5L
                                                    : std::isinf(x) ? (x > 0 ? 7 : -3)
                                                                    : x; }});
             if (is_float(dtype)) variants.push_back(special(variants[1]));
             return variants;
           },
       .accuracy = 0});
  rows.push_back({.name = "real_if_close",
                  .dtypes = all_dtypes,
                  .variants =
                      [](Dtype dtype) {
                        return of_one(dtype, {dtype}, {}, [](const Tensor& x) { return Outputs{real_if_close(x)}; },
                                      {[](Real, Real x) { return x; }});
                      },
                  .accuracy = 0});
  for (const bool to_radians : {true, false})
    rows.push_back({.name = to_radians ? "deg2rad" : "rad2deg", .dtypes = all_dtypes, .variants = [=](Dtype dtype) {
                      return of_one(dtype, {as_float(dtype)}, {},
                                    [=](const Tensor& x) { return Outputs{to_radians ? deg2rad(x) : rad2deg(x)}; },
                                    {[=](Real, Real x) {
                                      return to_radians ? x * std::numbers::pi_v<Real> / 180
                                                        : x * 180 / std::numbers::pi_v<Real>;
                                    }});
                    }});
  rows.push_back({.name = "isclose",
                  .dtypes = all_dtypes,
                  .variants =
                      [](Dtype dtype) {
                        std::vector<Variant> variants = of_two(
                            dtype, dtype, {bool_}, {}, {},
                            [](const Tensor& a, const Tensor& b) {
                              return Outputs{isclose(a, b, {.rtol = 0.25, .atol = 0.5, .equal_nan = true})};
                            },
                            {[](Real a, Real b) -> Real {
                              if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
                              if (std::isinf(a) || std::isinf(b)) return a == b;
                              return std::abs(a - b) <= 0.5L + 0.25L * std::abs(b);
                            }},
                            false);
                        if (is_float(dtype)) variants.push_back(special(variants[2]));
                        return variants;
                      },
                  .accuracy = 0});
}

}  // namespace table
