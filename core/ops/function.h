// Operations that carry functions: checkpoint, custom_vjp, custom_jvp, custom_vmap. Their public faces, for functions of trees,
// are in handlers/checkpoint.h and handlers/custom.h; how functions travel is in core/carried.h.
#pragma once

#include <stave/core/carried.h>

namespace stave_detail {

/// function(inputs), of which a derivative remembers only the inputs; it runs `function` again when it is needed. User effects
/// inside are answered the second time as they were the first.
Outputs checkpoint_flat(CarriedFunction function, Inputs inputs);

/// function(inputs), whose reverse mode is forward and backward.
Outputs custom_vjp_flat(FunctionAttributes functions, Inputs inputs);
/// function(inputs), whose forward mode is `tangents`; reverse mode is that, transposed.
Outputs custom_jvp_flat(FunctionAttributes functions, Inputs inputs);
/// function(inputs), which vmap computes by `batch`.
Outputs custom_vmap_flat(FunctionAttributes functions, Inputs inputs);

/// x for each of so many lanes, as axis 0: a view.
Tensor broadcast_lanes(const Tensor& x, Index lanes);

}  // namespace stave_detail
