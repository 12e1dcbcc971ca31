// Kernels of the unary elementwise operations, instantiated from the struct of each operation,
// which has its formula (core/ops/elementwise_ops.h).
#include <stave/backends/cpu/kernels/elementwise_kernel.h>
#include <stave/backends/cpu/kernels/fill.h>

namespace STAVE_KERNELS {

void fill_unary(stave_cpu::Kernels& table) {
#define X(name, Struct) fill_row<stave_detail::Struct, 1>(table.elementwise[OpId::name]);
  STAVE_UNARY_OPS(X)
#undef X
}

}  // namespace STAVE_KERNELS
