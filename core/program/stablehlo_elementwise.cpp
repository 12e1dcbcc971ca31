// Elementwise operations as StableHLO: the functions of core/ops/elementwise_ops.h, called with
// values of the text, write the text of their results.
#include <cmath>
#include <limits>
#include <utility>

#include <stave/core/program/fused.h>
#include <stave/core/program/stablehlo_functions.h>
#include <stave/core/program/stablehlo_rules.h>

namespace stave_detail {

namespace {

// The builder that the functions of elementwise_ops.h write to, and the type of their numbers. It
// is a thread-local variable, because these functions construct a Number from a literal alone.
struct Target {
  HloBuilder* b = nullptr;
  HloType type = {bool_, {}};
};
thread_local Target target;

struct Condition {
  HloValue value;
};
struct Number {
  HloValue value;
  Number() = default;
  explicit Number(double literal) : value(target.b->number(Scalar(literal), target.type.dtype, target.type.shape)) {}
  static Number of(HloValue value) {
    Number x;
    x.value = std::move(value);
    return x;
  }
};

Dtype dtype() { return target.type.dtype; }
bool is_double(const Number&) { return dtype() == float64; }
constexpr bool any(const Condition&) { return true; }

Number unary(const char* name, const Number& x) { return Number::of(target.b->unary(name, x.value)); }
Number binary(const char* name, const Number& a, const Number& b) {
  return Number::of(target.b->binary(name, a.value, b.value));
}
Condition compare(const char* direction, const Number& a, const Number& b) {
  return {target.b->compare(direction, a.value, b.value)};
}

#define X(symbol, name) \
  Number operator symbol(const Number& a, const Number& b) { return binary(name, a, b); }
X(+, "add")
X(-, "subtract")
X(*, "multiply")
X(/, "divide")
X(&, "and")
X(|, "or")
X(^, "xor")
#undef X
Number operator-(const Number& x) { return unary("negate", x); }
Number operator~(const Number& x) { return unary("not", x); }
#define X(symbol, direction) \
  Condition operator symbol(const Number& a, const Number& b) { return compare(direction, a, b); }
X(==, "EQ")
X(!=, "NE")
X(<, "LT")
X(<=, "LE")
X(>, "GT")
X(>=, "GE")
#undef X
#define X(symbol, name)                                               \
  Condition operator symbol(const Condition& a, const Condition& b) { \
    return {target.b->binary(name, a.value, b.value)};                \
  }
X(&, "and")
X(|, "or")
X(^, "xor")
#undef X
Number select(const Condition& condition, const Number& a, const Number& b) {
  return Number::of(target.b->select(condition.value, a.value, b.value));
}

// ---- bits ---------------------------------------------------------------------------------------

Dtype bits_dtype(Dtype of) { return size_of(of) == 8 ? int64 : size_of(of) == 4 ? int32 : int16; }
HloValue bits_of(const Number& x) { return target.b->bitcast(x.value, bits_dtype(x.value.dtype)); }
Number from_bits(const HloValue& bits) { return Number::of(target.b->bitcast(bits, dtype())); }
Condition signbit(const Number& x) {
  const HloValue bits = bits_of(x);
  return {target.b->compare("LT", bits, target.b->like(bits, 0))};
}
std::int64_t sign_mask() {
  const auto places = 8 * size_of(dtype()) - 1;
  return places == 63 ? std::numeric_limits<std::int64_t>::min() : -(std::int64_t{1} << places);
}
Number copysign(const Number& x, const Number& y) {
  HloBuilder& b = *target.b;
  const HloValue bits = bits_of(x), mask = b.like(bits, sign_mask());
  return from_bits(b.either(b.both(bits, b.invert(mask)), b.both(bits_of(y), mask)));
}
/// The next float after x towards y: floats of one sign are ordered as their bits.
Number nextafter(const Number& x, const Number& y) {
  HloBuilder& b = *target.b;
  const HloValue bits = bits_of(x), one = b.like(bits, 1), zero = b.like(bits, 0);
  const HloValue of_y = bits_of(y), magnitude = b.both(bits, b.invert(b.like(bits, sign_mask())));
  const HloValue tiny = b.either(b.both(of_y, b.like(bits, sign_mask())), one);
  const HloValue negative = b.compare("LT", bits, zero), up = (x < y).value;
  const HloValue grows = b.compare("NE", negative, up);
  const HloValue moved = b.select(grows, b.add(bits, one), b.subtract(bits, one));
  const Number found = from_bits(b.select(b.compare("EQ", magnitude, zero), tiny, moved));
  return select((x != x) | (y != y), x + y, select(x == y, y, found));
}
/// The exact a * b - product, from halves of the significands (Dekker, "A floating-point technique
/// for extending the available precision", 1971). The halves are cut off by their bits, because XLA
/// may contract products and sums.
Number lost_of_product(const Number& a, const Number& b, const Number& product) {
  HloBuilder& text = *target.b;
  const auto high = [&](const Number& x) {
    const HloValue bits = bits_of(x);
    const std::int64_t low = dtype() == float64 ? (std::int64_t{1} << 27) - 1 : (std::int64_t{1} << 12) - 1;
    return from_bits(text.both(bits, text.like(bits, ~low)));
  };
  const Number a_high = high(a), a_low = a - a_high, b_high = high(b), b_low = b - b_high;
  return (((a_high * b_high - product) + a_high * b_low) + a_low * b_high) + a_low * b_low;
}

// ---- functions ----------------------------------------------------------------------------------

#define X(name, hlo) \
  Number name(const Number& x) { return unary(hlo, x); }
X(sqrt, "sqrt")
X(exp, "exponential")
X(expm1, "exponential_minus_one")
X(log, "log")
X(log1p, "log_plus_one")
X(sin, "sine")
X(cos, "cosine")
X(tan, "tan")
X(tanh, "tanh")
#undef X
Number pow(const Number& a, const Number& b);
Number abs(const Number& x) { return is_unsigned(dtype()) ? x : unary("abs", x); }
Number floor(const Number& x) { return is_float(dtype()) ? unary("floor", x) : x; }
Number ceil(const Number& x) { return is_float(dtype()) ? unary("ceil", x) : x; }
Number rint(const Number& x) { return is_float(dtype()) ? unary("round_nearest_even", x) : x; }
Number trunc(const Number& x) { return is_float(dtype()) ? select(x < Number(0), ceil(x), floor(x)) : x; }
Condition isfinite(const Number& x) {
  if (is_float(dtype())) return {target.b->is_finite(x.value)};
  return {target.b->number(true, bool_, x.value.shape)};
}
Condition isinf(const Number& x) {
  if (is_float(dtype())) return abs(x) == Number(std::numeric_limits<double>::infinity());
  return {target.b->number(false, bool_, x.value.shape)};
}
template <class C, std::size_t n>
Number polynomial(const Number& x, const C (&coefficients)[n]) {
  Number sum(static_cast<double>(coefficients[0]));
  for (std::size_t i = 1; i < n; ++i) sum = sum * x + Number(static_cast<double>(coefficients[i]));
  return sum;
}
Number frexp(const Number& x, Number& exponent) {
  const HloFrexp parts = hlo_frexp(*target.b, x.value);
  exponent = Number::of(parts.exponent);
  return Number::of(parts.mantissa);
}
Number ldexp(const Number& x, const Number& e) { return Number::of(hlo_ldexp(*target.b, x.value, e.value)); }

Number exp2(const Number& x) {
  const Number whole = rint(x), e = exp((x - whole) * Number(0.69314718055994531));
  return select(isfinite(x), ldexp(e, whole), exp(x));
}
// x = m 2^e with 1/sqrt(2) <= m < sqrt(2), so that logarithms of powers of two are exact.
Number log2(const Number& x) {
  Number e, m = frexp(x, e);
  const Condition small = m < Number(0.70710678118654757);
  const Number near = log(select(small, m + m, m)) * Number(1.4426950408889634);
  return select(isfinite(x) & (x > Number(0)), near + select(small, e - Number(1), e), log(x));
}
Number log10(const Number& x) { return log(x) * Number(0.4342944819032518); }
Number atan2(const Number& y, const Number& x) { return binary("atan2", y, x); }
Number atan(const Number& x) { return atan2(x, Number(1)); }
Number asin(const Number& x) { return atan2(x, sqrt((Number(1) - x) * (Number(1) + x))); }
Number acos(const Number& x) { return atan2(sqrt((Number(1) - x) * (Number(1) + x)), x); }
Number sinh(const Number& x) {
  const Number size = abs(x), e = expm1(size), half = exp(Number(0.5) * size);
  const Number near = Number(0.5) * (e + e / (e + Number(1))), far = (Number(0.5) * half) * half;
  return copysign(select(size < Number(20), near, far), x);
}
Number cosh(const Number& x) {
  const Number size = abs(x), e = exp(size), half = exp(Number(0.5) * size);
  return select(size < Number(20), Number(0.5) * (e + Number(1) / e), (Number(0.5) * half) * half);
}
Number asinh(const Number& x) {
  const Number size = abs(x), square = size * size;
  const Number near = log1p(size + square / (Number(1) + sqrt(square + Number(1))));
  return copysign(select(size > Number(1e9), log(size) + Number(0.69314718055994531), near), x);
}
Number acosh(const Number& x) {
  const Number t = x - Number(1), near = log1p(t + sqrt(t * (x + Number(1))));
  return select(x > Number(1e9), log(x) + Number(0.69314718055994531), near);
}
Number atanh(const Number& x) {
  const Number size = abs(x);
  return copysign(Number(0.5) * log1p(Number(2) * size / (Number(1) - size)), x);
}
/// sqrt(x^2 + y^2), in units of a power of two so that squares neither overflow nor underflow.
Number hypot(const Number& x, const Number& y) {
  const Number a = abs(x), b = abs(y), larger = select(a > b, a, b);
  const double edge = is_double(x) ? 0x1p500 : 0x1p60;
  const Condition large = larger > Number(edge), tiny = larger < Number(1 / edge);
  const Number unit = select(large, Number(1 / (edge * 16)), select(tiny, Number(edge * 16), Number(1)));
  const Number back = select(large, Number(edge * 16), select(tiny, Number(1 / (edge * 16)), Number(1)));
  const Number u = a * unit, v = b * unit, infinity(std::numeric_limits<double>::infinity());
  return select(isinf(x) | isinf(y), infinity, sqrt(u * u + v * v) * back);
}

/// A function that float32 computes in float64, if the text may.
template <class F, class... Numbers>
Number widely(F f, const Numbers&... xs) {
  HloBuilder& b = *target.b;
  if (dtype() != float32 || !b.options().wide) return f(xs...);
  const HloType outer = std::exchange(target.type, {float64, target.type.shape});
  const Number found = f(Number::of(b.convert(xs.value, float64))...);
  target.type = outer;
  return Number::of(b.convert(found.value, outer.dtype));
}
#define X(name, f, wrapper)                                  \
  Number name(const Number& x) {                             \
    return wrapper([](const Number& a) { return f(a); }, x); \
  }
#define DIRECTLY(f, x) f(x)
X(erf, erf_of, DIRECTLY)
X(erfc, erfc_of, DIRECTLY)
X(erfc_of_root_half, erfc_of_root_half_of, DIRECTLY)
X(erfinv, erfinv_of, DIRECTLY)
X(lgamma, lgamma_of, widely)
X(digamma, digamma_of, widely)
#undef X
#undef DIRECTLY
Number zeta(const Number& s, const Number& q) {
  return widely([](const Number& x, const Number& y) { return zeta_of(x, y); }, s, q);
}

// ---- division and powers ------------------------------------------------------------------------

/// What divides where the divisor is 0, or -1, by which the smallest integer cannot be divided.
Number safe_divisor(const Number& b) {
  Condition unsafe = b == Number(0);
  if (is_signed(dtype())) unsafe = unsafe | (b == Number(-1));
  return select(unsafe, Number(1), b);
}
Number remainder(const Number& a, const Number& b) {
  const Number zero(0);
  if (!is_float(dtype())) {
    const Number safe = safe_divisor(b), r = binary("remainder", a, safe);
    if (is_unsigned(dtype())) return r;
    return select((r != zero) & ((r < zero) ^ (safe < zero)), r + safe, r);
  }
  const Number r = binary("remainder", a, b), moved = select((r < zero) ^ (b < zero), r + b, r);
  return select(r == zero, copysign(zero, b), moved);
}
Number floor_divide(const Number& a, const Number& b) {
  const Number zero(0), one(1);
  if (is_unsigned(dtype())) return select(b == zero, zero, a / safe_divisor(b));
  if (!is_float(dtype())) {
    const Number safe = safe_divisor(b), quotient = a / safe, r = a - quotient * safe;
    const Number down = select((r != zero) & ((r < zero) ^ (safe < zero)), quotient - one, quotient);
    return select(b == zero, zero, select(b == Number(-1), -a, down));
  }
  // As in backends/cpu/kernels/vec_integer.h.
  const Number quotient = a / b, whole = floor(quotient), r = abs(remainder(a, b));
  const Condition is_integer = (whole == quotient) & (abs(whole) <= Number(is_double(a) ? 0x1p53 : 0x1p24));
  const Condition is_exact = abs(b) - r > r;
  const Number down = select(is_exact, whole, select(is_integer, whole - one, whole));
  return select(b == zero, quotient, select(isfinite(a), down, a - a));
}
Condition too_far(const Number& places) {
  const Condition far = places >= Number(static_cast<double>(8 * size_of(dtype())));
  return is_unsigned(dtype()) ? far : far | (places < Number(0));
}
Number shifted_left(const Number& a, const Number& places) {
  return select(too_far(places), Number(0), binary("shift_left", a, select(too_far(places), Number(0), places)));
}
Number shifted_right(const Number& a, const Number& places) {
  const Condition far = too_far(places);
  const Number by = select(far, Number(0), places);
  if (is_unsigned(dtype())) return select(far, Number(0), binary("shift_right_logical", a, by));
  return select(far, select(a < Number(0), Number(-1), Number(0)), binary("shift_right_arithmetic", a, by));
}
/// By squaring; 1 / a^|b|, truncated, for negative exponents.
Number integer_pow(Number a, const Number& b) {
  const Number zero(0), one(1), given = a;
  const int bits = static_cast<int>(8 * size_of(dtype()));
  Number result = one;
  for (int i = 0; i < bits; ++i) {
    const Number bit = binary("shift_right_logical", b, Number(i)) & one;
    result = select(bit != zero, result * a, result);
    if (i + 1 < bits) a = a * a;
  }
  if (is_unsigned(dtype())) return result;
  return select((b < zero) & (given != one) & (given != Number(-1)), zero, result);
}
Number pow(const Number& a, const Number& b) { return is_float(dtype()) ? binary("power", a, b) : integer_pow(a, b); }

const HloValue& result_of(const Number& x) { return x.value; }
const HloValue& result_of(const Condition& x) { return x.value; }
template <class S>
HloValue apply(const Number& x) {
  return result_of(S::value(x));
}
template <class S>
HloValue apply(const Number& x, const Number& y) {
  return result_of(S::value(x, y));
}

HloValue in_dtype(const Op& op, const Number& x, const Number& y) {
  switch (op.id) {
#define X(name, S) \
  case OpId::name: return apply<S>(x);
    STAVE_UNARY_OPS(X)
#undef X
#define X(name, S) \
  case OpId::name: return apply<S>(x, y);
    STAVE_BINARY_OPS(X)
#undef X
    default: return {};
  }
}

}  // namespace

HloFrexp hlo_frexp(HloBuilder& b, const HloValue& x) {
  const bool is_wide = x.dtype == float64;
  const Dtype integers = is_wide ? int64 : int32;
  const int places = is_wide ? 52 : 23, bias = is_wide ? 1022 : 126;
  // Subnormal numbers are multiplied by a power of two first.
  const double tiny = is_wide ? 0x1p-1022 : 0x1p-126, factor = is_wide ? 0x1p54 : 0x1p25;
  const HloValue is_tiny = b.compare("LT", b.unary("abs", x), b.like(x, tiny));
  const HloValue bits = b.bitcast(b.select(is_tiny, b.multiply(x, b.like(x, factor)), x), integers);
  const std::int64_t mask = (is_wide ? std::int64_t{0x7FF} : std::int64_t{0xFF}) << places;
  const HloValue field = b.binary("shift_right_logical", b.both(bits, b.like(bits, mask)), b.like(bits, places));
  const HloValue e = b.subtract(field, b.select(is_tiny, b.like(bits, bias + (is_wide ? 54 : 25)), b.like(bits, bias)));
  const HloValue m =
      b.bitcast(b.either(b.both(bits, b.like(bits, ~mask)), b.like(bits, std::int64_t{bias} << places)), x.dtype);
  const HloValue normal = b.both(b.is_finite(x), b.compare("NE", x, b.like(x, 0)));
  return {b.select(normal, m, x), b.select(normal, b.convert(e, x.dtype), b.like(x, 0))};
}

HloValue hlo_ldexp(HloBuilder& b, const HloValue& x, const HloValue& e) {
  const bool is_wide = x.dtype == float64;
  const int places = is_wide ? 52 : 23, bias = is_wide ? 1023 : 127, most = is_wide ? 3000 : 400;
  const Dtype integers = is_wide ? int64 : int32;
  const HloValue capped = b.binary("minimum", b.binary("maximum", e, b.like(e, -most)), b.like(e, most));
  const HloValue whole = b.convert(capped, integers), third = b.divide(whole, b.like(whole, 3));
  const auto power = [&](const HloValue& n) {
    return b.bitcast(b.binary("shift_left", b.add(n, b.like(n, bias)), b.like(n, places)), x.dtype);
  };
  const HloValue rest = b.subtract(whole, b.add(third, third)), factor = power(third);
  return b.multiply(b.multiply(b.multiply(x, power(rest)), factor), factor);
}

HloValue hlo_elementwise(HloBuilder& b, const Op& op, HloSpan operands, Dtype dtype) {
  const HloValue& x = operands[0];
  switch (op.id) {
    case OpId::astype: return b.astype(x, dtype);
    case OpId::stop_gradient: return x;
    case OpId::where: return b.select(x, operands[1], operands[2]);
    default: break;
  }
  // Sixteen-bit floats are computed in float32, and rounded once.
  const bool widens = is_half_float(x.dtype) && op.id != OpId::nextafter;
  const Dtype computed = widens ? float32 : x.dtype;
  const Target outer = std::exchange(target, {&b, {computed, x.shape}});
  const HloValue found =
      in_dtype(op, Number::of(b.convert(x, computed)), Number::of(b.convert(operands.back(), computed)));
  target = outer;
  return found.dtype == bool_ ? found : b.convert(found, dtype);
}

HloValues hlo_fused(const HloContext& c) {
  const Region& region = *c.as<FusedAttributes>().region;
  HloValues values(c.inputs.begin(), c.inputs.end());
  const Shape& shape = c.in().shape;
  for (const Region::Step& step : region.steps()) {
    if (!step.op) {
      values.push_back(c.b.number_of_bytes(step.bytes.words, step.dtype, shape));
      continue;
    }
    HloValues operands;
    for (const int operand : step.operands) operands.push_back(values[static_cast<std::size_t>(operand)]);
    values.push_back(hlo_elementwise(c.b, *step.op, operands, step.dtype));
  }
  HloValues results;
  for (std::size_t k = 0; k < region.outputs().size(); ++k) {
    const int output = region.outputs()[k];
    const HloValue& value = values[static_cast<std::size_t>(region.value_behind(output))];
    const Region::Reduction* const reduction = region.reduction(output);
    if (!reduction) {
      results.push_back(value);
      continue;
    }
    Shape axes;
    for (const Index axis : reduction->axes) axes.push_back(axis + shape.rank());
    results.push_back(hlo_reduction(c.b, reduction->op->id, value, axes, c.results[k]));
  }
  return results;
}

}  // namespace stave_detail
