// The check that the processor has x86-64-v3.
#include <stave/backends/cpu/kernels/x86_levels.h>

namespace stave_kernels_avx2 {

bool supported() { return stave_cpu::has_x86_64_v3(); }

}  // namespace stave_kernels_avx2
