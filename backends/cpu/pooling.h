// The largest elements of windows, and where they stand.
#pragma once

#include <stave/core/tensor/backend.h>

namespace stave_cpu {

/// out is contiguous, of x's dtype.
void run_max_pool(const stave::PoolAttributes& attributes, const stave::View& x, const stave::View& out);
/// out, of int32 or int64, is contiguous (core/op/attributes.h).
void run_argmax_pool(const stave::PoolAttributes& attributes, const stave::View& x, const stave::View& out);

}  // namespace stave_cpu
