// The functions by which each source file of kernels fills its part of the kernel table
// (kernels.h).
#pragma once

#include <stave/backends/cpu/kernels/isa.h>
#include <stave/backends/cpu/kernels/kernels.h>

namespace STAVE_KERNELS {

void fill_unary(stave_cpu::Kernels& table);
void fill_binary(stave_cpu::Kernels& table);
void fill_chain(stave_cpu::Kernels& table);
void fill_convert(stave_cpu::Kernels& table);
void fill_reduce(stave_cpu::Kernels& table);
void fill_arg_reduce(stave_cpu::Kernels& table);
void fill_softmax(stave_cpu::Kernels& table);
void fill_normalize(stave_cpu::Kernels& table);
void fill_quantized(stave_cpu::Kernels& table);
void fill_scan(stave_cpu::Kernels& table);
void fill_matmul(stave_cpu::Kernels& table);
void fill_products(stave_cpu::Kernels& table);
void fill_winograd(stave_cpu::Kernels& table);
void fill_linalg(stave_cpu::Kernels& table);
void fill_convolution(stave_cpu::Kernels& table);
void fill_fft(stave_cpu::Kernels& table);
void fill_random(stave_cpu::Kernels& table);
void fill_repeat(stave_cpu::Kernels& table);
void fill_special(stave_cpu::Kernels& table);
void fill_stream(stave_cpu::Kernels& table);

}  // namespace STAVE_KERNELS
