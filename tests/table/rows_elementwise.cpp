// Elementwise functions of one operand.

#include <stave/core/ops/elementwise.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "table/reference.h"
#include "table/row.h"

namespace table {

Real erfinv_reference(Real x) {
  if (std::abs(x) == 1) return std::copysign(std::numeric_limits<Real>::infinity(), x);
  Real low = -10, high = 10;  // erf rises: bisection, then Newton's iteration
  for (int i = 0; i < 20; ++i) (std::erf((low + high) / 2) < x ? low : high) = (low + high) / 2;
  Real y = (low + high) / 2;
  for (int i = 0; i < 6; ++i) y -= (std::erf(y) - x) * std::sqrt(std::numbers::pi_v<Real>) / 2 * std::exp(y * y);
  return y;
}

namespace {

using Call = Tensor (*)(Tensor);
using Formula = Real (*)(Real);

/// Shapes that every elementwise function admits.
const std::vector<Shape> shapes = {{2, 3}, {5}, {2, 1, 3}, {0, 3}, {2, 0}, {}};

enum class Of { floats, numbers, any };  // in what the function computes: float32 for integers; int32 for bool; as it comes

struct Unary {
  const char* name;
  Call call;
  Formula formula;
  Domain domain = {};
  Of of = Of::floats;
  bool differentiable = true;
  bool predicate = false;
  Real accuracy = 2;
  const char* operator_name = nullptr;
  Call operator_call = nullptr;
};

Dtype computed_in(Of of, Dtype dtype) {
  return of == Of::floats ? as_float(dtype) : of == Of::numbers ? as_number(dtype) : dtype;
}

Variant variant_of(const Unary& f, Call call, Dtype dtype, const Shape& shape, const Domain& domain, const std::string& name) {
  const Dtype result = f.predicate ? bool_ : computed_in(f.of, dtype);
  return {.name = name + shape.str(),
          .inputs = {{dtype, shape, domain}},
          .call = [call](auto xs) { return call(xs[0]); },
          .reference = [formula = f.formula, result](auto xs) { return Arrays{mapped(result, xs[0], formula)}; },
          .differentiable = f.differentiable};
}

Row row_of(const Unary& f) {
  return {.name = f.name,
          .dtypes = all_dtypes,
          .variants =
              [f](Dtype dtype) {
                std::vector<Variant> variants;
                for (const Shape& shape : shapes) variants.push_back(variant_of(f, f.call, dtype, shape, f.domain, ""));
                if (f.operator_call) variants.push_back(variant_of(f, f.operator_call, dtype, {2, 3}, f.domain, f.operator_name));
                if (!f.differentiable && is_float(dtype))
                  variants.push_back(variant_of(f, f.call, dtype, {3, 4}, {.choices = special_values}, "special values "));
                return variants;
              },
          .also = f.operator_call ? std::vector<std::string>{f.operator_name} : std::vector<std::string>{},
          .accuracy = f.accuracy};
}

Real sign(Real x) { return x > 0 ? 1 : x < 0 ? -1 : x; }
Real round_half_to_even(Real x) {
  const Real below = std::floor(x), rest = x - below;
  if (!(rest >= 0)) return x;  // infinite, or NaN
  if (rest != 0.5) return rest < 0.5 ? below : below + 1;
  return std::fmod(below, Real(2)) == 0 ? below : below + 1;
}

Call call_of(Call call) { return call; }

std::vector<Unary> functions() {
  using namespace stave;
#define CALL(name) #name, call_of(stave::name)
  return {
      {CALL(abs), [](Real x) { return std::abs(x); }, {}, Of::numbers},
      {CALL(negative), [](Real x) { return -x; }, {}, Of::numbers, true, false, 0, "operator-", [](Tensor x) { return -+x; }},
      {CALL(sign), sign, {}, Of::numbers, false},
      {CALL(sqrt), [](Real x) { return std::sqrt(x); }, positive},
      {CALL(rsqrt), [](Real x) { return 1 / std::sqrt(x); }, positive},
      {CALL(square), [](Real x) { return x * x; }, {-12, 12}, Of::numbers},
      {CALL(exp), [](Real x) { return std::exp(x); }},
      {CALL(expm1), [](Real x) { return std::expm1(x); }},
      {CALL(log), [](Real x) { return std::log(x); }, positive},
      {CALL(log1p), [](Real x) { return std::log1p(x); }, {-0.7, 3}},
      {CALL(sin), [](Real x) { return std::sin(x); }, {-4, 4}},
      {CALL(cos), [](Real x) { return std::cos(x); }, {-4, 4}},
      {CALL(tan), [](Real x) { return std::tan(x); }, {-1.2, 1.2}},
      {CALL(tanh), [](Real x) { return std::tanh(x); }},
      {CALL(sigmoid), [](Real x) { return 1 / (1 + std::exp(-x)); }, {-4, 4}},
      {CALL(erf), [](Real x) { return std::erf(x); }},
      {CALL(erfinv), erfinv_reference, {-0.85, 0.85}, Of::floats, true, false, 8},
      {CALL(relu), [](Real x) { return x < 0 ? 0 : x; }, {}, Of::numbers},
      {CALL(softplus), [](Real x) { return std::log1p(std::exp(x)); }, {-4, 4}},
      {CALL(floor), [](Real x) { return std::floor(x); }, {-4, 4}, Of::numbers, false},
      {CALL(ceil), [](Real x) { return std::ceil(x); }, {-4, 4}, Of::numbers, false},
      {CALL(round), round_half_to_even, {-4, 4}, Of::numbers, false},
      {CALL(logical_not), [](Real x) { return Real(x == 0); }, {0, 1}, Of::any, false, true, 0, "operator!", [](Tensor x) { return !x; }},
      {CALL(isnan), [](Real x) { return Real(std::isnan(x)); }, {}, Of::any, false, true},
      {CALL(isinf), [](Real x) { return Real(std::isinf(x)); }, {}, Of::any, false, true},
      {CALL(isfinite), [](Real x) { return Real(std::isfinite(x)); }, {}, Of::any, false, true},
  };
#undef CALL
}

// ---- astype, stop_gradient --------------------------------------------------------------------------------

// Floats to integers: truncated, saturating, NaN to 0. Integers to narrower ones wrap around.
Real cast(Real x, Dtype from, Dtype to) {
  if (!is_float(from) || !is_integer(to)) return x;
  if (std::isnan(x)) return 0;
  const int bits = 8 * static_cast<int>(size_of(to));
  const bool is_signed = to == int32 || to == int64;
  const Real low = is_signed ? -std::ldexp(Real(1), bits - 1) : 0, high = std::ldexp(Real(1), is_signed ? bits - 1 : bits) - 1;
  return std::clamp(std::trunc(x), low, high);
}

std::vector<Variant> astype_variants(Dtype from) {
  std::vector<Variant> variants;
  const auto add = [&](Dtype to, const Shape& shape, const Domain& domain) {
    variants.push_back({.name = std::string("to ") + stave::name_of(to) + shape.str(),
                        .inputs = {{from, shape, domain}},
                        .call = [to](auto xs) { return astype(xs[0], to); },
                        .reference = [from, to](auto xs) {
                          return Arrays{mapped(to, xs[0], [&](Real x) { return cast(x, from, to); })};
                        },
                        .differentiable = is_float(to)});
  };
  for (Dtype to : all_dtypes) {
    for (const Shape& shape : shapes) add(to, shape, {-300, 300});
    if (is_float(from) && !is_float(to)) add(to, {4, 3}, {.choices = special_values});
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
  rows.push_back({.name = "astype", .dtypes = all_dtypes, .variants = astype_variants, .accuracy = 1});
  rows.push_back({.name = "stop_gradient", .dtypes = all_dtypes, .variants = stop_gradient_variants, .accuracy = 0});
}

}  // namespace table
