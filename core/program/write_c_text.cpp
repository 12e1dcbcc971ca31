#include <stave/core/program/write_c_text.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include <stave/core/tensor/fail.h>
#include <stave/core/tensor/print.h>

namespace stave_detail {

// ---- numbers ------------------------------------------------------------------------------------

const char* c_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::bool_: return "bool";
    case Dtype::uint8: return "uint8_t";
    case Dtype::uint16: return "uint16_t";
    case Dtype::uint32: return "uint32_t";
    case Dtype::uint64: return "uint64_t";
    case Dtype::int8: return "int8_t";
    case Dtype::int16: return "int16_t";
    case Dtype::int32: return "int32_t";
    case Dtype::int64: return "int64_t";
    case Dtype::float32: return "float";
    case Dtype::float64: return "double";
    case Dtype::float16:
    case Dtype::bfloat16:
    case Dtype::complex64:
    case Dtype::complex128: break;
  }
  fail<DtypeError>("write_c: C has no type for elements of {}; convert them with astype", name_of(dtype));
}

namespace {

template <class T>
std::string text_of_float(T x) {
  const bool is_single = sizeof(T) == 4, is_negative = std::signbit(x);
  std::string text;
  if (std::isnan(x) || std::isinf(x)) {
    text = std::isnan(x) ? "NAN" : "INFINITY";  // both are of type float
    if (!is_single) text = "(double)" + text;
  } else {
    text = fmt::format("{}", std::abs(x));
    if (text.find_first_of(".e") == std::string::npos) text += ".0";
    if (is_single) text += "f";
  }
  return is_negative ? "(-" + text + ")" : text;
}

template <class T>
std::string text_of_integer(T x) {
  constexpr bool is_wide = sizeof(T) == 8;
  if constexpr (std::is_unsigned_v<T>) {
    if (is_wide) return fmt::format("UINT64_C({})", x);
    return fmt::format(sizeof(T) == 4 ? "{}u" : "{}", x);
  } else {
    // C has no negative literals, and the least number without its sign fits no literal of its
    // type. So the least int32 and int64 are written as macros.
    if (sizeof(T) >= 4 && x == std::numeric_limits<T>::min()) return is_wide ? "INT64_MIN" : "INT32_MIN";
    const std::string text = fmt::format(is_wide ? "INT64_C({})" : "{}", x < 0 ? -static_cast<std::int64_t>(x) : x);
    return x < 0 ? "(-" + text + ")" : text;
  }
}

template <class T>
std::string text_of_number(T x) {
  if constexpr (std::is_same_v<T, bool>) return x ? "true" : "false";
  else if constexpr (std::is_integral_v<T>) return text_of_integer(x);
  else if constexpr (std::is_floating_point_v<T>) return text_of_float(x);
  else return {};
}

// Appends numbers, as many on each line as fit.
void append_rows(std::string& text, std::size_t count, std::string_view indent,
                 FunctionRef<std::string(std::size_t)> at) {
  constexpr std::size_t width = 96;
  std::string line(indent);
  for (std::size_t i = 0; i < count; ++i) {
    std::string number = at(i);
    if (number.front() == '(' && number[1] == '-') number = number.substr(1, number.size() - 2);
    if (i + 1 < count) number += ",";
    if (line.size() > indent.size() && line.size() + number.size() + 1 > width) {
      text += line + "\n";
      line = indent;
    }
    if (line.size() > indent.size()) line += " ";
    line += number;
  }
  text += line + "\n";
}

}  // namespace

std::string c_number(std::int64_t bytes, Dtype dtype) {
  c_type(dtype);  // refuses half floats
  return visit_real_dtype(dtype, [&](auto zero) {
    using T = decltype(zero);
    T x{};
    std::memcpy(&x, &bytes, sizeof(T));
    return text_of_number(x);
  });
}

std::string c_table(const Tensor& x) {
  c_type(x.dtype());
  const Tensor values = observed(x);
  return visit_real_dtype(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const std::vector<T> elements = values.template to_vector<T>();
    std::string text = "{\n";
    append_rows(text, elements.size(), "  ", [&](std::size_t i) { return text_of_number<T>(elements[i]); });
    return text + "}";
  });
}

std::string c_table(std::string_view name, std::span<const double> numbers, std::string_view indent) {
  std::string text = fmt::format("{}static const double {}[{}] = {{\n", indent, name, numbers.size());
  append_rows(text, numbers.size(), std::string(indent) + "  ",
              [&](std::size_t i) { return text_of_number(numbers[i]); });
  return text + std::string(indent) + "};\n";
}

