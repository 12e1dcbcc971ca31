// Parts of C source: types, numbers, identifiers and tables. Every text is plain C99, whatever the
// locale is.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <stave/core/tensor/tensor.h>

namespace stave_detail {

using namespace stave;

/// The C type of an element: "double", "int32_t", "bool". Throws DtypeError for float16 and
/// bfloat16.
const char* c_type(Dtype dtype);

/// A constant expression for an element of this dtype, whose bytes are the first bytes of `bytes`.
/// It is exact: decimal numbers are the shortest ones that round to the element, and -0, infinity
/// and NaN keep their signs. Negative numbers are in parentheses, or macros such as INT32_MIN.
std::string c_number(std::int64_t bytes, Dtype dtype);

/// The elements of a contiguous tensor as a C initialiser of several lines: "{\n  1.0, 2.0\n}".
std::string c_table(const Tensor& x);
/// The same for a list of numbers, as a declaration: "static const double name[2] = {...};\n".
std::string c_table(std::string_view name, std::span<const double> numbers, std::string_view indent);

/// The text as a C string literal, with quotes. Bytes outside of ASCII are escaped.
std::string c_string(std::string_view text);
/// The text for use in a comment: without the beginning or end of a comment, trigraphs,
/// backslashes, control characters and non-ASCII bytes.
std::string c_comment(std::string_view text);

/// "float64[2,3]".
std::string type_text(Dtype dtype, const Shape& shape);

/// Returns true if the text is an identifier of C and C++ and none of their keywords.
bool is_c_identifier(std::string_view text);

/// Returns true if <math.h> or <stdint.h> declares a function, a type or a macro of this name, so
/// that a function of this name would not compile. `main` and `work` count as well.
bool is_taken_by_c_library(std::string_view name);

/// Chooses identifiers for names that need not be identifiers.
class CNames {
 public:
  /// Returns an identifier made from the name: other characters become single underscores. It
  /// differs from earlier ones, from keywords, from macros of <math.h> and <stdint.h> and their
  /// names that generated code uses, and from names like v1, which are those of the variables in
  /// generated code.
  std::string choose(std::string_view name);

 private:
  std::set<std::string, std::less<>> used_;
};

}  // namespace stave_detail
