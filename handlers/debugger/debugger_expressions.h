// Expressions of the debugger: `print in0 - in1`, `break sqrt if max > 3`.
//
//   expression = sum [(< | <= | > | >= | == | !=) sum]
//   sum        = product {(+ | -) product}            product = unary {(* | /) unary}
//   unary      = - unary | value {"[" subscripts "]"}  as in Python: in0[2], in0[-1, 1:3]
//   value      = number | in0 | out0 | label | "a label" | statistic
//              | function(expression) | (expression)
//   function   = max min mean sum std nan inf size | abs exp log sqrt
//   statistic  = max min mean sum std nan inf size, without an argument: of each operand in turn
//
// Values are read outside of all handlers, as observers do (print.h). Under vmap,
// a value includes all lanes; subscripts count the axes that the program sees.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <stave/core/tensor/tensor.h>

namespace stave_detail {

using stave::Tensor;

/// The values that the names of an expression refer to.
struct ExpressionValues {
  /// Returns the value of a name; nothing if there is none.
  std::function<std::optional<Tensor>(const std::string& name)> find;
  /// The operand that a statistic without an argument refers to; null if there is none.
  const Tensor* each = nullptr;
};

class Expression {
 public:
  /// Parses an expression at the beginning of the text and removes it from the text.
  /// Throws TransformError with the part that cannot be parsed.
  static Expression read(std::string_view& text);
  /// Parses the whole text. Throws TransformError if something follows the expression.
  static Expression read_all(std::string_view text);

  /// Returns the value. Throws TransformError for names without a value, and the errors
  /// of the operations.
  Tensor evaluate(const ExpressionValues& values) const;
  /// Returns whether any element of the value is true or nonzero; false if a name has no value.
  bool holds(const ExpressionValues& values) const;
  /// Returns the expression as it was written.
  const std::string& text() const noexcept { return text_; }
  bool has_outputs() const noexcept { return has_outputs_; }
  // Returns whether the expression contains a statistic without an argument.
  bool has_statistics() const noexcept { return has_statistics_; }
  /// Returns whether the expression consists of a name only.
  bool is_name() const noexcept { return is_name_; }

  struct Node;

 private:
  std::string text_;
  std::shared_ptr<const Node> root_;
  bool has_outputs_ = false, has_statistics_ = false, is_name_ = false;
};

}  // namespace stave_detail
