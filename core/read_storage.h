// Reading the storage of a value that has none is an effect: a handler may answer it.
#pragma once

#include <stave/core/effects/effect.h>
#include <stave/core/tensor.h>

namespace stave {

/// item() and to_vector() of a value without storage (a lane's, under vmap) perform this. The answer has the same shape and
/// dtype, and storage. Unhandled, it is an error that names the transform.
struct ReadStorage {
  using Result = Tensor;
  Tensor value;
  Tensor unhandled() const;
};

}  // namespace stave
