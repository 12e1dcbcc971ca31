// Operations that are linear in some of their inputs (Op::linear_in). By the others they have no derivative, and none is guessed.
#pragma once

#include <cstddef>
#include <string_view>

#include <stave/core/op/op.h>
#include <stave/core/tensor/fail.h>

namespace stave_detail {

using namespace stave;

/// Whether the operation is said to be linear, but not in input i.
inline bool lacks_derivative_by(const Op& op, std::size_t i) noexcept {
  return op.derivative == Derivative::linear && !op.linear_in.has_input(i);
}

/// `transform` would follow such an input.
[[noreturn]] inline void fail_not_linear(std::string_view transform, const Op& op, std::size_t i) {
  fail<TransformError>(
      "{}: the operation {} has no derivative by input {}, in which its record says that it is not linear: give it "
      "rules for all inputs, or cut that input off with stop_gradient",
      transform, op.name, i);
}

}  // namespace stave_detail
