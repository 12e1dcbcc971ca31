// Functions that C source needs besides those of libm: integer arithmetic that wraps, conversions
// that saturate, and mathematical functions without a counterpart in libm.
#pragma once

#include <map>
#include <string>

#include <stave/core/program/lowered.h>

namespace stave_detail {

/// The static functions of one C file. Each is written once, if the file uses it.
class CFunctions {
 public:
  /// `prefix` begins the name of each function, so that several files can become one.
  explicit CFunctions(std::string prefix) : prefix_(std::move(prefix)) {}

  /// Returns a C expression for op(operands). The operands are C expressions that need no
  /// parentheses, of the dtype `dtype`; the first operand of `select` is the condition, a bool.
  /// `result` is the dtype of a conversion's result. Throws TransformError for an operation that
  /// the dtype does not have, and DtypeError for float16 and bfloat16.
  std::string expression(ScalarOp op, Dtype dtype, Dtype result, const std::string* operands);

  /// The definitions of the functions that were used, each after those that it calls.
  const std::string& text() const noexcept { return text_; }
  const std::string& prefix() const noexcept { return prefix_; }

 private:
  std::string of_float(ScalarOp op, bool is_single, const std::string* x);
  std::string of_integer(ScalarOp op, Dtype dtype, const std::string* x);
  std::string of_bool(ScalarOp op, const std::string* x);
  std::string conversion(Dtype from, Dtype to, const std::string& x);
  std::string own(const std::string& name, Dtype dtype);
  void define(const std::string& name, Dtype dtype);

  std::string prefix_, text_;
  std::map<std::string, bool> defined_;
};

}  // namespace stave_detail
