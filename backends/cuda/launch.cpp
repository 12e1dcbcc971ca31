#include <stave/backends/cuda/launch.h>

#include <new>

#include <stave/core/tensor/fail.h>

namespace stave_cuda {

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) [[likely]]
    return;
  // Clears an error that is not sticky, so that the next call does not report it.
  cudaGetLastError();
  if (status == cudaErrorMemoryAllocation) throw std::bad_alloc();
  stave_detail::fail<stave::Error>("cuda: {}: {} ({})", what, cudaGetErrorString(status), cudaGetErrorName(status));
}

}  // namespace stave_cuda
