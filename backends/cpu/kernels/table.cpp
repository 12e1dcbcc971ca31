// The kernel table of one instruction set.
#include <stave/backends/cpu/kernels/fill.h>

#define STAVE_QUOTE_AGAIN(x) #x
#define STAVE_QUOTE(x) STAVE_QUOTE_AGAIN(x)

namespace STAVE_KERNELS {

void fill_table(stave_cpu::Kernels& table) {
  table.isa = STAVE_QUOTE(STAVE_ISA);
  fill_unary(table);
  fill_binary(table);
  fill_chain(table);
  fill_convert(table);
  fill_reduce(table);
  fill_arg_reduce(table);
  fill_softmax(table);
  fill_normalize(table);
  fill_quantized(table);
  fill_scan(table);
  fill_matmul(table);
  fill_products(table);
  fill_winograd(table);
  fill_linalg(table);
  fill_convolution(table);
  fill_fft(table);
  fill_random(table);
  fill_repeat(table);
  fill_special(table);
  fill_stream(table);
}

}  // namespace STAVE_KERNELS
