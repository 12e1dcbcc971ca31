// Operations that are linear in some of their inputs (Op::linear_in). They have no derivative by
// the other inputs, and the transforms do not guess one.
#pragma once

#include <cstddef>
#include <string_view>

#include <stave/core/op/op.h>
#include <stave/core/tensor/fail.h>

namespace stave_detail {

using namespace stave;

/// Returns true if the operation is declared linear, but not in input i.
inline bool lacks_derivative_by(const Op& op, std::size_t i) noexcept {
  return op.derivative == Derivative::linear && !op.linear_in.has_input(i);
}

/// The TransformError where an operation has no derivative by an input, or none at all.
class NoDerivativeError : public TransformError {
  using TransformError::TransformError;
};

/// Throws NoDerivativeError because `transform` would differentiate by input i, in which the
/// operation is not linear.
[[noreturn]] inline void fail_not_linear(std::string_view transform, const Op& op, std::size_t i) {
  fail<NoDerivativeError>(
      "{}: the operation {} has no derivative with respect to input {}, in which it is not linear according to its "
      "record: give it rules for all inputs, or cut that input off with stop_gradient",
      transform, op.name, i);
}

}  // namespace stave_detail
