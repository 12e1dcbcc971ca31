// Max pooling on the CPU: the largest elements of windows, and their positions.
#pragma once

#include <stave/core/tensor/backend.h>

namespace stave_cpu {

/// Writes the maxima. `out` is contiguous and has x's dtype.
void run_max_pool(const stave::PoolAttributes& attributes, const stave::View& x, const stave::View& out);
/// Writes the positions of the maxima. `out`, of int32 or int64, is contiguous
/// (core/op/attributes.h).
void run_argmax_pool(const stave::PoolAttributes& attributes, const stave::View& x, const stave::View& out);

}  // namespace stave_cpu
