// Errors that kernels find: indices out of range and matrices without a result. The error names the
// operation and is thrown by the next read or synchronize() on the thread that launched it. Host
// code, tested without a device.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include <stave/backends/cuda/launch.h>
#include <stave/core/op/op_id.h>

namespace stave_cuda {

/// The faults of one device. A thread receives the faults of its own kernels and the faults that
/// ended threads left, which would otherwise never be reported.
class Faults {
 public:
  /// The number of threads that have a place of their own at one time. Any further threads share
  /// the last place, and every thread receives the faults recorded there.
  static constexpr std::size_t most_threads = 1024;

  /// `places` is memory that kernels write and the host reads, one element per thread. It has at
  /// most `most_threads` elements.
  explicit Faults(std::span<IndexFault> places) : places_(places) {}

  /// Returns the element where kernels that this thread launches record a fault.
  IndexFault* place() const;
  /// Returns a ticket, which is never 0, for a launch of `op`. A kernel records the ticket with a
  /// fault, so that the error can name the operation.
  unsigned ticket(stave::OpId op);
  /// Returns a ticket for an operation of linear algebra. `stack` is the shape of the batch of
  /// matrices. The fault's index is then the linear index of a matrix in the batch, and `failure`
  /// describes that matrix in the error.
  unsigned ticket(stave::OpId op, stave::Shape stack, const char* failure);
  /// Throws IndexError or LinalgError if a kernel has recorded a fault since the last call. Call it
  /// after the device has finished its work.
  void raise();

 private:
  // The number of launches that are remembered. The error for an older
  // launch cannot name the operation.
  static constexpr unsigned remembered = 1u << 14;
  struct Launched {
    unsigned ticket;
    stave::OpId op;
    const char* failure = nullptr;
    std::unique_ptr<const stave::Shape> stack = nullptr;
  };

  unsigned remember(Launched launched);
  void raise(IndexFault& place);

  std::mutex mutex_;
  const std::span<IndexFault> places_;
  unsigned last_ = 0;
  std::array<Launched, remembered> launches_{};
};

}  // namespace stave_cuda
