// The check that the processor has x86-64-v4.
#include <stave/backends/cpu/kernels/x86_levels.h>

namespace stave_kernels_avx512 {

bool supported() { return stave_cpu::has_x86_64_v4(); }

}  // namespace stave_kernels_avx512
