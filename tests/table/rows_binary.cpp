// Rows of elementwise functions of two and three operands: broadcasting, promotion,
// and C++ numbers as operands.

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <stave/core/ops/elementwise.h>

#include "table/reference.h"
#include "table/row.h"

#include "special_reference.h"

namespace table {

namespace {

using Call = Tensor (*)(Operand, Operand);
using Formula = Real (*)(Real, Real);

// The kind of result. `numbers` and `integers` compute bool operands as int32; `truth` gives bool;
// `bits` keeps the operands' dtype. `integers` and `bits` refuse floats.
enum class Gives { numbers, floats, truth, integers, bits };

// An additional variant with other domains for its operands.
struct Extra {
  const char* name = nullptr;
  Domain left = {}, right = {};
  // True if the variant is differentiable with respect to the right operand.
  bool by_right = true;
};

struct Binary {
  const char* name;
  Call call;
  Formula formula;
  const char* operator_name = nullptr;
  Call operator_call = nullptr;
  const char* assignment_name = nullptr;
  Call assignment_call = nullptr;
  Gives gives = Gives::numbers;
  Domain left = {}, right = {};
  Extra extra = {};
  // False for a piecewise constant function.
  bool differentiable = gives == Gives::numbers || gives == Gives::floats;
  // False if there is no derivative with respect to that operand.
  bool by_left = true, by_right = true;
  Real accuracy = 2;
  // Near any a, b the function is a - b * quotient, where `quotient` is constant.
  Formula quotient = nullptr;
  std::map<std::size_t, std::string> no_derivative = {};

