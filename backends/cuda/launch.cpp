#include <stave/backends/cuda/launch.h>

#include <new>

#include <stave/core/tensor/fail.h>

namespace stave_cuda {

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) [[likely]]
    return;
  cudaGetLastError();  // an error that does not stay is not to be met again by the next call
  if (status == cudaErrorMemoryAllocation) throw std::bad_alloc();
  stave_detail::fail<stave::Error>("cuda: {}: {} ({})", what, cudaGetErrorString(status), cudaGetErrorName(status));
}

}  // namespace stave_cuda
