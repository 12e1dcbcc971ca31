#include <stave/core/program/write_c_functions.h>

#include <array>
#include <span>

#include <stave/core/ops/erfinv.h>
#include <stave/core/ops/polygamma.h>
#include <stave/core/program/write_c_text.h>
#include <stave/core/tensor/fail.h>

namespace stave_detail {

namespace {

// ---- the texts ----------------------------------------------------------------------------------
// In these texts $T is the type of an element, $d its dtype, $U the unsigned type of its size, and
// $W the unsigned type in which it is computed; C would compute narrow unsigned integers as int,
// which may overflow. $f is the suffix of libm's functions and of literals. $p is the prefix of the
// functions' names. $tables are tables of coefficients. $largest is the number up to which a float
// represents every integer.

struct CText {
  const char* name;
  const char* calls;  // the functions that this one calls, separated by spaces
  const char* text;
};

// Integers wrap. A negative number is shifted to the right by a shift of its complement, because C
// leaves the shift of a negative number to the implementation.
constexpr CText integer_texts[] = {
    {"negative", "", R"(static $T $p_negative_$d($T a)
{
  return ($T)($U)(($W)0 - ($W)a);
}
)"},
    {"add", "", R"(static $T $p_add_$d($T a, $T b)
{
  return ($T)($U)(($W)a + ($W)b);
}
)"},
    {"subtract", "", R"(static $T $p_subtract_$d($T a, $T b)
{
  return ($T)($U)(($W)a - ($W)b);
}
)"},
    {"multiply", "", R"(static $T $p_multiply_$d($T a, $T b)
{
  return ($T)($U)(($W)a * ($W)b);
}
)"},
    {"shift_left", "", R"(static $T $p_shift_left_$d($T a, $T places)
{
  if (($U)places >= 8 * sizeof a) return 0;
  return ($T)($U)(($W)a << ($U)places);
}
)"},
};
constexpr CText signed_texts[] = {
    {"abs", "negative", R"(static $T $p_abs_$d($T a)
{
  return a < 0 ? $p_negative_$d(a) : a;
}
)"},
    {"shift_right", "", R"(static $T $p_shift_right_$d($T a, $T places)
{
  if (($U)places >= 8 * sizeof a) return a < 0 ? -1 : 0;
  return ($T)(a < 0 ? ~(~a >> places) : a >> places);
}
)"},
    {"floor_divide", "negative", R"(static $T $p_floor_divide_$d($T a, $T b)
{
  if (b == 0) return 0;
  if (b == -1) return $p_negative_$d(a);
  return ($T)(a / b - (a % b != 0 && (a < 0) != (b < 0)));
}
)"},
    {"remainder", "", R"(static $T $p_remainder_$d($T a, $T b)
{
  $T r;
  if (b == 0 || b == -1) return 0;
  r = ($T)(a % b);
  return ($T)(r != 0 && (r < 0) != (b < 0) ? r + b : r);
}
)"},
    {"pow", "", R"(static $T $p_pow_$d($T a, $T b)
{
  $U result = 1, base = ($U)a, rest = ($U)b;
  if (b < 0 && a != 1 && a != -1) return 0;
  for (; rest != 0; rest = ($U)(rest >> 1)) {
    if (rest & 1) result = ($U)(($W)result * base);
    base = ($U)(($W)base * base);
  }
  return ($T)result;
}
)"},
};
constexpr CText unsigned_texts[] = {
    {"shift_right", "", R"(static $T $p_shift_right_$d($T a, $T places)
{
  return ($T)(places >= 8 * sizeof a ? 0 : a >> places);
}
)"},
    {"floor_divide", "", R"(static $T $p_floor_divide_$d($T a, $T b)
{
  return ($T)(b == 0 ? 0 : a / b);
}
)"},
    {"remainder", "", R"(static $T $p_remainder_$d($T a, $T b)
{
  return ($T)(b == 0 ? 0 : a % b);
}
)"},
    {"pow", "", R"(static $T $p_pow_$d($T a, $T b)
{
  $T result = 1;
  for (; b != 0; b = ($T)(b >> 1)) {
    if (b & 1) result = ($T)(($W)result * a);
    a = ($T)(($W)a * a);
  }
  return result;
}
)"},
};

// floor_divide: if the rounded quotient is an integer although the remainder is at least half of b,
// the exact quotient is below this integer and was rounded up.
constexpr CText float_texts[] = {
    {"mantissa", "", R"(static $T $p_mantissa_$d($T x)
{
  int unused;
  return x - x == 0 ? frexp$f(x, &unused) : x;
}
)"},
    {"exponent", "", R"(static $T $p_exponent_$d($T x)
{
  int found = 0;
  if (x - x == 0) (void)frexp$f(x, &found);
  return ($T)found;
}
)"},
    {"ldexp", "", R"(static $T $p_ldexp_$d($T a, $T b)
{
  if (b != b) return b;
  return ldexp$f(a, b < -10000 ? -10000 : b > 10000 ? 10000 : (int)b);
}
)"},
    {"remainder", "", R"(static $T $p_remainder_$d($T a, $T b)
{
  const $T r = fmod$f(a, b);
  if (r == 0) return copysign$f(r, b);
  return (r < 0) != (b < 0) ? r + b : r;
}
)"},
    {"floor_divide", "remainder", R"(static $T $p_floor_divide_$d($T a, $T b)
{
  const $T quotient = a / b, whole = floor$f(quotient), r = fabs$f($p_remainder_$d(a, b));
  if (b == 0) return quotient;
  if (!(fabs$f(a) < INFINITY)) return a - a;
  if (whole == quotient && fabs$f(whole) <= $largest && !(fabs$f(b) - r > r)) return whole - 1;
  return whole;
}
)"},
};

// The functions below are computed in double, by the formulas of core/ops/polygamma.h,
// core/ops/erfinv.h and of erfc_of_root_half in backends/cpu/kernels/vec_transcendental.h.
constexpr CText double_texts[] = {
    {"polynomial", "", R"(static double $p_polynomial(double x, const double* c, int n)
{
  double sum = c[0];
  for (int i = 1; i < n; ++i) sum = sum * x + c[i];
  return sum;
}
)"},
    {"erfinv", "polynomial", R"(/* Giles, "Approximating the erfinv function" (GPU Computing Gems, 2011). */
static double $p_erfinv(double x)
{
$tables
  const double size = fabs(x);
  double w;
  if (size == 1.0) return copysign((double)INFINITY, x);
  if (!(size < 1.0)) return (double)NAN;
  w = -(size < 0.5 ? log1p(-(x * x)) : log((1.0 - size) * (1.0 + size)));
  if (w < 6.25) return x * $p_polynomial(w - 3.125, central, 23);
  if (w < 16.0) return x * $p_polynomial(sqrt(w) - 3.25, middle, 19);
  return x * $p_polynomial(sqrt(w) - 5.0, tail, 17);
}
)"},
    {"digamma", "polynomial",
     R"(/* Below 10 by the recurrence digamma(x + 1) = digamma(x) + 1 / x from a number between 1 and 2, above
   by the asymptotic series. For x < 0 by the reflection digamma(1 - x) = digamma(x) + pi / tan(pi x). */
static double $p_digamma(double x)
{
$tables
  const double size = x < 0.0 ? 1.0 - x : x;
  double y, rest;
  if (size < 10.0) {
    double sum = size < 1.0 ? -(1.0 / size) : 0.0, shifted = size < 1.0 ? size + 1.0 : size;
    while (shifted > 2.0) {
      shifted -= 1.0;
      sum += 1.0 / shifted;
    }
    y = sum + ((shifted - root[0]) - root[1]) * $p_polynomial(shifted + shifted - 3.0, central, 23);
  } else {
    const double z = 1.0 / (size * size);
    y = log(size) - 0.5 / size - z * $p_polynomial(z, tail, 8);
  }
  if (!(x < 0.0)) return y;
  rest = x - rint(x);
  return rest == 0.0 ? (double)NAN : y - 3.141592653589793 / tan(3.141592653589793 * rest);
}
)"},
    {"zeta_of_positive", "", R"(/* The fraction by which (a + b)^-s is less than sum^-s of the rounded sum. */
static double $p_lost_by_sum(double a, double b, double sum, double s)
{
  const double of_b = sum - a, lost = s * ((a - (sum - of_b)) + (b - of_b)) / sum;
  return fabs(lost) < 0.01 ? lost : 0.0;
}
/* zeta(s, q) for s > 1 and q > 0: ten terms of the sum, and the formula of Euler and Maclaurin. */
static double $p_zeta_of_positive(double s, double q)
{
$tables
  const double a = q + 10.0, z = 1.0 / (a * a);
  const double integral = pow(a, 1.0 - s) * (1.0 - $p_lost_by_sum(q, 10.0, a, s - 1.0)), last = integral / a;
  double series = tail[0], sum;
  for (int k = 1; k < 9; ++k) {
    const double up = s + 2.0 * (9 - k);
    series = tail[k] + (up - 1.0) * up * z * series;
  }
  sum = integral / (s - 1.0) + (last == 0.0 ? 0.0 : last * (0.5 + s / a * series));
  for (int k = 9; k > 0; --k) {
    const double at = q + k;
    sum += pow(at, -s) * (1.0 - $p_lost_by_sum(q, k, at, s));
  }
  return sum + pow(q, -s);
}
)"},
    {"zeta", "zeta_of_positive",
     R"(/* The Hurwitz zeta function. It is NaN for s < 1, and for negative q unless s is an integer. */
static double $p_zeta(double s, double q)
{
  const double whole = floor(q), half = 0.5 * s;
  double of_rest, of_left, beyond;
  if (q != q) return q;
  if (!(s > 1.0)) return s == 1.0 ? (double)INFINITY : (double)NAN;
  if (q == whole && q <= 0.0) return (double)INFINITY;
  if (!(q < 0.0)) return $p_zeta_of_positive(s, q);
  if (s != floor(s)) return (double)NAN;
  of_rest = $p_zeta_of_positive(s, q - whole);
  of_left = $p_zeta_of_positive(s, -q - floor(-q));
  beyond = $p_zeta_of_positive(s, 1.0 - q);
  return half == floor(half) ? (of_rest + of_left) - beyond : (of_rest - of_left) + beyond;
}
)"},
    {"erfc_of_root_half", "",
     R"(/* erfc(x / sqrt(2)), corrected for the rounding error of the quotient (Dekker, 1971). */
static double $p_erfc_of_root_half(double x)
{
  const double root = 0x1.6a09e667f3bcdp-1, rest = -0x1.bdd3413b26456p-55, split = 134217729.0;
  const double z = x * root, y = erfc(z);
  const double x_high = x * split - (x * split - x), x_low = x - x_high;
  const double root_high = root * split - (root * split - root), root_low = root - root_high;
  const double lost = x_low * root_low - (((z - x_high * root_high) - x_low * root_high) - x_high * root_low) + x * rest;
  const double part = lost * (z + sqrt(z * z + 1.6));
  return z > 0.0 && fabs(part) < (double)INFINITY ? y - y * part : y;
}
)"},
};

const CText* find(std::span<const CText> texts, std::string_view name) {
  for (const CText& text : texts)
    if (name == text.name) return &text;
  return nullptr;
}

const CText* find_for(Dtype integer, std::string_view name) {
  return is_signed(integer) ? find(signed_texts, name) : find(unsigned_texts, name);
}

std::string tables_of(std::string_view name) {
  std::string text;
  if (name == "erfinv") {
    constexpr ErfinvDouble c;
    text = c_table("central", c.central, "  ") + c_table("middle", c.middle, "  ") + c_table("tail", c.tail, "  ");
  } else if (name == "digamma") {
    constexpr DigammaDouble c;
    const double root[] = {c.root, c.root_rest};
    text = c_table("central", c.central, "  ") + c_table("tail", c.tail, "  ") + c_table("root", root, "  ");
  } else if (name == "zeta_of_positive") {
    constexpr ZetaDouble c;
    text = c_table("tail", c.tail, "  ");
  }
  if (!text.empty()) text.pop_back();
  return text;
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
}

// ---- operations ---------------------------------------------------------------------------------

bool is_own_function(ScalarOp op) {
  return op == ScalarOp::erfinv || op == ScalarOp::digamma || op == ScalarOp::zeta || op == ScalarOp::erfc_of_root_half;
}
// Returns true for functions whose float version errs by more than 1 ulp in the GNU C library. They
// are computed in double and rounded.
bool is_inaccurate_in_single(ScalarOp op) {
  switch (op) {
    case ScalarOp::sinh:
    case ScalarOp::cosh:
    case ScalarOp::tanh:
    case ScalarOp::asinh:
    case ScalarOp::acosh:
    case ScalarOp::atanh:
    case ScalarOp::log1p:
    case ScalarOp::log10:
    case ScalarOp::lgamma:
    case ScalarOp::erfc: return true;
    default: return false;
  }
}

const char* operator_of(ScalarOp op) {
  switch (op) {
    case ScalarOp::add: return "+";
    case ScalarOp::subtract: return "-";
    case ScalarOp::multiply: return "*";
    case ScalarOp::divide: return "/";
    case ScalarOp::equal: return "==";
    case ScalarOp::not_equal: return "!=";
    case ScalarOp::less: return "<";
    case ScalarOp::less_equal: return "<=";
    case ScalarOp::bit_and: return "&";
    case ScalarOp::bit_or: return "|";
    case ScalarOp::bit_xor: return "^";
    default: return nullptr;
  }
}
bool is_bit_operation(ScalarOp op) {
  return op == ScalarOp::bit_and || op == ScalarOp::bit_or || op == ScalarOp::bit_xor || op == ScalarOp::bit_not;
}

[[noreturn]] void refuse(ScalarOp op, Dtype dtype) {
  fail<TransformError>("write_c: there is no `{}` of {}", name_of(op), name_of(dtype));
}

}  // namespace

void CFunctions::define(const std::string& name, Dtype dtype) {
  const CText* it = is_float(dtype) ? find(float_texts, name) : find(integer_texts, name);
  if (!it && dtype == float64) it = find(double_texts, name);
  if (!it && !is_float(dtype)) it = find_for(dtype, name);
  const std::string key = name + " " + name_of(dtype);
  if (!it || !defined_.emplace(key, true).second) return;
  for (std::string_view rest = it->calls; !rest.empty();) {
    const std::size_t end = std::min(rest.find(' '), rest.size());
    define(std::string(rest.substr(0, end)), dtype);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  std::string text = it->text;
  const std::string type = c_type(dtype);
  const std::size_t bits = 8 * size_of(dtype);
  replace_all(text, "$tables", tables_of(name));
  replace_all(text, "$largest", dtype == float32 ? "0x1p24f" : "0x1p53");
  replace_all(text, "$T", type);
  replace_all(text, "$U", fmt::format("uint{}_t", bits));
  replace_all(text, "$W", bits == 64 ? "uint64_t" : "uint32_t");
  replace_all(text, "$d", name_of(dtype));
  replace_all(text, "$f", dtype == float32 ? "f" : "");
  replace_all(text, "$p", prefix_);
  text_ += text;
}

// Defines a function and returns its name.
std::string CFunctions::own(const std::string& name, Dtype dtype) {
  define(name, dtype);
  return find(double_texts, name) ? fmt::format("{}_{}", prefix_, name)
                                  : fmt::format("{}_{}_{}", prefix_, name, name_of(dtype));
}

std::string CFunctions::conversion(Dtype from, Dtype to, const std::string& x) {
  if (from == to) return x;
  if (to == bool_) return x + " != 0";
  if (!is_float(from) || is_float(to)) return fmt::format("({}){}", c_type(to), x);
  // A float out of range becomes the nearest integer, and NaN becomes 0. The upper limit in the
  // code is a power of two, which a float represents exactly.
  const std::string name = fmt::format("{}_{}_from_{}", prefix_, name_of(to), name_of(from));
  if (defined_.emplace(name, true).second) {
    const bool has_sign = is_signed(to);
    const std::size_t bits = 8 * size_of(to);
    const char* const suffix = from == float32 ? "f" : "";
    text_ += fmt::format("static {} {}({} x)\n{{\n  if (x != x) return 0;\n", c_type(to), name, c_type(from));
    text_ +=
        fmt::format("  if (x >= 0x1p{}{}) return {}INT{}_MAX;\n", bits - has_sign, suffix, has_sign ? "" : "U", bits);
    if (has_sign) text_ += fmt::format("  if (x <= -0x1p{}{}) return INT{}_MIN;\n", bits - 1, suffix, bits);
    else text_ += "  if (x <= 0) return 0;\n";
    text_ += fmt::format("  return ({})x;\n}}\n", c_type(to));
  }
  return fmt::format("{}({})", name, x);
}

std::string CFunctions::of_bool(ScalarOp op, const std::string* x) {
  switch (op) {
    case ScalarOp::bit_and: return fmt::format("{} && {}", x[0], x[1]);
    case ScalarOp::bit_or: return fmt::format("{} || {}", x[0], x[1]);
    case ScalarOp::bit_xor:
    case ScalarOp::not_equal: return fmt::format("{} != {}", x[0], x[1]);
    case ScalarOp::equal: return fmt::format("{} == {}", x[0], x[1]);
    case ScalarOp::less: return fmt::format("!{} && {}", x[0], x[1]);
    case ScalarOp::less_equal: return fmt::format("!{} || {}", x[0], x[1]);
    case ScalarOp::bit_not: return "!" + x[0];
    default: refuse(op, bool_);
  }
}

std::string CFunctions::of_integer(ScalarOp op, Dtype dtype, const std::string* x) {
  const bool is_comparison = op >= ScalarOp::equal && op <= ScalarOp::less_equal;
  switch (op) {
    case ScalarOp::floor:
    case ScalarOp::ceil:
    case ScalarOp::rint:
    case ScalarOp::trunc: return x[0];
    case ScalarOp::abs:
      if (is_unsigned(dtype)) return x[0];
      break;
    case ScalarOp::bit_not: return fmt::format("({})~{}", c_type(dtype), x[0]);
    case ScalarOp::add:
    case ScalarOp::subtract:
    case ScalarOp::multiply:
      // Unsigned integers of at least 32 bits wrap in C.
      if (!is_unsigned(dtype) || size_of(dtype) < 4) break;
      return fmt::format("{} {} {}", x[0], operator_of(op), x[1]);
    default: break;
  }
  if (is_comparison) return fmt::format("{} {} {}", x[0], operator_of(op), x[1]);
  if (is_bit_operation(op)) return fmt::format("({})({} {} {})", c_type(dtype), x[0], operator_of(op), x[1]);
  const std::string name = name_of(op);
  if (!find(integer_texts, name) && !find_for(dtype, name)) refuse(op, dtype);
  const std::string call = own(name, dtype) + "(" + x[0];
  return operand_count(op) == 1 ? call + ")" : call + ", " + x[1] + ")";
}

std::string CFunctions::of_float(ScalarOp op, bool is_single, const std::string* x) {
  const Dtype dtype = is_single ? float32 : float64;
  if (is_bit_operation(op) || op == ScalarOp::shift_left || op == ScalarOp::shift_right) refuse(op, dtype);
  if (op == ScalarOp::negative) return "-" + x[0];
  if (op == ScalarOp::signbit)
    return fmt::format("copysign{}(1{}, {}) < 0", is_single ? "f" : "", is_single ? ".0f" : ".0", x[0]);
  if (operator_of(op)) return fmt::format("{} {} {}", x[0], operator_of(op), x[1]);
  std::string name = op == ScalarOp::abs ? "fabs" : name_of(op);
  const bool by_double = is_single && (is_own_function(op) || is_inaccurate_in_single(op));
  if (is_own_function(op)) name = own(name, float64);
  else if (find(float_texts, name)) name = own(name, dtype);
  else if (is_single && !by_double) name += "f";
  std::string call = name + "(";
  for (int i = 0; i < operand_count(op); ++i) {
    if (i > 0) call += ", ";
    call += (by_double ? "(double)" : "") + x[i];
  }
  return (by_double ? "(float)" : "") + call + ")";
}

std::string CFunctions::expression(ScalarOp op, Dtype dtype, Dtype result, const std::string* x) {
  c_type(dtype);  // refuses half floats
  if (op == ScalarOp::convert) return conversion(dtype, result, x[0]);
  if (op == ScalarOp::select) {
    const std::string choice = fmt::format("{} ? {} : {}", x[0], x[1], x[2]);
    return is_integer(dtype) && size_of(dtype) < 4 ? fmt::format("({})({})", c_type(dtype), choice) : choice;
  }
  if (dtype == bool_) return of_bool(op, x);
  return is_float(dtype) ? of_float(op, dtype == float32, x) : of_integer(op, dtype, x);
}

}  // namespace stave_detail