  bool refuses(Dtype operands) const {
    return is_float(operands) && (gives == Gives::integers || gives == Gives::bits);
  }
};

Dtype result_of(const Binary& f, Dtype operands) {
  if (f.gives == Gives::truth) return bool_;
  if (f.gives == Gives::bits) return operands;
  return f.gives == Gives::floats ? as_float(operands) : as_number(operands);
}

/// Pairs of shapes that broadcast.
const std::vector<std::pair<Shape, Shape>> shapes = {
    {{2, 3}, {2, 3}},    {{2, 3}, {3}}, {{2, 1}, {1, 3}}, {{2, 3}, {}}, {{2, 37}, {2, 1}}, {{2, 37}, {37}},
    {{3, 1, 2}, {2, 1}}, {{0, 3}, {3}}, {{2, 0}, {2, 1}}, {{}, {}},     {{}, {2, 3}}};

// The reference for derivatives. Operands of few bits may lie on a jump of the function,
// where central differences of the function itself would be wrong.
std::function<Arrays(std::span<const Array>, std::span<const Array>)> smooth_of(const Binary& f, Dtype result) {
  if (!f.quotient) return {};
  return [quotient = f.quotient, result](auto at, auto xs) {
    const Array whole = mapped(float64, at[0], at[1], quotient);
    return Arrays{make(result, whole.shape, [&](const Shape& p) {
      return xs[0](broadcast_position(xs[0].shape, p)) - xs[1](broadcast_position(xs[1].shape, p)) * whole(p);
    })};
  };
}

Variant variant_of(const Binary& f, Call call, const std::string& name, const Input& left, const Input& right) {
  const Dtype result = result_of(f, promoted(left.dtype, right.dtype));
  return {.name = name + left.shape.str() + right.shape.str(),
          .inputs = {left, right},
          .call = [call](auto xs) { return call(xs[0], xs[1]); },
          .reference = [formula = f.formula, result](auto xs) { return Arrays{mapped(result, xs[0], xs[1], formula)}; },
          .smooth = smooth_of(f, result),
          .differentiable = f.differentiable,
          .elementwise = true,
          .refusal = f.refuses(promoted(left.dtype, right.dtype)) ? no_bits : ""};
}

// Variants with a C++ number on either side. The number takes the tensor's dtype unless
// it is of a higher kind.
template <class Number>
void add_numbers(std::vector<Variant>& variants, const Binary& f, Dtype dtype, Number number, Dtype met) {
  const Dtype result = result_of(f, met);
  const Array constant = make(float64, {}, [&](const Shape&) { return static_cast<Real>(number); });
  const std::string kind = std::is_floating_point_v<Number> ? "float" : "int";
  const auto add = [&](const std::string& name, Input input, bool number_first, auto call) {
    const auto operands = [=](std::span<const Array> xs) {
      return number_first ? Arrays{constant, xs[0]} : Arrays{xs[0], constant};
    };
    Variant variant{.name = name,
                    .inputs = {std::move(input)},
                    .call = call,
                    .differentiable = f.differentiable,
                    .refusal = f.refuses(met) ? no_bits : ""};
    variant.reference = [=, formula = f.formula](auto xs) {
      const Arrays both = operands(xs);
      return Arrays{mapped(result, both[0], both[1], formula)};
    };
    if (const auto smooth = smooth_of(f, result))
      variant.smooth = [=](auto at, auto xs) { return smooth(operands(at), operands(xs)); };
    variants.push_back(std::move(variant));
  };
  add("tensor with a C++ " + kind, {dtype, {2, 3}, f.left, f.by_left}, false,
      [call = f.call, number](auto xs) { return Outputs(call(xs[0], number)); });
  add("C++ " + kind + " with a tensor", {dtype, {2, 3}, f.right, f.by_right}, true,
      [call = f.call, number](auto xs) { return Outputs(call(number, xs[0])); });
}

std::vector<Variant> variants_of(const Binary& f, Dtype dtype) {
  std::vector<Variant> variants;
  for (const auto& [left, right] : shapes)
    variants.push_back(
        variant_of(f, f.call, "", {dtype, left, f.left, f.by_left}, {dtype, right, f.right, f.by_right}));
  for (Dtype other : all_dtypes)
    if (other != dtype && common(dtype, other))
      variants.push_back(variant_of(f, f.call, std::string("with ") + stave::name_of(other),
                                    {dtype, {2, 3}, f.left, f.by_left}, {other, {3}, f.right, f.by_right}));
  for (const auto& [name, call] : {std::pair(f.operator_name, f.operator_call), {f.assignment_name, f.assignment_call}})
    if (name)
      variants.push_back(
          variant_of(f, call, name, {dtype, {2, 3}, f.left, f.by_left}, {dtype, {2, 1}, f.right, f.by_right}));
  if (f.extra.name && (is_float(dtype) || (is_signed(dtype) && f.gives != Gives::truth)))
    variants.push_back(variant_of(f, f.call, f.extra.name, {dtype, {3, 4}, f.extra.left, f.by_left},
                                  {dtype, {3, 4}, f.extra.right, f.extra.by_right}));
  const Dtype with_int = dtype == bool_ ? int32 : dtype, with_float = as_float(dtype);
  add_numbers(variants, f, dtype, 2, with_int);
  add_numbers(variants, f, dtype, 1.5, with_float);
  return variants;
}

// So few values that some operands are equal, and some are 0.
const Domain few{.choices = {-1, 0, 0.5, 2}};

// The two's-complement bits of an integer in 64 bits, and back. For narrower and unsigned dtypes
// the excess bits wrap away when the result is rounded.
std::uint64_t bits_of(Real x) { return x < 0 ? ~static_cast<std::uint64_t>(-1 - x) : static_cast<std::uint64_t>(x); }
Real number_of(std::uint64_t bits) { return static_cast<Real>(static_cast<std::int64_t>(bits)); }

std::vector<Binary> functions() {
#define CALL(f) .name = #f, .call = static_cast<Call>(stave::f)
#define FORMULA(...) .formula = [](Real a, Real b) -> Real { return __VA_ARGS__; }
#define OPERATOR(op) .operator_name = "operator" #op, .operator_call = [](Operand a, Operand b) { return a op b; }
#define TENSOR_OPERATOR(op) \
  .operator_name = "operator" #op, .operator_call = [](Operand a, Operand b) { return a.tensor() op b.tensor(); }
#define ASSIGNMENT(op)                                                             \
  .assignment_name = "operator" #op, .assignment_call = [](Operand a, Operand b) { \
    Tensor x = a.tensor();                                                         \
    return x op b;                                                                 \
  }
#define TRUTH                                                  \
  .gives = Gives::truth, .left = few, .right = few, .extra = { \
    "special values",                                          \
    {.choices = special_values},                               \
    {.choices = special_values}                                \
  }
#define BITS .gives = Gives::bits, .left = {-100, 100}, .right = {-100, 100}
  return {
      {CALL(add), FORMULA(a + b), OPERATOR(+), ASSIGNMENT(+=)},
      {CALL(subtract), FORMULA(a - b), OPERATOR(-), ASSIGNMENT(-=)},
      {CALL(multiply), FORMULA(a * b), OPERATOR(*), ASSIGNMENT(*=), .left = {-20, 20}, .right = {-20, 20}},
      {CALL(scale), FORMULA(a == 0 || b == 0 ? 0 : a * b)},
      {CALL(divide), FORMULA(a / b), OPERATOR(/), ASSIGNMENT(/=), .gives = Gives::floats, .right = positive},
      {CALL(floor_divide), FORMULA(std::floor(a / b)), .left = {-5, 5}, .right = {1, 3},
       .extra = {"negative divisor", {-5, 5}, {-3, -1}}, .differentiable = false,
       .no_derivative = {{0, "piecewise constant"}, {1, "piecewise constant"}}},
      {CALL(remainder), FORMULA(a - std::floor(a / b) * b), OPERATOR(%), .left = {-5, 5}, .right = {1, 3},
       .extra = {"negative divisor", {-5, 5}, {-3, -1}}, .quotient = [](Real a, Real b) { return std::floor(a / b); }},
      // Powers of integers are truncated towards 0: 2^-1 is 0.
      {CALL(pow), FORMULA(std::pow(a, b)), .left = {0.4, 2.6}, .right = {-2, 2.9},
       .extra = {"negative base, whole exponent", {-3, 3}, {.choices = {0, 1, 2, 3}}, false}},
      {CALL(atan2), FORMULA(std::atan2(a, b)), .gives = Gives::floats, .right = {0.4, 2.6},
       .extra = {"left half plane", {0.4, 2}, {-3, -0.4}}},
      {CALL(hypot), FORMULA(std::hypot(a, b)), .gives = Gives::floats, .right = {0.4, 2.6}},
      {CALL(scale_by_inverse), FORMULA(a == 0 || std::isinf(b) ? 0 : a / b), .gives = Gives::floats, .right = positive},
      {CALL(exp_of_product), FORMULA(std::exp(a * b)), .gives = Gives::floats, .right = {-1, 1.5}},
      {CALL(direction_cosine), FORMULA(a / std::hypot(a, b)), .gives = Gives::floats, .right = {0.4, 2.6},
       .accuracy = 3},
      {CALL(over_squared_radius), FORMULA(a / (a * a + b * b)), .gives = Gives::floats, .right = {0.4, 2.6},
       .accuracy = 4},
      {CALL(power_rule), FORMULA(b == 0 ? 0 : b * std::pow(a, b - 1)), .gives = Gives::floats, .left = {0.4, 2.6},
       .right = {-2, 2.9}, .accuracy = 3},
      {CALL(copysign), FORMULA(std::copysign(a, b)), .gives = Gives::floats,
       .no_derivative = {{1, "piecewise constant"}}},
      {CALL(logaddexp), FORMULA(std::log(std::exp(a) + std::exp(b))), .gives = Gives::floats, .right = {0.4, 2.6},
       .accuracy = 4},
      {CALL(xlogy), FORMULA(a == 0 ? 0 : a * std::log(b)), .gives = Gives::floats, .right = positive, .accuracy = 4},
      {CALL(xlog1py), FORMULA(a == 0 ? 0 : a * std::log1p(b)), .gives = Gives::floats, .right = {-0.6, 3},
       .accuracy = 4},
      {CALL(zeta), FORMULA(stave_test::zeta_reference(a, b)), .gives = Gives::floats, .left = {1.5, 4.5},
       .right = {0.4, 3}, .accuracy = 8},
      {CALL(maximum), FORMULA(std::max(a, b))},
      {CALL(minimum), FORMULA(std::min(a, b))},
      {CALL(equal), FORMULA(a == b), OPERATOR(==), TRUTH},
      {CALL(not_equal), FORMULA(a != b), OPERATOR(!=), TRUTH},
      {CALL(less), FORMULA(a < b), OPERATOR(<), TRUTH},
      {CALL(less_equal), FORMULA(a <= b), OPERATOR(<=), TRUTH},
      {CALL(greater), FORMULA(a > b), OPERATOR(>), TRUTH},
      {CALL(greater_equal), FORMULA(a >= b), OPERATOR(>=), TRUTH},
      {CALL(logical_and), FORMULA(a != 0 && b != 0), TENSOR_OPERATOR(&&), TRUTH},
      {CALL(logical_or), FORMULA(a != 0 || b != 0), TENSOR_OPERATOR(||), TRUTH},
      {CALL(logical_xor), FORMULA((a != 0) != (b != 0)), TRUTH},
      {CALL(bitwise_and), FORMULA(number_of(bits_of(a) & bits_of(b))), OPERATOR(&), BITS},
      {CALL(bitwise_or), FORMULA(number_of(bits_of(a) | bits_of(b))), OPERATOR(|), BITS},
      {CALL(bitwise_xor), FORMULA(number_of(bits_of(a) ^ bits_of(b))), OPERATOR(^), BITS},
      {CALL(bitwise_left_shift), FORMULA(std::ldexp(a, static_cast<int>(b))), .gives = Gives::integers,
       .left = {-90, 90}, .right = {0, 7}},
      {CALL(bitwise_right_shift), FORMULA(std::floor(std::ldexp(a, -static_cast<int>(b)))), .gives = Gives::integers,
       .left = {-90, 90}, .right = {0, 7}},
  };
#undef CALL
#undef FORMULA
#undef OPERATOR
#undef TENSOR_OPERATOR
#undef ASSIGNMENT
#undef TRUTH
#undef BITS
}

// ---- nextafter ---------------------------------------------------------------------------------

/// The next float of a dtype for which the C++ library has no nextafter.
/// A step is one unit in the last digit; it is half as large just below a power of two.
Real next_of_shape(const FloatShape& shape, Real x, Real y) {
  if (std::isnan(x) || std::isnan(y)) return x + y;
  if (x == y) return y;
  if (x == 0) return std::copysign(std::ldexp(Real(1), shape.least - shape.digits + 1), y);
  if (std::isinf(x))
    return std::copysign(std::ldexp(Real(1), shape.end) - std::ldexp(Real(1), shape.end - shape.digits), x);
  int exponent;
  const bool power = std::abs(std::frexp(x, &exponent)) == 0.5L;
  const bool inwards = (x < y) != (x > 0);
  const int finest = shape.least + 1;
  Real step = std::ldexp(Real(1), std::max(exponent, finest) - shape.digits);
  if (power && inwards && exponent > finest) step /= 2;
  return rounded(x < y ? x + step : x - step, shape.digits == 11 ? float16 : bfloat16);
}

/// The next float of `dtype`, by the C++ library where it has that dtype.
/// The successor depends on the dtype: float32 and float64 differ.
Real next_in(Dtype dtype, Real x, Real y) {
  if (size_of(dtype) == 2) return next_of_shape(float_shape(dtype), x, y);
  if (dtype == float32) return std::nextafter(static_cast<float>(x), static_cast<float>(y));
  return std::nextafter(static_cast<double>(x), static_cast<double>(y));
}

std::vector<Variant> nextafter_variants(Dtype dtype) {
  std::vector<Variant> variants;
  const auto add = [&](const std::string& name, const Input& left, const Input& right) {
    const Dtype result = as_float(promoted(left.dtype, right.dtype));
    variants.push_back(
        {.name = name + left.shape.str() + right.shape.str(),
         .inputs = {left, right},
         .call = [](auto xs) { return nextafter(xs[0], xs[1]); },
         .reference =
             [result](auto xs) {
               return Arrays{mapped(result, xs[0], xs[1], [result](Real x, Real y) { return next_in(result, x, y); })};
             },
         .differentiable = false});
  };
  for (const auto& [left, right] : shapes) add("", {dtype, left}, {dtype, right});
  for (Dtype other : all_dtypes)
    if (other != dtype && common(dtype, other))
      add(std::string("with ") + stave::name_of(other), {dtype, {2, 3}}, {other, {3}});
  if (is_float(dtype))
    add("special values", {dtype, {6, 8}, {.choices = special_values}}, {dtype, {6, 8}, {.choices = special_values}});
  return variants;
}

// ---- three operands ----------------------------------------------------------------------------

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
  return {.name = std::string(stave::name_of(condition.dtype)) + " " + stave::name_of(b.dtype) + condition.shape.str() +
                  a.shape.str() + b.shape.str(),
          .inputs = {condition, a, b},
          .call = [](auto xs) { return where(xs[0], xs[1], xs[2]); },
          .reference = [result](auto xs) { return Arrays{mapped(result, xs[0], xs[1], xs[2], chosen)}; }};
}

