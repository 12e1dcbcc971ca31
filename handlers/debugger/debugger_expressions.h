// Expressions of the debugger: `print in0 - in1`, `break sqrt if max > 3`.
//
//   expression = sum [(< | <= | > | >= | == | !=) sum]
//   sum        = product {(+ | -) product}            product = unary {(* | /) unary}
//   unary      = [-] value {[subscripts]}             subscripts as in Python: in0[2], in0[-1, 1:3]
//   value      = number | in0 | out0 | label | "a label" | function(expression) | (expression) | statistic
//   function   = max min mean sum std nan inf size | abs exp log sqrt
//   statistic  = max min mean sum std nan inf size, by itself: of each operand in turn
//
// Values are read as an observer does (print.h): past all handlers. A lane's value under vmap has those of all lanes; subscripts
// count the axes that the program sees.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <stave/core/tensor/tensor.h>

namespace stave_detail {

using stave::Tensor;

/// What an expression is about.
struct ExpressionValues {
  /// The value of a name; nothing if there is none.
  std::function<std::optional<Tensor>(const std::string& name)> find;
  /// That of which a statistic by itself is; null: none.
  const Tensor* each = nullptr;
};

class Expression {
 public:
  /// Reads one from the beginning of the text, of which it takes away what it read. Throws TransformError, which says what it is that
  /// cannot be read.
  static Expression read(std::string_view& text);
  /// Throws TransformError if that is not all of the text.
  static Expression read_all(std::string_view text);

  /// Throws TransformError for names that have no value, and what the operations throw.
  Tensor evaluate(const ExpressionValues& values) const;
  /// Whether an element of its value is true, or not 0. False, too, for names without a value.
  bool holds(const ExpressionValues& values) const;
  /// As it was written.
  const std::string& text() const noexcept { return text_; }
  bool has_outputs() const noexcept { return has_outputs_; }
  bool has_statistics() const noexcept { return has_statistics_; }  // by themselves
  /// Whether it is a name alone.
  bool is_name() const noexcept { return is_name_; }

  struct Node;

 private:
  std::string text_;
  std::shared_ptr<const Node> root_;
  bool has_outputs_ = false, has_statistics_ = false, is_name_ = false;
};

}  // namespace stave_detail
