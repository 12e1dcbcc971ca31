// Elementwise operations as nodes of ONNX. Formulas are those of core/ops/elementwise_ops.h where
// ONNX has no operator; some lose digits where onnxruntime's functions do.
#include <cmath>
#include <numbers>

#include <stave/core/op/all_ops.h>
#include <stave/handlers/onnx/write_rules.h>

namespace stave_detail {

namespace {

class ElementwiseRules {
 public:
  explicit ElementwiseRules(OnnxBuilder& b) : b_(b) {}

  // An empty value: there is no rule.
  OnnxOut of_one(OpId id, const OnnxOut& x) {
    if (!is_float(x.dtype) && is_of_fractions(id)) return of_whole(id, x);
    if (const char* const op = operator_of_one(id)) return b_.unary(op, x);
    switch (id) {
      case OpId::square: return x * x;
      case OpId::rsqrt: return f("Reciprocal", f("Sqrt", x));
      case OpId::expm1: return 2 * f("Sinh", x * 0.5) * f("Exp", x * 0.5);
      case OpId::log1p: return log1p(x);
      case OpId::exp2: return f("Exp", x * std::numbers::ln2);
      case OpId::log2: return f("Log", x) * (1 / std::numbers::ln2);
      case OpId::log10: return f("Log", x) * (1 / std::numbers::ln10);
      case OpId::trunc: return f("Sign", x) * f("Floor", f("Abs", x));
      case OpId::logical_not: return !truth(x);
      case OpId::isnan: return b_.emit("IsNaN", {x}, bool_, x.shape);
      case OpId::isinf: return is_infinite(x);
      case OpId::isfinite: return f("Abs", x) < infinity;
      case OpId::signbit: return has_sign(x);
      case OpId::bitwise_invert: return x.dtype == bool_ ? !x : f("BitwiseNot", x);
      case OpId::logit: return f("Log", x) - log1p(-x);
      case OpId::erfc: return 1 - f("Erf", x);
      case OpId::silu: return x * f("Sigmoid", x);
      case OpId::gelu: return 0.5 * x * (1 + f("Erf", x * (1 / std::numbers::sqrt2)));
      case OpId::gelu_tanh: return x * f("Sigmoid", std::sqrt(8 / std::numbers::pi) * (x + 0.044715 * x * x * x));
      case OpId::sech_squared: return 4 * f("Sigmoid", 2 * x) * f("Sigmoid", -2 * x);
      case OpId::logistic_density: return f("Sigmoid", x) * f("Sigmoid", -x);
      default: return {};
    }
  }

  OnnxOut of_two(OpId id, const OnnxOut& x, const OnnxOut& y) {
    if (const char* const op = operator_of_two(id)) return b_.binary(op, x, y);
    switch (id) {
      case OpId::equal: return equal(x, y);
      case OpId::not_equal: return !equal(x, y);
      case OpId::less: return x < y;
      case OpId::less_equal: return x <= y;
      case OpId::greater: return x > y;
      case OpId::greater_equal: return y <= x;
      case OpId::logical_and: return truth(x) && truth(y);
      case OpId::logical_or: return truth(x) || truth(y);
      case OpId::logical_xor: return b_.compare("Xor", truth(x), truth(y));
      case OpId::bitwise_and: return x.dtype == bool_ ? x && y : b_.binary("BitwiseAnd", x, y);
      case OpId::bitwise_or: return x.dtype == bool_ ? x || y : b_.binary("BitwiseOr", x, y);
      case OpId::bitwise_xor: return x.dtype == bool_ ? b_.compare("Xor", x, y) : b_.binary("BitwiseXor", x, y);
      case OpId::scale: return unless(x == 0 || y == 0, x * y);
      case OpId::scale_by_inverse: return unless(x == 0 || is_infinite(y), x / y);
      case OpId::floor_divide: return is_float(x.dtype) ? f("Floor", x / y) : floor_quotient(x, y);
      case OpId::remainder: return remainder(x, y);
      case OpId::copysign: return b_.where(has_sign(y), -f("Abs", x), f("Abs", x));
      case OpId::hypot: return hypot(x, y);
      case OpId::atan2: return atan2(x, y);
      case OpId::logaddexp: return logaddexp(x, y);
      case OpId::xlogy: return unless(x == 0, x * f("Log", y));
      case OpId::xlog1py: return unless(x == 0, x * log1p(y));
      case OpId::exp_of_product: return f("Exp", x * y);
      case OpId::direction_cosine: return unless(x == 0, x / hypot(x, y));
      case OpId::over_squared_radius: return unless(x == 0, x / hypot(x, y) / hypot(x, y));
      case OpId::power_rule: return unless(y == 0, y * b_.binary("Pow", x, y - 1));
      default: return {};
    }
  }

 private:
  static constexpr double infinity = std::numeric_limits<double>::infinity();