std::vector<Variant> where_variants(Dtype dtype) {
  std::vector<Variant> variants;
  for (const auto& [condition, a, b] : triples)
    variants.push_back(where_of({bool_, condition}, {dtype, a}, {dtype, b}));
  for (Dtype other : all_dtypes)
    if (common(dtype, other)) variants.push_back(where_of({bool_, {2, 3}}, {dtype, {2, 3}}, {other, {3}}));
  variants.push_back(
      // A number is true if it is not 0.
      where_of({int32, {2, 3}, {0, 1}}, {dtype, {2, 3}}, {dtype, {3}}));
  variants.push_back({.name = "C++ numbers",
                      .inputs = {{bool_, {2, 3}}, {dtype, {2, 3}}},
                      .call = [](auto xs) { return where(xs[0], xs[1], 2); },
                      .reference =
                          [dtype](auto xs) {
                            return Arrays{table::mapped(as_number(dtype), xs[0], xs[1], [](Real condition, Real a) {
                              return chosen(condition, a, 2);
                            })};
                          }});
  return variants;
}

Real clipped(Real x, Real low, Real high) { return std::min(std::max(x, low), high); }

std::vector<Variant> clip_variants(Dtype dtype) {
  const Dtype result = as_number(dtype);
  std::vector<Variant> variants;
  for (const auto& [x, low, high] : triples)
    variants.push_back(
        {.name = x.str() + low.str() + high.str(),
         .inputs = {{dtype, x, {-4, 4}}, {dtype, low, {-2, 1}}, {dtype, high, {1, 3}}},
         .call = [](auto xs) { return clip(xs[0], xs[1], xs[2]); },
         .reference = [result](auto xs) { return Arrays{mapped(result, xs[0], xs[1], xs[2], clipped)}; }});
  variants.push_back({.name = "C++ numbers",
                      .inputs = {{dtype, {2, 3}, {-4, 4}}},
                      .call = [](auto xs) { return clip(xs[0], 0, 2); },
                      .reference =
                          [result](auto xs) {
                            return Arrays{table::mapped(result, xs[0], [](Real x) { return clipped(x, 0, 2); })};
                          }});
  return variants;
}

