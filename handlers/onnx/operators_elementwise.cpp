// Elementwise operators, which broadcast as NumPy does.
#include <stave/core/ops/elementwise.h>

#include <limits>

#include <stave/core/ops/create.h>
#include <stave/core/ops/index.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/reduce.h>
#include <stave/core/ops/softmax.h>
#include <stave/handlers/onnx/operators.h>

namespace stave_detail {

namespace {

template <Tensor (*function)(Tensor)>
Tensor unary(const NodeCall& n) {
  return function(n(0));
}
template <Tensor (*function)(Operand, Operand)>
Tensor binary(const NodeCall& n) {
  return function(n(0), n(1));
}
// An operator of any number of operands.
template <Tensor (*function)(Operand, Operand)>
Tensor folded(const NodeCall& n) {
  Tensor all = n(0);
  for (std::size_t i = 1; i < n.size(); ++i) all = function(std::move(all), n(i));
  return all;
}

// Integers are divided as in C, towards 0.
Tensor quotient(const Tensor& a, const Tensor& b) {
  if (!is_integer(a.dtype())) return a / b;
  const Tensor down = floor_divide(a, b);
  if (is_unsigned(a.dtype())) return down;
  return where((a % b != 0) && ((a < 0) != (b < 0)), down + 1, down);
}

// The remainder has the sign of b, or with `fmod` that of a, as in C.
Tensor modulo(const NodeCall& n) {
  const Tensor &a = n(0), &b = n(1);
  if (n.integer("fmod", 0) == 0) return remainder(a, b);
  if (is_unsigned(a.dtype())) return a % b;
  const Tensor size = remainder(abs(a), abs(b));
  return is_float(a.dtype()) ? copysign(size, a) : where(a < 0, -size, size);
}

Tensor power(const NodeCall& n) { return astype(pow(n(0), n(1)), n(0).dtype()); }

Tensor clipped(const NodeCall& n) {
  Tensor x = n(0);
  constexpr double largest = std::numeric_limits<float>::max();
  if (n.opset() < 11) return clip(x, n.number("min", -largest), n.number("max", largest));
  if (n.has(1)) x = maximum(x, n(1));
  return n.has(2) ? minimum(x, n(2)) : x;
}

Tensor shrink(const NodeCall& n) {
  const Tensor& x = n(0);
  const double lambda = n.number("lambd", 0.5), bias = n.number("bias", 0);
  const Tensor shrunk = where(x < -lambda, x + bias, where(x > lambda, x - bias, zeros_like(x)));
  return astype(shrunk, x.dtype());
}

Tensor infinite(const NodeCall& n) {
  const Tensor& x = n(0);
  const bool up = n.integer("detect_positive", 1) != 0, down = n.integer("detect_negative", 1) != 0;
  if (up && down) return isinf(x);
  if (!up && !down) return zeros_like(x, bool_);
  return isinf(x) && (up ? x > 0 : x < 0);
}

Tensor shifted(const NodeCall& n) {
  const std::string direction = n.text("direction", "");
  if (direction == "LEFT") return bitwise_left_shift(n(0), n(1));
  if (direction == "RIGHT") return bitwise_right_shift(n(0), n(1));
  n.refuse("the direction '{}' is neither LEFT nor RIGHT", direction);
}

// 1 at the first largest element along an axis.
Tensor hardmax(const Tensor& x, Index axis) {
  const Index length = x.shape(axis);
  return moveaxis(one_hot(argmax(x, axis), length, x.dtype()), -1, axis);
}

// Before opset 13, functions along an axis took the tensor as a matrix whose rows begin there.
template <Tensor (*function)(const Tensor&, Index)>
Tensor along_axis(const NodeCall& n) {
  const Tensor& x = n(0);
  if (n.opset() >= 13) return function(x, n.integer("axis", -1));
  return reshape(function(as_matrix(x, n.integer("axis", 1)), 1), x.shape());
}

constexpr double selu_alpha = 1.67326319217681884765625, selu_gamma = 1.05070102214813232421875;

constexpr OnnxOperator elementwise_rows[] = {
    {"Abs", 6, unary<abs>},
    {"Acos", 7, unary<acos>},
    {"Acosh", 9, unary<acosh>},
    {"Add", 7, binary<add>},
    {"And", 7, binary<logical_and>},
    {"Asin", 7, unary<asin>},
    {"Asinh", 9, unary<asinh>},
    {"Atan", 7, unary<atan>},
    {"Atanh", 9, unary<atanh>},
    {"BitShift", 11, shifted},
    {"BitwiseAnd", 18, binary<bitwise_and>},
    {"BitwiseNot", 18, unary<bitwise_invert>},
    {"BitwiseOr", 18, binary<bitwise_or>},
    {"BitwiseXor", 18, binary<bitwise_xor>},
    {"Ceil", 6, unary<ceil>},
    {"Celu", 12, [](const NodeCall& n) { return celu(n(0), n.number("alpha", 1)); }},
    {"Clip", 6, clipped},
    {"Cos", 7, unary<cos>},
    {"Cosh", 9, unary<cosh>},
    {"Div", 7, [](const NodeCall& n) { return quotient(n(0), n(1)); }},
    {"Elu", 6, [](const NodeCall& n) { return elu(n(0), n.number("alpha", 1)); }},
    {"Equal", 7, binary<equal>},
    {"Erf", 9, unary<erf>},
    {"Exp", 6, unary<exp>},
    {"Floor", 6, unary<floor>},
    {"Gelu", 20,
     [](const NodeCall& n) { return n.text("approximate", "none") == "tanh" ? gelu_tanh(n(0)) : gelu(n(0)); }},
    {"Greater", 7, binary<greater>},
    {"GreaterOrEqual", 12, binary<greater_equal>},
    {"HardSigmoid", 6,
     [](const NodeCall& n) { return clip(n.number("alpha", 0.2) * n(0) + n.number("beta", 0.5), 0, 1); }},
    {"HardSwish", 14, unary<hardswish>},
    {"Hardmax", 1, along_axis<hardmax>},
    {"IsInf", 10, infinite},
    {"IsNaN", 9, unary<isnan>},
    {"LeakyRelu", 6, [](const NodeCall& n) { return leaky_relu(n(0), n.number("alpha", 0.01)); }},
    {"Less", 7, binary<less>},
    {"LessOrEqual", 12, binary<less_equal>},
    {"Log", 6, unary<log>},
    {"LogSoftmax", 1, along_axis<log_softmax>},
    {"Max", 6, folded<maximum>},
    {"Mean", 6, [](const NodeCall& n) { return folded<add>(n) / n.size(); }},
    {"Min", 6, folded<minimum>},
    {"Mish", 18, unary<mish>},
    {"Mod", 10, modulo},
    {"Mul", 7, binary<multiply>},
    {"Neg", 6, unary<negative>},
    {"Not", 1, unary<logical_not>},
    {"Or", 7, binary<logical_or>},
    {"PRelu", 7, [](const NodeCall& n) { return where(n(0) < 0, n(0) * n(1), n(0)); }},
    {"Pow", 7, power},
    {"Reciprocal", 6, unary<reciprocal>},
    {"Relu", 6, unary<relu>},
    {"Round", 11, unary<round>},
    {"Selu", 6,
     [](const NodeCall& n) { return n.number("gamma", selu_gamma) * elu(n(0), n.number("alpha", selu_alpha)); }},
    {"Shrink", 9, shrink},
    {"Sigmoid", 6, unary<sigmoid>},
    {"Sign", 9, unary<sign>},
    {"Sin", 7, unary<sin>},
    {"Sinh", 9, unary<sinh>},
    {"Softmax", 1, along_axis<softmax>},
    {"Softplus", 1, unary<softplus>},
    {"Softsign", 1, [](const NodeCall& n) { return n(0) / (1 + abs(n(0))); }},
    {"Sqrt", 6, unary<sqrt>},
    {"Sub", 7, binary<subtract>},
    {"Sum", 6, folded<add>},
    {"SwiGLU", 28, [](const NodeCall& n) { return n(0) * sigmoid(n.number("alpha", 1) * n(0)) * n(1); }},
    {"Swish", 24, [](const NodeCall& n) { return n(0) * sigmoid(n.number("alpha", 1) * n(0)); }},
    {"Tan", 7, unary<tan>},
    {"Tanh", 6, unary<tanh>},
    {"ThresholdedRelu", 10,
     [](const NodeCall& n) { return where(n(0) > n.number("alpha", 1), n(0), zeros_like(n(0))); }},
    {"Where", 9, [](const NodeCall& n) { return where(n(0), n(1), n(2)); }},
    {"Xor", 7, binary<logical_xor>},
};

}  // namespace

std::span<const OnnxOperator> onnx_elementwise() { return elementwise_rows; }

}  // namespace stave_detail
