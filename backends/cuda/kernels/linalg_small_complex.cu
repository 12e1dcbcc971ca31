#include <stave/backends/cuda/kernels/linalg_works.h>
#include <stave/backends/cuda/kernels/linalg_launch.cuh>

namespace stave_cuda {

STAVE_SMALL_WORKS(STAVE_LAUNCH_COMPLEX_TEAMS)

}  // namespace stave_cuda
