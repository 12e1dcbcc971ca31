// Matrix products: cuBLASLt computes floats, and Stave's own kernel computes integers.
#pragma once

#include <stave/backends/cuda/launch.h>
#include <stave/core/tensor/backend.h>

namespace stave_cuda {

/// Computes the matrix product of a and b, all of one dtype:
///   a [batch..., m, k], b [batch..., k, n], out [batch..., m, n]
/// float32 is multiplied in float32. With the environment variable STAVE_TF32=1, tensor cores
/// multiply it; they round the factors to 11 significant bits and add in float32. float16 and
/// bfloat16 are added in float32.
void run_matmul(const Launch& launch, const stave::View& a, const stave::View& b, const stave::View& out);

/// Computes the same product for every dtype and layout, without a library. Float products fall
/// back to it if cuBLASLt has no algorithm.
void run_tiled_matmul(const Launch& launch, const stave::View& a, const stave::View& b, const stave::View& out);

}  // namespace stave_cuda
