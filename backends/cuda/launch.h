// What a driver of kernels is given to launch them with: the stream, the size of the machine, scratch memory, and where a
// kernel leaves word of an error.
//
// Drivers (elementwise.h, reduce.h, ...) are host functions of views, as the CPU's are; each plans (index maps, launch
// configurations: plain host code, tested without a device) and launches. They never wait for the device, but for that of expm.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include <stave/core/tensor/dtype.h>
#include <stave/core/tensor/shape.h>

namespace stave_cuda {

using stave::Index;

/// The first index out of range, or matrix without a result, that a kernel met since the host last looked. Lives where both sides can
/// read it.
/// A kernel that finds one writes the other fields, then nothing else: no wild read or write, whatever the index.
struct IndexFault {
  unsigned taken = 0;  // 0, or the ticket of the launch: set by atomicCAS, so that the first one stands
  int axis = 0;
  std::int64_t index = 0;
  std::int64_t size = 0;
};

/// Memory for the work that one operation puts on the stream: freed in the order of the stream.
class Scratch {
 public:
  virtual void* allocate(std::size_t bytes) = 0;  ///< aligned to 256 bytes; throws std::bad_alloc
 protected:
  ~Scratch() = default;
};

struct Launch {
  cudaStream_t stream;
  int multiprocessors;  // of the device, which is current on this thread
  Scratch& scratch;
  IndexFault* fault;  // for kernels that take indices
  unsigned ticket;    // names this operation in `fault`; not 0
};

/// A kernel of this library: a device has code for all of them or for none. For cudaFuncGetAttributes.
const void* any_kernel();

/// Throws stave::Error naming `what`, or std::bad_alloc for cudaErrorMemoryAllocation.
void check(cudaError_t status, const char* what);
/// After a launch of kernel `what`.
inline void check_launch(const char* what) { check(cudaGetLastError(), what); }

}  // namespace stave_cuda
