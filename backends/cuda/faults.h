// Indices out of range, found by kernels: which operation met one, told at the next read or synchronize(). Host code, tested
// without a device.
#pragma once

#include <array>
#include <mutex>
#include <optional>

#include <stave/backends/cuda/launch.h>
#include <stave/core/ops/all_ops.h>

namespace stave_cuda {

/// Of one device. `fault` is memory that its kernels write and the host reads.
class Faults {
 public:
  explicit Faults(IndexFault* fault) : fault_(fault) {}

  IndexFault* place() const { return fault_; }
  /// A ticket for a launch of `op`. Not 0.
  unsigned ticket(stave::OpId op);
  /// After the device has done its work: throws IndexError if a kernel met an index out of range since this was last asked.
  void raise();

 private:
  // The launches that are remembered. Of one that lies further back the error cannot say which operation it was.
  static constexpr unsigned remembered = 1u << 14;
  struct Launched {
    unsigned ticket;
    stave::OpId op;
  };

  std::mutex mutex_;
  IndexFault* const fault_;
  unsigned last_ = 0;
  std::array<Launched, remembered> launches_{};
};

}  // namespace stave_cuda
