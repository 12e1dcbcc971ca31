// The operation `call` for functions of flat lists of tensors. Its public forms, for functions
// of trees, are in handlers/transforms/checkpoint.h and handlers/transforms/custom.h.
// core/op/higher_order.h explains how the functions pass through handlers.
#pragma once

#include <stave/core/op/higher_order.h>

namespace stave_detail {

/// Performs functions.function(inputs) as one operation with the given rules. The results are
/// checked each time that the function or a derivative rule runs: throws TransformError for empty
/// tensors, and for cotangents or tangents whose shape or dtype does not match.
Outputs call_function(FunctionAttributes functions, Inputs inputs);

/// Combines outputs and their tangents into the results of a forward-mode rule. An undefined
/// tangent becomes zeros. Throws like call_function.
FunctionResults with_tangents(Outputs outputs, Outputs tangents);

[[noreturn]] void fail_unknown_results(const char* name);
[[noreturn]] void fail_other_results(const char* name, std::size_t expected, std::size_t got);

/// Returns a view of x that repeats x along a new axis 0 of length `lanes`.
Tensor broadcast_lanes(const Tensor& x, Index lanes);

}  // namespace stave_detail
