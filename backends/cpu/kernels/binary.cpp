// Kernels of the binary elementwise operations, instantiated from the struct of each operation,
// which has its formula (core/ops/elementwise_ops.h).
#include <stave/backends/cpu/kernels/elementwise_kernel.h>
#include <stave/backends/cpu/kernels/fill.h>

namespace STAVE_KERNELS {

void fill_binary(stave_cpu::Kernels& table) {
#define X(name, Struct) fill_row<stave_detail::Struct, 2>(table.elementwise[OpId::name]);
  STAVE_BINARY_OPS(X)
#undef X
}

}  // namespace STAVE_KERNELS
