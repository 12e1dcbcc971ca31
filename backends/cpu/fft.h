// Fourier transforms along one axis, on the CPU.
#pragma once

#include <stave/core/op/op.h>
#include <stave/core/tensor/backend.h>

namespace stave_cpu {

/// Computes fft, rfft or irfft (FftAttributes) of float32, float64, complex64 or complex128.
void run_fft(const stave::FftAttributes& attributes, const stave::View& in, const stave::View& out);

}  // namespace stave_cpu
