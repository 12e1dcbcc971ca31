// Elementwise operations as StableHLO: the functions of core/ops/elementwise_ops.h, called with
// values of the text, write the text of their results.
#include <cmath>
#include <limits>
#include <utility>

#include <stave/core/program/complex_parts.h>
#include <stave/core/program/fused.h>
#include <stave/core/program/stablehlo_functions.h>
#include <stave/core/program/stablehlo_rules.h>

namespace stave_detail {

namespace {

// The builder that the functions of elementwise_ops.h write to, and the type of their numbers. It
// is a thread-local variable, because these functions construct a HloNumber from a literal alone.
struct HloTarget {
  HloBuilder* b = nullptr;
  HloType type = {bool_, {}};
};
thread_local HloTarget* hlo_target;

struct HloCondition {
  HloValue value;
};
struct HloNumber {
  HloValue value;
  HloNumber() = default;
  explicit HloNumber(double literal)
      : value(hlo_target->b->number(Scalar(literal), hlo_target->type.dtype, hlo_target->type.shape)) {}
  static HloNumber of(HloValue value) {
    HloNumber x;
    x.value = std::move(value);
    return x;
  }
};

Dtype dtype() { return hlo_target->type.dtype; }
bool is_double(const HloNumber&) { return dtype() == float64; }
constexpr bool any(const HloCondition&) { return true; }

HloNumber unary(const char* name, const HloNumber& x) { return HloNumber::of(hlo_target->b->unary(name, x.value)); }
HloNumber binary(const char* name, const HloNumber& a, const HloNumber& b) {
  return HloNumber::of(hlo_target->b->binary(name, a.value, b.value));
}
HloCondition compare(const char* direction, const HloNumber& a, const HloNumber& b) {
  return {hlo_target->b->compare(direction, a.value, b.value)};
}

#define X(symbol, name) \
  HloNumber operator symbol(const HloNumber& a, const HloNumber& b) { return binary(name, a, b); }
X(+, "add")
X(-, "subtract")
X(*, "multiply")
X(/, "divide")
X(&, "and")
X(|, "or")
X(^, "xor")
#undef X
HloNumber operator-(const HloNumber& x) { return unary("negate", x); }
HloNumber operator~(const HloNumber& x) { return unary("not", x); }
#define X(symbol, direction) \
  HloCondition operator symbol(const HloNumber& a, const HloNumber& b) { return compare(direction, a, b); }
X(==, "EQ")
X(!=, "NE")
X(<, "LT")
X(<=, "LE")
X(>, "GT")
X(>=, "GE")
#undef X
#define X(symbol, name)                                                        \
  HloCondition operator symbol(const HloCondition& a, const HloCondition& b) { \
    return {hlo_target->b->binary(name, a.value, b.value)};                    \
  }
X(&, "and")
X(|, "or")
X(^, "xor")
#undef X
HloNumber select(const HloCondition& condition, const HloNumber& a, const HloNumber& b) {
  return HloNumber::of(hlo_target->b->select(condition.value, a.value, b.value));
}

// ---- bits ---------------------------------------------------------------------------------------

Dtype bits_dtype(Dtype of) { return size_of(of) == 8 ? int64 : size_of(of) == 4 ? int32 : int16; }
HloValue bits_of(const HloNumber& x) { return hlo_target->b->bitcast(x.value, bits_dtype(x.value.dtype)); }
HloNumber from_bits(const HloValue& bits) { return HloNumber::of(hlo_target->b->bitcast(bits, dtype())); }
HloCondition signbit(const HloNumber& x) {
  const HloValue bits = bits_of(x);
  return {hlo_target->b->compare("LT", bits, hlo_target->b->full_like(bits, 0))};
}
std::int64_t sign_mask() {
  const auto places = 8 * size_of(dtype()) - 1;
  return places == 63 ? std::numeric_limits<std::int64_t>::min() : -(std::int64_t{1} << places);
}
HloNumber copysign(const HloNumber& x, const HloNumber& y) {
  HloBuilder& b = *hlo_target->b;
  const HloValue bits = bits_of(x), mask = b.full_like(bits, sign_mask());
  return from_bits(b.either(b.both(bits, b.invert(mask)), b.both(bits_of(y), mask)));
}
/// The next float after x towards y: floats of one sign are ordered as their bits.
HloNumber nextafter(const HloNumber& x, const HloNumber& y) {
  HloBuilder& b = *hlo_target->b;
  const HloValue bits = bits_of(x), one = b.full_like(bits, 1), zero = b.full_like(bits, 0);
  const HloValue of_y = bits_of(y), magnitude = b.both(bits, b.invert(b.full_like(bits, sign_mask())));
  const HloValue tiny = b.either(b.both(of_y, b.full_like(bits, sign_mask())), one);
  const HloValue negative = b.compare("LT", bits, zero), up = (x < y).value;
  const HloValue grows = b.compare("NE", negative, up);
  const HloValue moved = b.select(grows, b.add(bits, one), b.subtract(bits, one));
  const HloNumber found = from_bits(b.select(b.compare("EQ", magnitude, zero), tiny, moved));
  return select((x != x) | (y != y), x + y, select(x == y, y, found));
}
/// The exact a * b - product, from halves of the significands (Dekker, "A floating-point technique
/// for extending the available precision", 1971). The halves are cut off by their bits, because XLA
/// may contract products and sums.
HloNumber lost_of_product(const HloNumber& a, const HloNumber& b, const HloNumber& product) {
  HloBuilder& text = *hlo_target->b;
  const auto high = [&](const HloNumber& x) {
    const HloValue bits = bits_of(x);
    const std::int64_t low = dtype() == float64 ? (std::int64_t{1} << 27) - 1 : (std::int64_t{1} << 12) - 1;
    return from_bits(text.both(bits, text.full_like(bits, ~low)));
  };
  const HloNumber a_high = high(a), a_low = a - a_high, b_high = high(b), b_low = b - b_high;
  return (((a_high * b_high - product) + a_high * b_low) + a_low * b_high) + a_low * b_low;
}

// ---- functions ----------------------------------------------------------------------------------

#define X(name, hlo) \
  HloNumber name(const HloNumber& x) { return unary(hlo, x); }
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
HloNumber pow(const HloNumber& a, const HloNumber& b);
HloNumber abs(const HloNumber& x) { return is_unsigned(dtype()) ? x : unary("abs", x); }
HloNumber floor(const HloNumber& x) { return is_float(dtype()) ? unary("floor", x) : x; }
HloNumber ceil(const HloNumber& x) { return is_float(dtype()) ? unary("ceil", x) : x; }
HloNumber rint(const HloNumber& x) { return is_float(dtype()) ? unary("round_nearest_even", x) : x; }
HloNumber trunc(const HloNumber& x) { return is_float(dtype()) ? select(x < HloNumber(0), ceil(x), floor(x)) : x; }
HloCondition isfinite(const HloNumber& x) {
  if (is_float(dtype())) return {hlo_target->b->is_finite(x.value)};
  return {hlo_target->b->number(true, bool_, x.value.shape)};
}
HloCondition isinf(const HloNumber& x) {
  if (is_float(dtype())) return abs(x) == HloNumber(std::numeric_limits<double>::infinity());
  return {hlo_target->b->number(false, bool_, x.value.shape)};
}
template <class C, std::size_t n>
HloNumber polynomial(const HloNumber& x, const C (&coefficients)[n]) {
  HloNumber sum(static_cast<double>(coefficients[0]));
  for (std::size_t i = 1; i < n; ++i) sum = sum * x + HloNumber(static_cast<double>(coefficients[i]));
  return sum;
}
HloNumber frexp(const HloNumber& x, HloNumber& exponent) {
  const HloFrexp parts = hlo_frexp(*hlo_target->b, x.value);
  exponent = HloNumber::of(parts.exponent);
  return HloNumber::of(parts.mantissa);
}
HloNumber ldexp(const HloNumber& x, const HloNumber& e) {
  return HloNumber::of(hlo_ldexp(*hlo_target->b, x.value, e.value));
}

HloNumber exp2(const HloNumber& x) {
  const HloNumber whole = rint(x), e = exp((x - whole) * HloNumber(0.69314718055994531));
  return select(isfinite(x), ldexp(e, whole), exp(x));
}
// x = m 2^e with 1/sqrt(2) <= m < sqrt(2), so that logarithms of powers of two are exact.
HloNumber log2(const HloNumber& x) {
  HloNumber e, m = frexp(x, e);
  const HloCondition small = m < HloNumber(0.70710678118654757);
  const HloNumber near = log(select(small, m + m, m)) * HloNumber(1.4426950408889634);
  return select(isfinite(x) & (x > HloNumber(0)), near + select(small, e - HloNumber(1), e), log(x));
}
HloNumber log10(const HloNumber& x) { return log(x) * HloNumber(0.4342944819032518); }
HloNumber atan2(const HloNumber& y, const HloNumber& x) { return binary("atan2", y, x); }
HloNumber atan(const HloNumber& x) { return atan2(x, HloNumber(1)); }
HloNumber asin(const HloNumber& x) { return atan2(x, sqrt((HloNumber(1) - x) * (HloNumber(1) + x))); }
HloNumber acos(const HloNumber& x) { return atan2(sqrt((HloNumber(1) - x) * (HloNumber(1) + x)), x); }
HloNumber sinh(const HloNumber& x) {
  const HloNumber size = abs(x), e = expm1(size), half = exp(HloNumber(0.5) * size);
  const HloNumber near = HloNumber(0.5) * (e + e / (e + HloNumber(1))), far = (HloNumber(0.5) * half) * half;
  return copysign(select(size < HloNumber(20), near, far), x);
}
HloNumber cosh(const HloNumber& x) {
  const HloNumber size = abs(x), e = exp(size), half = exp(HloNumber(0.5) * size);
  return select(size < HloNumber(20), HloNumber(0.5) * (e + HloNumber(1) / e), (HloNumber(0.5) * half) * half);
}
HloNumber asinh(const HloNumber& x) {
  const HloNumber size = abs(x), square = size * size;
  const HloNumber near = log1p(size + square / (HloNumber(1) + sqrt(square + HloNumber(1))));
  return copysign(select(size > HloNumber(1e9), log(size) + HloNumber(0.69314718055994531), near), x);
}
HloNumber acosh(const HloNumber& x) {
  const HloNumber t = x - HloNumber(1), near = log1p(t + sqrt(t * (x + HloNumber(1))));
  return select(x > HloNumber(1e9), log(x) + HloNumber(0.69314718055994531), near);
}
HloNumber atanh(const HloNumber& x) {
  const HloNumber size = abs(x);
  return copysign(HloNumber(0.5) * log1p(HloNumber(2) * size / (HloNumber(1) - size)), x);
}
/// sqrt(x^2 + y^2), in units of a power of two so that squares neither overflow nor underflow.
HloNumber hypot(const HloNumber& x, const HloNumber& y) {
  const HloNumber a = abs(x), b = abs(y), larger = select(a > b, a, b);
  const double edge = is_double(x) ? 0x1p500 : 0x1p60;
  const HloCondition large = larger > HloNumber(edge), tiny = larger < HloNumber(1 / edge);
  const HloNumber unit = select(large, HloNumber(1 / (edge * 16)), select(tiny, HloNumber(edge * 16), HloNumber(1)));
  const HloNumber back = select(large, HloNumber(edge * 16), select(tiny, HloNumber(1 / (edge * 16)), HloNumber(1)));
  const HloNumber u = a * unit, v = b * unit, infinity(std::numeric_limits<double>::infinity());
  return select(isinf(x) | isinf(y), infinity, sqrt(u * u + v * v) * back);
}

/// Returns f(xs...). For float32, computes it in float64 if StableHloOptions::wide allows that.
template <class F, class... Numbers>
HloNumber widely(F f, const Numbers&... xs) {
  HloBuilder& b = *hlo_target->b;
  if (dtype() != float32 || !b.options().wide) return f(xs...);
  const HloType outer = std::exchange(hlo_target->type, {float64, hlo_target->type.shape});
  const HloNumber found = f(HloNumber::of(b.convert(xs.value, float64))...);
  hlo_target->type = outer;
  return HloNumber::of(b.convert(found.value, outer.dtype));
}
#define X(name, f, wrapper)                                     \
  HloNumber name(const HloNumber& x) {                          \
    return wrapper([](const HloNumber& a) { return f(a); }, x); \
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
HloNumber zeta(const HloNumber& s, const HloNumber& q) {
  return widely([](const HloNumber& x, const HloNumber& y) { return zeta_of(x, y); }, s, q);
}

// ---- division and powers ------------------------------------------------------------------------

/// Returns the divisor b, with 1 in the place of 0 and of -1, by which the smallest integer cannot
/// be divided.
HloNumber safe_divisor(const HloNumber& b) {
  HloCondition unsafe = b == HloNumber(0);
  if (is_signed(dtype())) unsafe = unsafe | (b == HloNumber(-1));
  return select(unsafe, HloNumber(1), b);
}
HloNumber remainder(const HloNumber& a, const HloNumber& b) {
  const HloNumber zero(0);
  if (!is_float(dtype())) {
    const HloNumber safe = safe_divisor(b), r = binary("remainder", a, safe);
    if (is_unsigned(dtype())) return r;
    return select((r != zero) & ((r < zero) ^ (safe < zero)), r + safe, r);
  }
  const HloNumber r = binary("remainder", a, b), moved = select((r < zero) ^ (b < zero), r + b, r);
  return select(r == zero, copysign(zero, b), moved);
}
HloNumber floor_divide(const HloNumber& a, const HloNumber& b) {
  const HloNumber zero(0), one(1);
  if (is_unsigned(dtype())) return select(b == zero, zero, a / safe_divisor(b));
  if (!is_float(dtype())) {
    const HloNumber safe = safe_divisor(b), quotient = a / safe, r = a - quotient * safe;
    const HloNumber down = select((r != zero) & ((r < zero) ^ (safe < zero)), quotient - one, quotient);
    return select(b == zero, zero, select(b == HloNumber(-1), -a, down));
  }
  // As in backends/cpu/kernels/vec_integer.h.
  const HloNumber quotient = a / b, whole = floor(quotient), r = abs(remainder(a, b));
  const HloCondition is_integer = (whole == quotient) & (abs(whole) <= HloNumber(is_double(a) ? 0x1p53 : 0x1p24));
  const HloCondition is_exact = abs(b) - r > r;
  const HloNumber down = select(is_exact, whole, select(is_integer, whole - one, whole));
  return select(b == zero, quotient, select(isfinite(a), down, a - a));
}
HloCondition too_far(const HloNumber& places) {
  const HloCondition far = places >= HloNumber(static_cast<double>(8 * size_of(dtype())));
  return is_unsigned(dtype()) ? far : far | (places < HloNumber(0));
}
HloNumber shifted_left(const HloNumber& a, const HloNumber& places) {
  return select(too_far(places), HloNumber(0), binary("shift_left", a, select(too_far(places), HloNumber(0), places)));
}
HloNumber shifted_right(const HloNumber& a, const HloNumber& places) {
  const HloCondition far = too_far(places);
  const HloNumber by = select(far, HloNumber(0), places);
  if (is_unsigned(dtype())) return select(far, HloNumber(0), binary("shift_right_logical", a, by));
  return select(far, select(a < HloNumber(0), HloNumber(-1), HloNumber(0)), binary("shift_right_arithmetic", a, by));
}
/// a^b by repeated squaring. For negative exponents it is 1 / a^|b|, truncated.
HloNumber integer_pow(HloNumber a, const HloNumber& b) {
  const HloNumber zero(0), one(1), given = a;
  const int bits = static_cast<int>(8 * size_of(dtype()));
  HloNumber result = one;
  for (int i = 0; i < bits; ++i) {
    const HloNumber bit = binary("shift_right_logical", b, HloNumber(i)) & one;
    result = select(bit != zero, result * a, result);
    if (i + 1 < bits) a = a * a;
  }
  if (is_unsigned(dtype())) return result;
  return select((b < zero) & (given != one) & (given != HloNumber(-1)), zero, result);
}
HloNumber pow(const HloNumber& a, const HloNumber& b) {
  return is_float(dtype()) ? binary("power", a, b) : integer_pow(a, b);
}

const HloValue& result_of(const HloNumber& x) { return x.value; }
const HloValue& result_of(const HloCondition& x) { return x.value; }
template <class S>
HloValue apply(const HloNumber& x) {
  return result_of(S::value(x));
}
template <class S>
HloValue apply(const HloNumber& x, const HloNumber& y) {
  return result_of(S::value(x, y));
}

HloValue in_dtype(const Op& op, const HloNumber& x, const HloNumber& y) {
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

// ---- complex numbers ----------------------------------------------------------------------------

// The operation of StableHLO for a function of complex numbers, or null if it is composed.
const char* complex_function(OpId id) {
  switch (id) {
    case OpId::negative: return "negate";
    case OpId::exp: return "exponential";
    case OpId::log: return "log";
    case OpId::sqrt: return "sqrt";
    case OpId::sin: return "sine";
    case OpId::cos: return "cosine";
    case OpId::tanh: return "tanh";
    default: return nullptr;
  }
}

// A function of the parts of complex numbers, composed by complex_parts.h.
HloValue by_parts(HloBuilder& b, OpId id, const HloValue& z, const HloValue& w) {
  const Dtype computed = b.accumulator(z.dtype);
  HloTarget target{&b, {real_of(computed), z.shape}};
  HloTarget* const outer = std::exchange(hlo_target, &target);
  const auto parts = [&](const HloValue& x) {
    const HloValue wide = b.convert(x, computed);
    return Parts<HloNumber>{HloNumber::of(b.real(wide)), HloNumber::of(b.imag(wide))};
  };
  const Parts<HloNumber> found = value_of_parts(id, parts(z), parts(w));
  hlo_target = outer;
  return b.convert(b.complex(found.re.value, found.im.value), z.dtype);
}

HloValue of_complex(HloBuilder& b, OpId id, const HloValue& z, const HloValue& w) {
  if (const char* const name = complex_function(id)) return b.unary(name, z);
  const HloValue zero = b.full_like(z, 0);
  switch (id) {
    case OpId::add: return b.add(z, w);
    case OpId::subtract: return b.subtract(z, w);
    case OpId::multiply: return b.multiply(z, w);
    case OpId::square: return b.multiply(z, z);
    case OpId::divide: return b.divide(z, w);
    case OpId::reciprocal: return b.divide(b.full_like(z, 1), z);
    case OpId::scale: return b.scale(z, w);
    case OpId::scale_by_inverse: {
      const auto is_infinite = [&](const HloValue& x) {
        return b.compare("EQ", b.abs(x), b.full_like(x, hlo_infinity));
      };
      const HloValue vanishes = b.either(is_infinite(b.real(w)), is_infinite(b.imag(w)));
      return b.select(b.either(b.compare("EQ", z, zero), vanishes), zero, b.divide(z, w));
    }
    case OpId::equal: return b.compare("EQ", z, w);
    case OpId::not_equal: return b.compare("NE", z, w);
    default: return by_parts(b, id, z, w);
  }
}

}  // namespace

HloFrexp hlo_frexp(HloBuilder& b, const HloValue& x) {
  const bool is_wide = x.dtype == float64;
  const Dtype integers = is_wide ? int64 : int32;
  const int places = is_wide ? 52 : 23, bias = is_wide ? 1022 : 126;
  // Subnormal numbers are multiplied by a power of two first.
  const double tiny = is_wide ? 0x1p-1022 : 0x1p-126, factor = is_wide ? 0x1p54 : 0x1p25;
  const HloValue is_tiny = b.compare("LT", b.unary("abs", x), b.full_like(x, tiny));
  const HloValue bits = b.bitcast(b.select(is_tiny, b.multiply(x, b.full_like(x, factor)), x), integers);
  const std::int64_t mask = (is_wide ? std::int64_t{0x7FF} : std::int64_t{0xFF}) << places;
  const HloValue field =
      b.binary("shift_right_logical", b.both(bits, b.full_like(bits, mask)), b.full_like(bits, places));
  const HloValue e =
      b.subtract(field, b.select(is_tiny, b.full_like(bits, bias + (is_wide ? 54 : 25)), b.full_like(bits, bias)));
  const HloValue m = b.bitcast(
      b.either(b.both(bits, b.full_like(bits, ~mask)), b.full_like(bits, std::int64_t{bias} << places)), x.dtype);
  const HloValue normal = b.both(b.is_finite(x), b.compare("NE", x, b.full_like(x, 0)));
  return {b.select(normal, m, x), b.select(normal, b.convert(e, x.dtype), b.full_like(x, 0))};
}

HloValue hlo_ldexp(HloBuilder& b, const HloValue& x, const HloValue& e) {
  const bool is_wide = x.dtype == float64;
  const int places = is_wide ? 52 : 23, bias = is_wide ? 1023 : 127, most = is_wide ? 3000 : 400;
  const Dtype integers = is_wide ? int64 : int32;
  const HloValue capped = b.binary("minimum", b.binary("maximum", e, b.full_like(e, -most)), b.full_like(e, most));
  const HloValue whole = b.convert(capped, integers), third = b.divide(whole, b.full_like(whole, 3));
  const auto power = [&](const HloValue& n) {
    return b.bitcast(b.binary("shift_left", b.add(n, b.full_like(n, bias)), b.full_like(n, places)), x.dtype);
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
    case OpId::complex: return b.complex(x, operands[1]);
    case OpId::real: return b.real(x);
    case OpId::imag: return b.imag(x);
    case OpId::conj: return b.conj(x);
    default: break;
  }
  if (is_complex(x.dtype)) return of_complex(b, op.id, x, operands.back());
  // Sixteen-bit floats are computed in float32, and rounded once.
  const bool widens = is_half_float(x.dtype) && op.id != OpId::nextafter;
  const Dtype computed = widens ? float32 : x.dtype;
  HloTarget target{&b, {computed, x.shape}};
  HloTarget* const outer = std::exchange(hlo_target, &target);
  const HloValue found =
      in_dtype(op, HloNumber::of(b.convert(x, computed)), HloNumber::of(b.convert(operands.back(), computed)));
  hlo_target = outer;
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
