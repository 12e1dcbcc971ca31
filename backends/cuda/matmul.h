// Matrix products: floats by cuBLASLt, integers by a kernel of our own.
#pragma once

#include <stave/backends/cuda/launch.h>
#include <stave/core/tensor/backend.h>

namespace stave_cuda {

/// a [batch..., m, k], b [batch..., k, n], out [batch..., m, n], of one dtype. float32 is multiplied in float32; with the
/// environment variable STAVE_TF32=1 by tensor cores, which round the factors to 11 significant bits (sums stay float32). float16
/// and bfloat16 are added up in float32.
void run_matmul(const Launch& launch, const stave::View& a, const stave::View& b, const stave::View& out);

/// The same for every dtype and layout, without a library: what floats fall back on where cuBLASLt knows no way.
void run_tiled_matmul(const Launch& launch, const stave::View& a, const stave::View& b, const stave::View& out);

}  // namespace stave_cuda
