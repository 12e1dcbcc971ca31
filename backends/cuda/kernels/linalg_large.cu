#include <stave/backends/cuda/kernels/linalg_works.h>
#include <stave/backends/cuda/kernels/expm.cuh>
#include <stave/backends/cuda/kernels/linalg_launch.cuh>

namespace stave_cuda {

STAVE_OTHER_WORKS(STAVE_LAUNCH_TEAMS)
template void launch_teams(const Launch&, const ReportWork&, const char*);
STAVE_LARGE_WORKS(STAVE_LAUNCH_BLOCKS)
STAVE_LAUNCH_BLOCKS(FinishWork)

}  // namespace stave_cuda
