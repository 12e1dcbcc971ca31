// The operation `call` of functions of flat lists of tensors. Its public faces, for functions of trees, are in
// handlers/transforms/checkpoint.h and handlers/transforms/custom.h; how functions travel is in core/op/carried.h.
#pragma once

#include <stave/core/op/carried.h>

namespace stave_detail {

/// functions.function(inputs), as one operation with the rules that are given. What they yield is checked each time: throws
/// TransformError for empty tensors, and for cotangents or tangents of other shapes or dtypes than they belong to.
Outputs call_function(FunctionAttributes functions, Inputs inputs);

/// What a rule of forward mode yields: outputs, then a tangent for each; an undefined one is zero. Throws as call_function does.
Outputs with_tangents(Outputs outputs, const Outputs& tangents);

[[noreturn]] void fail_unknown_results(const char* name);
[[noreturn]] void fail_other_results(const char* name, std::size_t expected, std::size_t got);

/// x for each of so many lanes, as axis 0: a view.
Tensor broadcast_lanes(const Tensor& x, Index lanes);

}  // namespace stave_detail
