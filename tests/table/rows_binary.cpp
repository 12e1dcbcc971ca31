// Elementwise functions of two and three operands: broadcasting, promotion, and C++ numbers as operands.

#include <algorithm>
#include <cmath>

#include <stave/core/ops/elementwise.h>

#include "table/reference.h"
#include "table/row.h"

namespace table {

namespace {

using Call = Tensor (*)(Operand, Operand);
using Formula = Real (*)(Real, Real);

enum class Gives { numbers, floats, truth };  // in what the function computes, or that it answers in bool

// Operands of their own, for a variant more.
struct Extra {
  const char* name = nullptr;
  Domain left = {}, right = {};
  bool by_right = true;  // differentiable by the right operand
};

struct Binary {
  const char* name;
  Call call;
  Formula formula;
  Gives gives = Gives::numbers;
  Domain left = {}, right = {};
  std::vector<std::string> also = {};
  Call other = nullptr;  // the operator
  Call in_place = nullptr;
  Extra extra = {};
};

Dtype result_of(const Binary& f, Dtype operands) {
  if (f.gives == Gives::truth) return bool_;
  return f.gives == Gives::floats ? as_float(operands) : as_number(operands);
}

/// Pairs of shapes that broadcast.
const std::vector<std::pair<Shape, Shape>> shapes = {
    {{2, 3}, {2, 3}}, {{2, 3}, {3}}, {{2, 1}, {1, 3}}, {{2, 3}, {}}, {{3, 1, 2}, {2, 1}}, {{0, 3}, {3}}, {{2, 0}, {2, 1}}, {{}, {}}, {{}, {2, 3}}};

Variant variant_of(const Binary& f, Call call, const std::string& name, const Input& left, const Input& right) {
  const Dtype result = result_of(f, promoted(left.dtype, right.dtype));
  return {.name = name + left.shape.str() + right.shape.str(),
          .inputs = {left, right},
          .call = [call](auto xs) { return call(xs[0], xs[1]); },
          .reference = [formula = f.formula, result](auto xs) { return Arrays{mapped(result, xs[0], xs[1], formula)}; },
          .differentiable = f.gives != Gives::truth};
}

// A C++ number on either side: it takes the tensor's dtype, within its kind.
template <class Number>
void add_numbers(std::vector<Variant>& variants, const Binary& f, Dtype dtype, Number number, Dtype met) {
  const auto add = [&](const std::string& name, Input input, auto call, auto reference) {
    variants.push_back({.name = name, .inputs = {std::move(input)}, .call = call, .reference = reference, .differentiable = f.gives != Gives::truth});
  };
  const Dtype result = result_of(f, met);
  const Real value = static_cast<Real>(number);
  const std::string kind = std::is_floating_point_v<Number> ? "float" : "int";
  add("tensor with a C++ " + kind, {dtype, {2, 3}, f.left}, [call = f.call, number](auto xs) { return Outputs(call(xs[0], number)); },
      [=, formula = f.formula](auto xs) { return Arrays{mapped(result, xs[0], [&](Real x) { return formula(x, value); })}; });
  add("C++ " + kind + " with a tensor", {dtype, {2, 3}, f.right}, [call = f.call, number](auto xs) { return Outputs(call(number, xs[0])); },
      [=, formula = f.formula](auto xs) { return Arrays{mapped(result, xs[0], [&](Real x) { return formula(value, x); })}; });
}

std::vector<Variant> variants_of(const Binary& f, Dtype dtype) {
  std::vector<Variant> variants;
  for (const auto& [left, right] : shapes) variants.push_back(variant_of(f, f.call, "", {dtype, left, f.left}, {dtype, right, f.right}));
  for (Dtype other : all_dtypes)
    if (other != dtype)
      variants.push_back(variant_of(f, f.call, std::string("with ") + stave::name_of(other), {dtype, {2, 3}, f.left}, {other, {3}, f.right}));
  if (f.other) variants.push_back(variant_of(f, f.other, f.also[0] + " ", {dtype, {2, 3}, f.left}, {dtype, {2, 1}, f.right}));
  if (f.in_place) variants.push_back(variant_of(f, f.in_place, f.also[1] + " ", {dtype, {2, 3}, f.left}, {dtype, {2, 1}, f.right}));
  if (f.extra.name && (dtype == int32 || dtype == int64 || is_float(dtype)))
    variants.push_back(variant_of(f, f.call, f.extra.name, {dtype, {3, 4}, f.extra.left}, {dtype, {3, 4}, f.extra.right, f.extra.by_right}));
  const Dtype with_int = dtype == bool_ ? int32 : dtype, with_float = as_float(dtype);
  add_numbers(variants, f, dtype, 2, with_int);
  add_numbers(variants, f, dtype, 1.5, with_float);
  return variants;
}

Real modulo(Real a, Real b) { return b == 0 ? 0 : a - std::floor(a / b) * b; }

// Powers of integers truncate towards 0: 2^-1 is 0.
const Domain exponents{-2, 2.9}, base{0.4, 2.6};

std::vector<Binary> functions() {
#define CALL(name) #name, static_cast<Call>(stave::name)
#define OPERATOR(op) [](Operand a, Operand b) { return a op b; }
#define IN_PLACE(op) [](Operand a, Operand b) { Tensor x = a.tensor(); x op b; return x; }
#define BOTH_TENSORS(op) [](Operand a, Operand b) { return a.tensor() op b.tensor(); }
  return {
      {CALL(add), [](Real a, Real b) { return a + b; }, {}, {}, {}, {"operator+", "operator+="}, OPERATOR(+), IN_PLACE(+=)},
      {CALL(subtract), [](Real a, Real b) { return a - b; }, {}, {}, {}, {"operator-", "operator-="}, OPERATOR(-), IN_PLACE(-=)},
      {CALL(multiply), [](Real a, Real b) { return a * b; }, {}, {-20, 20}, {-20, 20}, {"operator*", "operator*="}, OPERATOR(*), IN_PLACE(*=)},
      {CALL(scale), [](Real a, Real b) { return a == 0 || b == 0 ? 0 : a * b; }},
      {CALL(divide), [](Real a, Real b) { return a / b; }, Gives::floats, {}, positive, {"operator/", "operator/="}, OPERATOR(/), IN_PLACE(/=)},
      {CALL(remainder), modulo, Gives::numbers, {-5, 5}, {1, 3}, {"operator%"}, OPERATOR(%), nullptr, {"negative divisor", {-5, 5}, {-3, -1}}},
      {CALL(pow), [](Real a, Real b) { return std::pow(a, b); }, Gives::numbers, base, exponents, {}, nullptr, nullptr, {"negative base, whole exponent", {-3, 3}, {.choices = {0, 1, 2, 3}}, false}},
      {CALL(maximum), [](Real a, Real b) { return a > b ? a : b; }},
      {CALL(minimum), [](Real a, Real b) { return a < b ? a : b; }},
      {CALL(equal), [](Real a, Real b) { return Real(a == b); }, Gives::truth, {}, {}, {"operator=="}, OPERATOR(==)},
      {CALL(not_equal), [](Real a, Real b) { return Real(a != b); }, Gives::truth, {}, {}, {"operator!="}, OPERATOR(!=)},
      {CALL(less), [](Real a, Real b) { return Real(a < b); }, Gives::truth, {}, {}, {"operator<"}, OPERATOR(<)},
      {CALL(less_equal), [](Real a, Real b) { return Real(a <= b); }, Gives::truth, {}, {}, {"operator<="}, OPERATOR(<=)},
      {CALL(greater), [](Real a, Real b) { return Real(a > b); }, Gives::truth, {}, {}, {"operator>"}, OPERATOR(>)},
      {CALL(greater_equal), [](Real a, Real b) { return Real(a >= b); }, Gives::truth, {}, {}, {"operator>="}, OPERATOR(>=)},
      {CALL(logical_and), [](Real a, Real b) { return Real(a != 0 && b != 0); }, Gives::truth, {0, 1}, {0, 1}, {"operator&&"}, BOTH_TENSORS(&&)},
      {CALL(logical_or), [](Real a, Real b) { return Real(a != 0 || b != 0); }, Gives::truth, {0, 1}, {0, 1}, {"operator||"}, BOTH_TENSORS(||)},
      {CALL(logical_xor), [](Real a, Real b) { return Real((a != 0) != (b != 0)); }, Gives::truth, {0, 1}, {0, 1}},
  };
#undef CALL
#undef OPERATOR
#undef IN_PLACE
#undef BOTH_TENSORS
}

// ---- three operands ---------------------------------------------------------------------------------------

/// Shapes of three operands that broadcast.
const std::vector<std::array<Shape, 3>> triples = {
    {{{2, 3}, {2, 3}, {2, 3}}}, {{{3}, {2, 1}, {2, 3}}}, {{{2, 3}, {}, {3}}}, {{{0, 3}, {3}, {1, 3}}}, {{{}, {}, {}}}};

template <class F>
Array mapped(Dtype dtype, const Array& x, const Array& y, const Array& z, F f) {
  return make(dtype, broadcast_shape(broadcast_shape(x.shape, y.shape), z.shape), [&](const Shape& p) -> Real {
    return f(x(broadcast_position(x.shape, p)), y(broadcast_position(y.shape, p)), z(broadcast_position(z.shape, p)));
  });
}

Real chosen(Real condition, Real a, Real b) { return condition != 0 ? a : b; }

Variant where_of(Input condition, Input a, Input b) {
  const Dtype result = promoted(a.dtype, b.dtype);
  return {.name = std::string(stave::name_of(condition.dtype)) + " " + stave::name_of(b.dtype) + condition.shape.str() + a.shape.str() + b.shape.str(),
          .inputs = {condition, a, b},
          .call = [](auto xs) { return where(xs[0], xs[1], xs[2]); },
          .reference = [result](auto xs) { return Arrays{mapped(result, xs[0], xs[1], xs[2], chosen)}; }};
}

std::vector<Variant> where_variants(Dtype dtype) {
  std::vector<Variant> variants;
  for (const auto& [condition, a, b] : triples) variants.push_back(where_of({bool_, condition}, {dtype, a}, {dtype, b}));
  for (Dtype other : all_dtypes) variants.push_back(where_of({bool_, {2, 3}}, {dtype, {2, 3}}, {other, {3}}));
  variants.push_back(where_of({int32, {2, 3}, {0, 1}}, {dtype, {2, 3}}, {dtype, {3}}));  // a number is true where it is not 0
  variants.push_back({.name = "C++ numbers",
                      .inputs = {{bool_, {2, 3}}, {dtype, {2, 3}}},
                      .call = [](auto xs) { return where(xs[0], xs[1], 2); },
                      .reference = [dtype](auto xs) {
                        return Arrays{table::mapped(as_number(dtype), xs[0], xs[1], [](Real condition, Real a) { return chosen(condition, a, 2); })};
                      }});
  return variants;
}

Real clipped(Real x, Real low, Real high) { return std::min(std::max(x, low), high); }

std::vector<Variant> clip_variants(Dtype dtype) {
  const Dtype result = as_number(dtype);
  std::vector<Variant> variants;
  for (const auto& [x, low, high] : triples)
    variants.push_back({.name = x.str() + low.str() + high.str(),
                        .inputs = {{dtype, x, {-4, 4}}, {dtype, low, {-2, 1}}, {dtype, high, {1, 3}}},
                        .call = [](auto xs) { return clip(xs[0], xs[1], xs[2]); },
                        .reference = [result](auto xs) { return Arrays{mapped(result, xs[0], xs[1], xs[2], clipped)}; }});
  variants.push_back({.name = "C++ numbers",
                      .inputs = {{dtype, {2, 3}, {-4, 4}}},
                      .call = [](auto xs) { return clip(xs[0], 0, 2); },
                      .reference = [result](auto xs) {
                        return Arrays{table::mapped(result, xs[0], [](Real x) { return clipped(x, 0, 2); })};
                      }});
  return variants;
}

}  // namespace

void add_binary_rows(std::vector<Row>& rows) {
  rows.push_back({.name = "where", .dtypes = all_dtypes, .variants = where_variants, .accuracy = 0});
  rows.push_back({.name = "clip", .dtypes = all_dtypes, .variants = clip_variants, .accuracy = 0});
  for (const Binary& f : functions())
    // Not pow of bools: of 0^-1 there is nothing to say.
    rows.push_back({.name = f.name, .dtypes = f.call == static_cast<Call>(stave::pow) ? number_dtypes : all_dtypes, .variants = [f](Dtype dtype) { return variants_of(f, dtype); }, .also = f.also, .accuracy = 2});
}

}  // namespace table
