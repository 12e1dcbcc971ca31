// The kernels of elementwise operations of two operands, derived from their structs.
#include <stave/backends/cpu/kernels/elementwise_kernel.h>
#include <stave/backends/cpu/kernels/fill.h>

namespace STAVE_KERNELS {

void fill_binary(stave_cpu::Kernels& table) {
#define X(name, Struct) fill_row<stave_detail::Struct, 2>(table.elementwise[OpId::name]);
  STAVE_BINARY_OPS(X)
#undef X
}

}  // namespace STAVE_KERNELS
