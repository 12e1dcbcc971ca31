// Rows of elementwise functions of one operand.

#include <stave/core/ops/elementwise.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "table/reference.h"
#include "table/row.h"

#include "special_reference.h"

namespace table {

Real erfinv_reference(Real x) {
  if (std::abs(x) == 1) return std::copysign(std::numeric_limits<Real>::infinity(), x);
  // erf increases: bisection, then Newton's iteration.
  Real low = -10, high = 10;
  for (int i = 0; i < 20; ++i) (std::erf((low + high) / 2) < x ? low : high) = (low + high) / 2;
  Real y = (low + high) / 2;
  for (int i = 0; i < 6; ++i) y -= (std::erf(y) - x) * std::sqrt(std::numbers::pi_v<Real>) / 2 * std::exp(y * y);
  return y;
}

namespace {

using Call = Tensor (*)(Tensor);
using Formula = Real (*)(Real);

/// Shapes that every elementwise function admits. The long one fills SIMD vectors and leaves
/// a remainder.
const std::vector<Shape> shapes = {{2, 3}, {5}, {2, 1, 3}, {2, 37}, {0, 3}, {2, 0}, {}};

enum class Of {
  floats,
  numbers,
  any
};  // the dtype of the computation: float32 for integers; int32 for bool; the operand's dtype

struct Unary {
  const char* name;
  Call call;
  Formula formula;
  const char* operator_name = nullptr;
  Call operator_call = nullptr;
  Of of = Of::floats;
  Domain domain = {};
  bool differentiable = true;
  bool predicate = false;
  Real accuracy = 2;
  std::map<std::size_t, std::string> no_derivative = {};
};

Dtype computed_in(Of of, Dtype dtype) {
  return of == Of::floats ? as_float(dtype) : of == Of::numbers ? as_number(dtype) : dtype;
}

Variant variant_of(const Unary& f, Call call, Dtype dtype, const Shape& shape, const Domain& domain,
                   const std::string& name) {
  const Dtype result = f.predicate ? bool_ : computed_in(f.of, dtype);
  return {.name = name + shape.str(),
          .inputs = {{dtype, shape, domain}},
          .call = [call](auto xs) { return call(xs[0]); },
          .reference = [formula = f.formula, result](auto xs) { return Arrays{mapped(result, xs[0], formula)}; },
          .differentiable = f.differentiable,
          .elementwise = true};
}

Row row_of(const Unary& f) {
  return {
      .name = f.name,
      .dtypes = all_dtypes,
      .variants =
          [f](Dtype dtype) {
            std::vector<Variant> variants;
            for (const Shape& shape : shapes) variants.push_back(variant_of(f, f.call, dtype, shape, f.domain, ""));
            if (f.operator_call)
              variants.push_back(variant_of(f, f.operator_call, dtype, {2, 3}, f.domain, f.operator_name));
            if (!f.differentiable && is_float(dtype))
              variants.push_back(variant_of(f, f.call, dtype, {3, 4}, {.choices = special_values}, "special values "));
            return variants;
          },
      .also = f.operator_call ? std::vector<std::string>{f.operator_name} : std::vector<std::string>{},
      .accuracy = f.accuracy,
      .no_derivative = f.no_derivative};
}

Real round_half_to_even(Real x) {
  const Real below = std::floor(x), rest = x - below;
  if (!(rest >= 0)) return x;  // infinite, or NaN
  if (rest != 0.5) return rest < 0.5 ? below : below + 1;
  return std::fmod(below, Real(2)) == 0 ? below : below + 1;
}

Real gelu_by_tanh(Real x) {
  const Real inner = std::sqrt(2 / std::numbers::pi_v<Real>) * (x + 0.044715L * x * x * x);
  return x / (1 + std::exp(-2 * inner));  // (1 + tanh(u)) / 2
}

std::vector<Unary> functions() {
  using namespace stave;
#define CALL(f) .name = #f, .call = static_cast<Call>(stave::f)
#define FORMULA(...) .formula = [](Real x) -> Real { return __VA_ARGS__; }
#define OPERATOR(op, ...) .operator_name = "operator" #op, .operator_call = [](Tensor x) { return __VA_ARGS__; }
#define PIECEWISE_CONSTANT \
  .of = Of::numbers, .domain = {-4, 4}, .differentiable = false, .no_derivative = { {0, "piecewise constant"} }
#define PREDICATE .of = Of::any, .differentiable = false, .predicate = true
  return {
      {CALL(abs), FORMULA(std::abs(x)), .of = Of::numbers},
      {CALL(negative), FORMULA(-x), OPERATOR(-, -+x), .of = Of::numbers, .accuracy = 0},
      {CALL(sign), FORMULA(std::isnan(x) ? x : Real(x > 0) - Real(x < 0)), PIECEWISE_CONSTANT},
      {CALL(sqrt), FORMULA(std::sqrt(x)), .domain = positive},
      {CALL(rsqrt), FORMULA(1 / std::sqrt(x)), .domain = positive},
      {CALL(square), FORMULA(x * x), .of = Of::numbers, .domain = {-12, 12}},
      {CALL(reciprocal), FORMULA(1 / x), .domain = positive},
      {CALL(exp), FORMULA(std::exp(x))},
      {CALL(exp2), FORMULA(std::exp2(x))},
      {CALL(expm1), FORMULA(std::expm1(x))},
      {CALL(log), FORMULA(std::log(x)), .domain = positive},
      {CALL(log2), FORMULA(std::log2(x)), .domain = positive},
      {CALL(log10), FORMULA(std::log10(x)), .domain = positive},
      {CALL(log1p), FORMULA(std::log1p(x)), .domain = {-0.7, 3}},
      {CALL(sin), FORMULA(std::sin(x)), .domain = {-4, 4}},
      {CALL(cos), FORMULA(std::cos(x)), .domain = {-4, 4}},
      {CALL(tan), FORMULA(std::tan(x)), .domain = {-1.2, 1.2}},
      {CALL(asin), FORMULA(std::asin(x)), .domain = {-0.9, 0.9}},
      {CALL(acos), FORMULA(std::acos(x)), .domain = {-0.9, 0.9}},
      {CALL(atan), FORMULA(std::atan(x)), .domain = {-4, 4}},
      {CALL(sinh), FORMULA(std::sinh(x))},
      {CALL(cosh), FORMULA(std::cosh(x))},
      {CALL(tanh), FORMULA(std::tanh(x))},
      {CALL(sech_squared), FORMULA(1 / (std::cosh(x) * std::cosh(x))), .domain = {-4, 4}, .accuracy = 4},
      {CALL(asinh), FORMULA(std::asinh(x)), .domain = {-4, 4}},
      {CALL(acosh), FORMULA(std::acosh(x)), .domain = {1, 30}},
      {CALL(atanh), FORMULA(std::atanh(x)), .domain = {-0.9, 0.9}},
      {CALL(sigmoid), FORMULA(1 / (1 + std::exp(-x))), .domain = {-4, 4}},
      {CALL(logistic_density), FORMULA(std::exp(-x) / ((1 + std::exp(-x)) * (1 + std::exp(-x)))), .domain = {-4, 4},
       .accuracy = 4},
      {CALL(logit), FORMULA(std::log(x / (1 - x))), .domain = {.choices = {0.1, 0.2, 0.35, 0.45, 0.6, 0.8, 0.9}},
       .accuracy = 4},
      {CALL(erf), FORMULA(std::erf(x))},
      {CALL(erfc), FORMULA(std::erfc(x))},
      {CALL(erfinv), FORMULA(erfinv_reference(x)), .domain = {-0.85, 0.85}, .accuracy = 8},
      {CALL(relu), FORMULA(x < 0 ? 0 : x), .of = Of::numbers},
      {CALL(softplus), FORMULA(std::log1p(std::exp(x))), .domain = {-4, 4}},
      {CALL(silu), FORMULA(x / (1 + std::exp(-x))), .domain = {-4, 4}, .accuracy = 4},
      {CALL(gelu), FORMULA(x * std::erfc(-x / std::numbers::sqrt2_v<Real>) / 2), .domain = {-4, 4}, .accuracy = 4},
      {CALL(gelu_tanh), FORMULA(gelu_by_tanh(x)), .domain = {-4, 4}, .accuracy = 24},
      {CALL(lgamma), FORMULA(std::lgamma(x)), .domain = {0.2, 6}, .accuracy = 4},
      {CALL(digamma), FORMULA(stave_test::digamma_reference(x)), .domain = {0.2, 12}, .accuracy = 4},
      {.name = "polygamma",
       .call = [](Tensor x) { return polygamma(2, std::move(x)); },
       FORMULA(-2 * stave_test::zeta_reference(3, x)),
       .domain = {0.4, 3},
       .accuracy = 8},
      {CALL(log_sigmoid), FORMULA(-std::log1p(std::exp(-x))), .domain = {-4, 4}, .accuracy = 4},
      {CALL(mish), FORMULA(x * std::tanh(std::log1p(std::exp(x)))), .domain = {-4, 4}, .accuracy = 6},
      {.name = "leaky_relu", .call = [](Tensor x) { return leaky_relu(std::move(x)); }, FORMULA(x < 0 ? x / 100 : x)},
      {.name = "elu", .call = [](Tensor x) { return elu(std::move(x)); }, FORMULA(x < 0 ? std::expm1(x) : x)},
      {.name = "celu",
       .call = [](Tensor x) { return celu(std::move(x), 2); },
       FORMULA(x < 0 ? 2 * std::expm1(x / 2) : x)},
      {CALL(selu), FORMULA(1.0507009873554804935L * (x < 0 ? 1.6732632423543772848L * std::expm1(x) : x)),
       .accuracy = 4},
      {.name = "hardtanh",
       .call = [](Tensor x) { return hardtanh(std::move(x), -1.3, 0.95); },
       FORMULA(std::clamp(x, Real(-1.3L), Real(0.95L)))},
      {CALL(hardsigmoid), FORMULA(std::clamp(x / 6 + Real(0.5), Real(0), Real(1))), .domain = {-5, 5}, .accuracy = 8},
      {CALL(hardswish), FORMULA(x * std::clamp(x / 6 + Real(0.5), Real(0), Real(1))), .domain = {-5, 5}, .accuracy = 8},
      {CALL(entr), FORMULA(x == 0 ? 0 : -x * std::log(x)), .domain = positive, .accuracy = 4},
      {CALL(floor), FORMULA(std::floor(x)), PIECEWISE_CONSTANT},
      {CALL(ceil), FORMULA(std::ceil(x)), PIECEWISE_CONSTANT},
      {CALL(round), FORMULA(round_half_to_even(x)), PIECEWISE_CONSTANT},
      {CALL(trunc), FORMULA(std::trunc(x)), PIECEWISE_CONSTANT},
      {CALL(logical_not), FORMULA(x == 0), OPERATOR(!, !x), PREDICATE},
      {CALL(isnan), FORMULA(std::isnan(x)), PREDICATE},
      {CALL(isinf), FORMULA(std::isinf(x)), PREDICATE},
      {CALL(isfinite), FORMULA(std::isfinite(x)), PREDICATE},
      {CALL(signbit), FORMULA(std::signbit(x)), PREDICATE},
  };
#undef CALL
#undef FORMULA
#undef OPERATOR
#undef PIECEWISE_CONSTANT
#undef PREDICATE
}

// ---- bitwise_invert ----------------------------------------------------------------------------

// -1 - x, which wraps around for unsigned integers; the negation for bool.
std::vector<Variant> invert_variants(Dtype dtype) {
  const Unary f{.name = "bitwise_invert",
                .call = static_cast<Call>(stave::bitwise_invert),
                .formula = dtype == bool_ ? [](Real x) { return 1 - x; } : [](Real x) { return -1 - x; },
                .of = Of::any,
                .domain = {-9, 9},
                .differentiable = false};
  const Call by_operator = [](Tensor x) { return ~x; };
  std::vector<Variant> variants = {variant_of(f, by_operator, dtype, {2, 3}, f.domain, "operator~")};
  for (const Shape& shape : shapes) variants.push_back(variant_of(f, f.call, dtype, shape, f.domain, ""));
  if (is_float(dtype))
    for (Variant& variant : variants) variant.refusal = no_bits;
  return variants;
}

// ---- astype, stop_gradient ---------------------------------------------------------------------

// A cast. Floats become integers by truncation that saturates; NaN becomes 0.
// Integers wrap around when cast to narrower ones.
Real cast(Real x, Dtype from, Dtype to) {
  if (!is_float(from) || !is_integer(to)) return x;
  if (std::isnan(x)) return 0;
  const int bits = 8 * static_cast<int>(size_of(to));
  const Real low = is_signed(to) ? -std::ldexp(Real(1), bits - 1) : 0,
             high = std::ldexp(Real(1), is_signed(to) ? bits - 1 : bits) - 1;
  return std::clamp(std::trunc(x), low, high);
}

// Numbers of dtype `from` close to the middle between two 16-bit floats, where rounding twice would
// give a wrong result, and numbers near the ends of their ranges.
std::vector<Real> near_middles(Dtype from) {
  if (!is_float(from))
    return size_of(from) == 8
               ? std::vector<Real>{0x1p40L + 0x1p32L + 1, 0x1p40L + 0x1p32L - 1, 0x1p62L + 0x1p54L + 1, 65519, 65520}
               : std::vector<Real>{0x1p30L + 0x1p22L + 1, 0x1p30L + 0x1p22L - 1, 2049, 2051, 65519, 65520};
  return {1 + 0x1p-11L + 0x1p-40L,
          1 + 0x1p-8L + 0x1p-40L,
          1 + 0x1p-8L - 0x1p-40L,
          -65519.9999L,
          65520,
          0x1p-25L,
          0x1p-25L + 0x1p-60L,
          0x1p-14L - 0x1p-26L,
          0x1p-133L,
          0x1p127L * 2};
}

std::vector<Variant> astype_variants(Dtype from) {
  std::vector<Variant> variants;
  const auto add = [&](Dtype to, const Shape& shape, const Domain& domain) {
    variants.push_back(
        {.name = std::string("to ") + stave::name_of(to) + shape.str(),
         .inputs = {{from, shape, domain, domain.choices.empty()}},
         .call = [to](auto xs) { return astype(xs[0], to); },
         .reference = [from,
                       to](auto xs) { return Arrays{mapped(to, xs[0], [&](Real x) { return cast(x, from, to); })}; },
         .differentiable = is_float(to)});
  };
  for (Dtype to : all_dtypes) {
    for (const Shape& shape : shapes) add(to, shape, {-300, 300});
    if (is_float(from) && to != from) add(to, {4, 3}, {.choices = special_values});
    if (size_of(to) == 2 && is_float(to) && size_of(from) >= 4) add(to, {4, 5}, {.choices = near_middles(from)});
  }
  return variants;
}

std::vector<Variant> stop_gradient_variants(Dtype dtype) {
  std::vector<Variant> variants;
  for (const Shape& shape : shapes)
    variants.push_back({.name = shape.str(),
                        .inputs = {{dtype, shape}},
                        .call = [](auto xs) { return stop_gradient(xs[0]); },
                        .reference = [](auto xs) { return Arrays{xs[0]}; },
                        .differentiable = false});
  return variants;
}

}  // namespace

void add_elementwise_rows(std::vector<Row>& rows) {
  for (const Unary& f : functions()) rows.push_back(row_of(f));
  rows.push_back({.name = "bitwise_invert",
                  .dtypes = all_dtypes,
                  .variants = invert_variants,
                  .also = {"operator~"},
                  .accuracy = 0});
  rows.push_back({.name = "astype", .dtypes = all_dtypes, .variants = astype_variants, .accuracy = 1});
  rows.push_back({.name = "stop_gradient",
                  .dtypes = all_dtypes,
                  .variants = stop_gradient_variants,
                  .accuracy = 0,
                  .no_derivative = {{0, "a constant, by intent"}}});
}

}  // namespace table