// ---- strings and comments -----------------------------------------------------------------------

std::string c_string(std::string_view text) {
  std::string literal = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\' || c == '?') literal += {'\\', c};  // "??" may begin a trigraph
    else if (byte < 32 || byte > 126) literal += fmt::format("\\{:03o}", byte);
    else literal += c;
  }
  return literal + "\"";
}

std::string c_comment(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool may_end = !safe.empty() && ((safe.back() == '*' && c == '/') || (safe.back() == '/' && c == '*'));
    if (may_end) safe += ' ';
    if (c == '?' && !safe.empty() && safe.back() == '?') safe += ' ';
    safe += byte < 32 || byte > 126 || c == '\\' ? '_' : c;
  }
  return safe;
}

std::string type_text(Dtype dtype, const Shape& shape) { return name_of(dtype) + shape.str(); }

// ---- identifiers --------------------------------------------------------------------------------

namespace {

constexpr std::string_view keywords[] = {
    // C
    "auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else", "enum", "extern", "float",
    "for", "goto", "if", "inline", "int", "long", "register", "restrict", "return", "short", "signed", "sizeof",
    "static", "struct", "switch", "typedef", "union", "unsigned", "void", "volatile", "while", "bool", "true", "false",
    // C++, for the header
    "alignas", "alignof", "and", "and_eq", "asm", "bitand", "bitor", "catch", "char8_t", "char16_t", "char32_t",
    "class", "compl", "concept", "consteval", "constexpr", "constinit", "const_cast", "co_await", "co_return",
    "co_yield", "decltype", "delete", "dynamic_cast", "explicit", "export", "friend", "mutable", "namespace", "new",
    "noexcept", "not", "not_eq", "nullptr", "operator", "or", "or_eq", "private", "protected", "public",
    "reinterpret_cast", "requires", "static_assert", "static_cast", "template", "this", "thread_local", "throw", "try",
    "typeid", "typename", "using", "virtual", "wchar_t", "xor", "xor_eq"};

// Names of <math.h> and <stdint.h> that generated code uses, and `work`, a parameter of its own.
constexpr std::string_view library_names[] = {
    "abs",     "fabs",    "sqrt",      "floor",    "ceil",     "rint",     "trunc",  "copysign",  "fma",
    "exp",     "exp2",    "expm1",     "log",      "log2",     "log10",    "log1p",  "sin",       "cos",
    "tan",     "asin",    "acos",      "atan",     "sinh",     "cosh",     "tanh",   "asinh",     "acosh",
    "atanh",   "erf",     "erfc",      "lgamma",   "pow",      "atan2",    "hypot",  "nextafter", "fmod",
    "frexp",   "ldexp",   "remainder", "signbit",  "NAN",      "INFINITY", "int8_t", "int16_t",   "int32_t",
    "int64_t", "uint8_t", "uint16_t",  "uint32_t", "uint64_t", "work"};

// The other macros of <math.h> and <stdint.h>, which would replace a variable: these types with
// these endings, and the names below.
constexpr std::string_view limited_types[] = {
    "INT8",         "INT16",        "INT32",       "INT64",       "UINT8",       "UINT16",      "UINT32",
    "UINT64",       "INT_LEAST8",   "INT_LEAST16", "INT_LEAST32", "INT_LEAST64", "UINT_LEAST8", "UINT_LEAST16",
    "UINT_LEAST32", "UINT_LEAST64", "INT_FAST8",   "INT_FAST16",  "INT_FAST32",  "INT_FAST64",  "UINT_FAST8",
    "UINT_FAST16",  "UINT_FAST32",  "UINT_FAST64", "INTPTR",      "UINTPTR",     "INTMAX",      "UINTMAX",
    "PTRDIFF",      "SIZE",         "SIG_ATOMIC",  "WCHAR",       "WINT"};
constexpr std::string_view limits[] = {"_MIN", "_MAX", "_WIDTH", "_C"};
constexpr std::string_view other_macros[] = {"HUGE_VAL",
                                             "HUGE_VALF",
                                             "HUGE_VALL",
                                             "FP_NAN",
                                             "FP_INFINITE",
                                             "FP_ZERO",
                                             "FP_SUBNORMAL",
                                             "FP_NORMAL",
                                             "FP_FAST_FMA",
                                             "FP_FAST_FMAF",
                                             "FP_FAST_FMAL",
                                             "FP_ILOGB0",
                                             "FP_ILOGBNAN",
                                             "FP_INT_UPWARD",
                                             "FP_INT_DOWNWARD",
                                             "FP_INT_TOWARDZERO",
                                             "FP_INT_TONEAREST",
                                             "FP_INT_TONEARESTFROMZERO",
                                             "MATH_ERRNO",
                                             "MATH_ERREXCEPT",
                                             "math_errhandling",
                                             "M_E",
                                             "M_LOG2E",
                                             "M_LOG10E",
                                             "M_LN2",
                                             "M_LN10",
                                             "M_PI",
                                             "M_PI_2",
                                             "M_PI_4",
                                             "M_1_PI",
                                             "M_2_PI",
                                             "M_2_SQRTPI",
                                             "M_SQRT2",
                                             "M_SQRT1_2",
                                             "SNAN",
                                             "SNANF",
                                             "SNANL",
                                             "signgam"};

// The functions of <math.h>, with GNU extensions, that generated code does not call, and `main`. A
// variable may have such a name, but a function may not.
constexpr std::string_view other_functions[] = {"cbrt",       "fdim",     "fmax",        "fmin",
                                                "ilogb",      "isfinite", "isgreater",   "isgreaterequal",
                                                "isinf",      "isless",   "islessequal", "islessgreater",
                                                "isnan",      "isnormal", "isunordered", "fpclassify",
                                                "llrint",     "llround",  "logb",        "lrint",
                                                "lround",     "modf",     "nan",         "nearbyint",
                                                "nexttoward", "remquo",   "round",       "scalbln",
                                                "scalbn",     "tgamma",   "j0",          "j1",
                                                "jn",         "y0",       "y1",          "yn",
                                                "gamma",      "scalb",    "significand", "drem",
                                                "finite",     "lgamma_r", "exp10",       "pow10",
                                                "sincos",     "main"};

template <std::size_t n>
bool is_in(const std::string_view (&list)[n], std::string_view text) {
  return std::find(std::begin(list), std::end(list), text) != std::end(list);
}
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Returns true for the names of variables in generated code: i0, v12, w3 ...
bool is_own_variable(std::string_view text) {
  return text.size() > 1 && std::string_view("cinvw").find(text[0]) != std::string_view::npos &&
         std::all_of(text.begin() + 1, text.end(), is_digit);
}

}  // namespace

