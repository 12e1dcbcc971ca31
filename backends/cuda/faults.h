// Indices out of range and matrices without a result, found by kernels: which operation met one, told at the next read or
// synchronize() of the thread that asked for it. Host code, tested without a device.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include <stave/backends/cuda/launch.h>
#include <stave/core/op/op_id.h>

namespace stave_cuda {

/// Of one device. A thread meets the faults of its own kernels, and those that a thread left behind when it ended: nobody else
/// would hear of them.
class Faults {
 public:
  /// Places for so many threads at once. Those beyond share the last one, and any thread meets what is found there.
  static constexpr std::size_t most_threads = 1024;

  /// Memory that kernels write and the host reads: at most `most_threads`.
  explicit Faults(std::span<IndexFault> places) : places_(places) {}

  /// For the kernels that this thread launches.
  IndexFault* place() const;
  /// A ticket for a launch of `op`. Not 0.
  unsigned ticket(stave::OpId op);
  /// For one of linear algebra, on a stack of this shape: the fault's index is the number of a matrix, of which `failure` is said.
  unsigned ticket(stave::OpId op, stave::Shape stack, const char* failure);
  /// After the device has done its work: throws IndexError, or LinalgError, if a kernel met such a fault since this was last asked.
  void raise();

 private:
  // The launches that are remembered. Of one that lies further back the error cannot say which operation it was.
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
