// The host function of Fourier transforms.
#pragma once

#include <stave/backends/cuda/launch.h>
#include <stave/core/op/attributes.h>
#include <stave/core/tensor/backend.h>

namespace stave_cuda {

/// Computes fft, rfft or irfft by cuFFT; the dtypes of the operands tell which. The output is
/// contiguous, and may be the buffer of a contiguous input of fft. Throws stave::Error during a
/// recording (graph_recording.h): plans are kept in a cache of bounded size, and a graph would
/// outlive them.
void run_fft(const Launch& launch, const stave::FftAttributes& attributes, const stave::View& in,
             const stave::View& out);

}  // namespace stave_cuda
