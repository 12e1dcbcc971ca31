// Helpers that losses share. For the .cpp files of core/ops.
#pragma once

#include <stave/core/ops/losses.h>
#include <stave/core/ops/reduce.h>
#include <stave/core/tensor/fail.h>

namespace stave_detail {

/// Returns the losses of elements, or their sum or mean.
inline Tensor reduce_losses(const Tensor& losses, Reduction reduction) {
  if (reduction == Reduction::none) return losses;
  return reduction == Reduction::sum ? sum(losses) : mean(losses);
}

inline void check_one_shape(const char* function, const Tensor& predictions, const Tensor& targets) {
  if (predictions.shape() != targets.shape())
    fail<ShapeError>("{}: predictions {} and targets {} must have one shape: use reshape or broadcast_to", function,
                     predictions.shape(), targets.shape());
}

}  // namespace stave_detail