std::vector<std::string> operators_of(const Binary& f) {
  std::vector<std::string> names;
  for (const char* name : {f.operator_name, f.assignment_name})
    if (name) names.emplace_back(name);
  return names;
}

}  // namespace

void add_binary_rows(std::vector<Row>& rows) {
  for (const Binary& f : functions()) {
    // Bools would include 0^-1 and the pole zeta(1, q).
    const bool numbers = f.call == static_cast<Call>(stave::pow) || f.call == static_cast<Call>(stave::zeta);
    rows.push_back({.name = f.name,
                    .dtypes = numbers ? number_dtypes : all_dtypes,
                    .variants = [f](Dtype dtype) { return variants_of(f, dtype); },
                    .also = operators_of(f),
                    .accuracy = f.accuracy,
                    .no_derivative = f.no_derivative});
  }
  rows.push_back({.name = "nextafter",
                  .dtypes = all_dtypes,
                  .variants = nextafter_variants,
                  .accuracy = 0,
                  .no_derivative = {{0, "zero, as in JAX"}, {1, "zero, as in JAX"}}});
  rows.push_back({.name = "where", .dtypes = all_dtypes, .variants = where_variants, .accuracy = 0});
  rows.push_back({.name = "clip", .dtypes = all_dtypes, .variants = clip_variants, .accuracy = 0});
}

}  // namespace table