  static const char* operator_of_one(OpId id) {
    switch (id) {
      case OpId::abs: return "Abs";
      case OpId::negative: return "Neg";
      case OpId::sign: return "Sign";
      case OpId::sqrt: return "Sqrt";
      case OpId::exp: return "Exp";
      case OpId::log: return "Log";
      case OpId::sin: return "Sin";
      case OpId::cos: return "Cos";
      case OpId::tan: return "Tan";
      case OpId::asin: return "Asin";
      case OpId::acos: return "Acos";
      case OpId::atan: return "Atan";
      case OpId::sinh: return "Sinh";
      case OpId::cosh: return "Cosh";
      case OpId::tanh: return "Tanh";
      case OpId::asinh: return "Asinh";
      case OpId::acosh: return "Acosh";
      case OpId::atanh: return "Atanh";
      case OpId::sigmoid: return "Sigmoid";
      case OpId::erf: return "Erf";
      case OpId::relu: return "Relu";
      case OpId::softplus: return "Softplus";
      case OpId::floor: return "Floor";
      case OpId::ceil: return "Ceil";
      case OpId::round: return "Round";
      case OpId::reciprocal: return "Reciprocal";
      default: return nullptr;
    }
  }
  static const char* operator_of_two(OpId id) {
    switch (id) {
      case OpId::add: return "Add";
      case OpId::subtract: return "Sub";
      case OpId::multiply: return "Mul";
      case OpId::divide: return "Div";
      case OpId::pow: return "Pow";
      case OpId::maximum: return "Max";
      case OpId::minimum: return "Min";
      default: return nullptr;
    }
  }

  // Functions that do nothing, or find nothing, in integers.
  static bool is_of_fractions(OpId id) {
    switch (id) {
      case OpId::floor:
      case OpId::ceil:
      case OpId::round:
      case OpId::trunc:
      case OpId::isnan:
      case OpId::isinf:
      case OpId::isfinite: return true;
      default: return false;
    }
  }
  OnnxOut of_whole(OpId id, const OnnxOut& x) {
    if (id == OpId::isfinite) return b_.expand(b_.number(true, bool_), x.shape);
    if (id == OpId::isnan || id == OpId::isinf) return b_.expand(b_.number(false, bool_), x.shape);
    return x;
  }
  // Whether x is negative or -0.
  OnnxOut has_sign(const OnnxOut& x) {
    if (!is_float(x.dtype)) return x < 0;
    return x < 0 || (x == 0 && f("Reciprocal", x) < 0);
  }

  OnnxOut f(std::string_view op, const OnnxOut& x) { return b_.unary(op, x); }
  OnnxOut truth(const OnnxOut& x) { return x.dtype == bool_ ? x : !(x == 0); }
  OnnxOut is_infinite(const OnnxOut& x) { return f("Abs", x) == infinity; }
  OnnxOut unless(const OnnxOut& vanishes, const OnnxOut& x) { return b_.where(vanishes, b_.like(x, 0), x); }
  OnnxOut equal(const OnnxOut& x, const OnnxOut& y) { return x.dtype == bool_ ? !b_.compare("Xor", x, y) : x == y; }

  // log(u) x / (u - 1) with u = 1 + x, whose rounding errors cancel (Goldberg 1991, theorem 4).
  OnnxOut log1p(const OnnxOut& x) {
    const OnnxOut u = 1 + x, is_small = u == 1, divisor = b_.where(is_small, b_.like(x, 1), u - 1);
    const OnnxOut is_infinite_u = u == infinity;
    return b_.where(is_small, x, b_.where(is_infinite_u, u, f("Log", u) * x / divisor));
  }
  OnnxOut floor_quotient(const OnnxOut& x, const OnnxOut& y) {
    const OnnxOut is_by_zero = y == 0, divisor = b_.where(is_by_zero, b_.like(y, 1), y);
    return unless(is_by_zero, (x - b_.binary("Mod", x, divisor)) / divisor);
  }
  OnnxOut remainder(const OnnxOut& x, const OnnxOut& y) {
    if (!is_float(x.dtype)) {
      const OnnxOut is_by_zero = y == 0;
      return unless(is_by_zero, b_.binary("Mod", x, b_.where(is_by_zero, b_.like(y, 1), y)));
    }
    const OnnxOut r = b_.emit("Mod", {x, y}, x.dtype, broadcast_shapes(x.shape, y.shape, "write_onnx"),
                              {onnx_attribute("fmod", Index{1})});
    return b_.where(!(r == 0) && b_.compare("Xor", r < 0, y < 0), r + y, r);
  }
  OnnxOut hypot(const OnnxOut& x, const OnnxOut& y) {
    const OnnxOut a = f("Abs", x), c = f("Abs", y), large = b_.binary("Max", a, c), small = b_.binary("Min", a, c);
    const OnnxOut ratio = small / b_.where(large == 0, b_.like(large, 1), large);
    return b_.where(large == infinity, large, large * f("Sqrt", 1 + ratio * ratio));
  }
  OnnxOut atan2(const OnnxOut& y, const OnnxOut& x) {
    const OnnxOut angle = f("Atan", y / x), pi = b_.like(x, std::numbers::pi);
    const OnnxOut turned = b_.where(y < 0, angle - pi, angle + pi);
    const OnnxOut on_axis = f("Sign", y) * (std::numbers::pi / 2);
    return b_.where(x == 0, on_axis, b_.where(x < 0, turned, angle));
  }
  OnnxOut logaddexp(const OnnxOut& x, const OnnxOut& y) {
    const OnnxOut large = b_.binary("Max", x, y), sum = large + log1p(f("Exp", -f("Abs", x - y)));
    return b_.where(is_infinite(large), large, sum);
  }

  OnnxBuilder& b_;
};

}  // namespace

OnnxOut write_onnx_elementwise(OnnxBuilder& b, OpId id, const OnnxOut& x, const OnnxOut& y) {
  ElementwiseRules rules(b);
  const OnnxOut found = rules.of_one(id, x);
  return found.builder ? found : rules.of_two(id, x, y);
}

Dtype onnx_computed(Dtype dtype) {
  if (is_half_float(dtype)) return float32;
  if (dtype == uint32 || dtype == uint64) return int64;
  return is_integer(dtype) && dtype != int64 ? int32 : dtype;
}

}  // namespace stave_detail
