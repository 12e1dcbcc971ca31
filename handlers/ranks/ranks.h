// Ranks: makes the processes of a cluster or of one machine the places (indices) of a named axis,
// by MPI.
//
//   int main() {                                       // mpirun -np 4 program
//     Ranks ranks("batch");
//     with(ranks, [] { train(); });         // psum(x, "batch") inside sums over all four processes
//   }
//
// The processes together compute what vmap(f, {.axis_name = "batch"}) computes in one process.
// Values and derivatives are equal up to rounding, and bitwise equal from run to run. Each process
// has its own part of the data, and performs the same collectives in the same order. Transforms
// (grad, vmap, checkpoint ...) may be applied inside of `with(ranks, ...)` and outside of it, as
// with any handler.
//
// Tensors on CUDA devices are exchanged by NCCL: the exchange is enqueued on the device's stream,
// and the host does not wait for it. All processes decide together, at the first collective of a
// tensor on a device, whether to use NCCL. All use the host's memory instead if one process has no
// libnccl.so.2, or shares its GPU with another process. The same holds if one process has its
// tensor on the CPU, but only in the first collective of all: in later ones the tensors must be on
// devices in all processes, or on the CPU in all processes. describe() returns the decision and its
// reason. A process uses NCCL with the device of its tensor in the collective that decided.
//
// A process that is started without mpirun is the only one on each axis.
//
// - An exception that leaves `with` prints its message and ends all processes,
//   because the others would wait for this process for ever. A process that exits inside of `with`
//   ends all processes, too.
// - Before each collective the processes compare operation, dtype, shape, device and scopes.
//   If these differ, each process throws an error that lists the collectives of all processes. With
//   up to eight processes, the message for this comparison also carries an operand of up to 1 KiB.
//   In all other cases the comparison costs an additional short message.
// - A process that waits for the others for longer than STAVE_RANKS_TIMEOUT seconds reports
//   the collective on stderr, and continues to wait. The default is 60; 0 disables the report.
// - The first Ranks initialises MPI if necessary. MPI is finalised at the end of the program.
#pragma once

#include <exception>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include <stave/core/op/op.h>
#include <stave/core/ops/collective.h>
#include <stave/core/ops/named_axis.h>
#include <stave/core/tensor/options.h>

namespace stave_detail {

class Processes;

}  // namespace stave_detail

namespace stave {

struct RanksOptions {
  [[no_unique_address]] ByName by_name{};
  /// The number of this process's group. The processes of a group form an axis of their own,
  /// in the order of their ranks. Example: Ranks rows("rows", {.group = rank / 4}).
  std::optional<Index> group{};
  /// The communicator whose processes form the axis, as MPI_Comm_c2f returns it;
  /// by default all processes.
  std::optional<int> communicator{};
};

/// Handler that performs collectives over one axis between processes: the process of rank i is at
/// index i (its place). All processes of the communicator must create their Ranks in the same
/// order.
class Ranks final : public Handles<Call, AxisSize> {
 public:
  /// Throws Error if MPI cannot be initialised, or was finalised already.
  explicit Ranks(std::string axis_name, RanksOptions options = {});
  ~Ranks() override;
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  Index size() const noexcept;   ///< The number of processes on the axis.
  Index place() const noexcept;  ///< The index of this process along the axis.

  Outputs handle(Call& call) override;
  std::optional<Index> handle(AxisSize& axis) override;
  std::string describe() const override;

  /// Called when a `with` begins. Until `end` is called, a process that exits ends all processes.
  void begin() const noexcept;
  /// Called when a `with` ends. Throws TransformError if this process has performed a collective
  /// inside the `with`, and others are about to perform one more instead of ending their `with`.
  void end() const;
  /// Writes the exception's message to stderr, and ends all processes.
  [[noreturn]] void abort(const std::exception_ptr& why) const noexcept;

 private:
  friend class CotangentSums;
  const std::string axis_name_;
  const IntrusivePtr<stave_detail::Processes> processes_;
};

/// Runs `body` with `ranks` installed, like `with` for any handler. An exception that leaves `body`
/// ends all processes.
template <class Body>
decltype(auto) with(Ranks& ranks, Body&& body) {
  ranks.begin();
  try {
    const auto run = [&]() -> decltype(auto) {
      return with(static_cast<Handles<Call, AxisSize>&>(ranks), std::forward<Body>(body));
    };
    if constexpr (std::is_void_v<decltype(run())>) {
      run();
      ranks.end();
    } else {
      decltype(auto) result = run();
      ranks.end();
      return result;
    }
  } catch (...) {
    ranks.abort(std::current_exception());
  }
}

}  // namespace stave
