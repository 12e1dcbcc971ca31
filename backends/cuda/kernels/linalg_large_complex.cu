#include <stave/backends/cuda/kernels/linalg_works.h>
#include <stave/backends/cuda/kernels/expm.cuh>
#include <stave/backends/cuda/kernels/linalg_launch.cuh>

namespace stave_cuda {

STAVE_OTHER_WORKS(STAVE_LAUNCH_COMPLEX_TEAMS)
STAVE_LARGE_WORKS(STAVE_LAUNCH_COMPLEX_BLOCKS)

}  // namespace stave_cuda