bool is_c_identifier(std::string_view text) {
  return !text.empty() && !is_digit(text[0]) && !is_in(keywords, text) &&
         std::all_of(text.begin(), text.end(), [](char c) { return is_letter(c) || is_digit(c); });
}

namespace {

bool is_macro(std::string_view text) {
  for (const std::string_view limit : limits)
    if (text.ends_with(limit) && is_in(limited_types, text.substr(0, text.size() - limit.size()))) return true;
  return is_in(other_macros, text);
}
// Returns true for int32_t, uint_fast8_t, intptr_t, double_t ...
bool is_type(std::string_view text) {
  return text.ends_with("_t") &&
         (text.starts_with("int") || text.starts_with("uint") || text == "float_t" || text == "double_t");
}
// Returns true if the list has the name, or the name without the suffix of the variant for float or
// long double.
template <std::size_t n>
bool has_variant(const std::string_view (&list)[n], std::string_view text) {
  return is_in(list, text) || (text.size() > 1 && (text.ends_with('f') || text.ends_with('l')) &&
                               is_in(list, text.substr(0, text.size() - 1)));
}

}  // namespace

bool is_taken_by_c_library(std::string_view name) {
  return is_macro(name) || is_type(name) || has_variant(library_names, name) || has_variant(other_functions, name);
}

std::string CNames::choose(std::string_view name) {
  std::string chosen;
  for (const char c : name) {
    const char kept = is_letter(c) || is_digit(c) ? c : '_';
    if (kept != '_' || (!chosen.empty() && chosen.back() != '_')) chosen += kept;
  }
  while (!chosen.empty() && chosen.back() == '_') chosen.pop_back();
  if (chosen.empty() || is_digit(chosen[0])) chosen.insert(0, "x");
  const std::string_view base = chosen;
  const bool is_single = base.size() > 1 && base.back() == 'f' && is_in(library_names, base.substr(0, base.size() - 1));
  if (!is_c_identifier(chosen) || is_in(library_names, chosen) || is_macro(chosen) || is_single ||
      is_own_variable(chosen))
    chosen += "_x";
  std::string unique = chosen;
  for (int i = 2; !used_.insert(unique).second; ++i) unique = fmt::format("{}_{}", chosen, i);
  return unique;
}

}  // namespace stave_detail
