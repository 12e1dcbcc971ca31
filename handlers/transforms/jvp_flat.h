// Forward mode over flat lists of tensors: the core of jvp, jacfwd and hvp (jvp.h).
//
// While the function runs, the `jvp` handler passes each operation on to the outer handlers. If an
// input carries a tangent, it also performs the operation's JVP rule. The tangent of the result is
// a note on the result. Values stay concrete, so the function can read them.
#pragma once

#include <span>

#include <stave/handlers/transforms/vjp_flat.h>

namespace stave {

struct FlatJvp {
  Outputs outputs;
  // Tangents with the shapes and dtypes of the outputs. They are zeros where an output depends
  // on no input with a tangent, or is not floating.
  Outputs tangents;
};

/// Returns f at `primals` and its derivative along `tangents` (undefined: zero). Throws ShapeError,
/// DtypeError or DeviceError if a tangent does not match its primal, DtypeError if an input with
/// a tangent is not floating, and TransformError if the numbers of primals and tangents differ
/// or the derivative is lost (core/op/lost_derivatives.h).
FlatJvp jvp_flat(FlatFunction f, std::span<const Tensor> primals, std::span<const Tensor> tangents,
                 InputNames names = numbered_inputs);

}  // namespace stave
