// Forward mode over flat lists of tensors: the core under jvp, jacfwd and hvp (jvp.h).
//
// While the function runs, the `jvp` handler performs each operation below itself and, where an input carries a tangent,
// performs the operation's JVP rule beside it; the tangent of the result is a note on it. Values stay real.
#pragma once

#include <span>

#include <stave/handlers/transforms/vjp_flat.h>

namespace stave {

struct FlatJvp {
  Outputs outputs;
  Outputs tangents;  // of the outputs' shapes and dtypes; zeros where an output depends on no input, or is no float
};

/// f at `primals` and its derivative along `tangents` (undefined: zero). Throws for tangents of other shapes or dtypes.
FlatJvp jvp_flat(FlatFunction f, std::span<const Tensor> primals, std::span<const Tensor> tangents,
                 InputNames names = numbered_inputs);

}  // namespace stave
