// A simulated libcuda.so.1. Each process has its own GPU; with MADE_UP_GPUS=n,
// processes whose numbers are equal modulo n share one.
#include <cuda.h>

#include <cstdlib>
#include <cstring>

namespace {

int number(const char* variable, int otherwise) {
  const char* const text = std::getenv(variable);
  return text ? std::atoi(text) : otherwise;
}

}  // namespace

#undef cuDeviceGetUuid
extern "C" {
CUresult cuDeviceGet(CUdevice* device, int index) { return *device = index, CUDA_SUCCESS; }
CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  *uuid = {};
  const int rank = number("OMPI_COMM_WORLD_RANK", 0) % number("MADE_UP_GPUS", 1 << 20);
  std::memcpy(uuid->bytes, &rank, sizeof rank);
  uuid->bytes[sizeof rank] = static_cast<char>(device + 1);
  return CUDA_SUCCESS;
}
}
