// The highest speed of the memory: copies and reads on all threads, with nothing between them and
// the hardware.
#pragma once

#include <stave/core/tensor/shape.h>

namespace stave_bench {

using stave::Index;

// n is a multiple of 16, and addresses are multiples of 64.

void copy_by_memcpy(float* out, const float* in, Index n);
void copy_by_loop(float* out, const float* in, Index n);
/// Copies by non-temporal stores: the lines that are written need not be read first.
void copy_by_stream(float* out, const float* in, Index n);

/// Returns the sum of the floats, in some order.
float read_by_loop(const float* in, Index n);
float read_by_prefetch(const float* in, Index n);

}  // namespace stave_bench
