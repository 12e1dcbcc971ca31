// What the handlers of forward mode share (jvp, and jet in handlers/taylor): their use of JVP rules
// and of custom_vjp's rules.
#pragma once

#include <span>
#include <string_view>

#include <stave/core/op/higher_order.h>

namespace stave_detail {

using namespace stave;

/// Throws NoDerivativeError (linear_in.h) because `transform` needs a JVP rule of the operation.
[[noreturn]] void fail_no_jvp_rule(std::string_view transform, const Op& op);
/// Throws TransformError unless a JVP rule gave a tangent of the output's shape and dtype.
void check_tangent_of_rule(const Op& op, const Tensor& output, const Tensor& tangent);
/// Returns the outputs of a function with custom_vjp's rules and, as `more`, their tangents, by the
/// transpose of the backward rule, which is linear in the cotangents. An undefined tangent of a
/// primal is zero.
FunctionResults tangents_by_backward_rule(const FunctionAttributes& functions, std::span<const Tensor> primals,
                                          std::span<const Tensor> tangents);

}  // namespace stave_detail
