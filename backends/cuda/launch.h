// The context in which a host function launches kernels: the stream, the number of multiprocessors,
// scratch memory, and the place where a kernel records an error.
//
// Each operation has a host function of views (elementwise.h, reduce.h, ...), as on the CPU. The
// function first plans (index maps and launch configurations, in plain host code that is tested
// without a device) and then launches kernels. Only the function of expm waits for the device.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include <stave/core/tensor/dtype.h>
#include <stave/core/tensor/shape.h>

namespace stave_cuda {

using stave::Index;

/// The first fault since the host last read this record: an index out of range or a matrix without
/// a result. The record is in memory that both host and device access. The kernel that finds the
/// fault sets `taken` and then the other fields. No kernel reads or writes at an invalid index.
struct IndexFault {
  // 0 if there is no fault, else the ticket of the launch. Kernels set it by atomicCAS, so the
  // first fault is kept.
  unsigned taken = 0;
  int axis = 0;
  std::int64_t index = 0;
  std::int64_t size = 0;
};

/// Memory for the work that one operation puts on the stream. It is freed in stream order.
class Scratch {
 public:
  /// Returns memory aligned to 256 bytes. Throws std::bad_alloc.
  virtual void* allocate(std::size_t bytes) = 0;

 protected:
  ~Scratch() = default;
};

struct Launch {
  cudaStream_t stream;
  // The number of multiprocessors of the device, which is current on this thread.
  int multiprocessors;
  Scratch& scratch;
  IndexFault* fault;  // null for operations that cannot fail
  unsigned ticket;    // identifies this operation in `fault`; never 0
};

/// Returns a kernel of this library, for cudaFuncGetAttributes. A device has
/// code for all kernels or for none.
const void* any_kernel();

/// Throws if the status is not success: std::bad_alloc for cudaErrorMemoryAllocation, else
/// stave::Error, which names `what`.
void check(cudaError_t status, const char* what);
/// Checks the launch of the kernel `what`.
inline void check_launch(const char* what) { check(cudaGetLastError(), what); }

}  // namespace stave_cuda
