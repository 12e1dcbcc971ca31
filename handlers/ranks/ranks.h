// Ranks: the processes of a cluster, or of one machine, as the places of a named axis. By MPI.
//
//   int main() {                                       // mpirun -np 4 program
//     Ranks ranks("batch");
//     with(ranks, [] { train(); });                     // psum(x, "batch") inside is of all four processes
//   }
//
// The function is that of vmap(f, {.axis_name = "batch"}), unchanged: values to rounding, derivatives too, and equal bits from run to
// run. Each process has its own part of the data, and performs the same collectives in the same order; what stands inside of
// Ranks (grad, vmap, checkpoint ...) and around it composes as with any operation.
//
// Tensors on CUDA devices go by NCCL, in the order of the device's work: the host does not wait. All places decide that together, at the
// first collective of a tensor on a device, and each for the device of its own tensor. By way of the host's memory go all, where one place
// has its tensor on the CPU, or no libnccl.so.2, or shares its GPU with another; describe() says which way, and why. From then on a
// collective is of tensors on devices in all places, or on the CPU in all.
//
// Started without mpirun, the process is the one place of each axis.
//
// - What leaves `with` by an exception ends all processes, after its message: others would wait for this one for ever. So does a
//   process that exits inside of it.
// - Before each collective the processes compare what they are about to perform: operation, dtype, shape, device and scopes. Where
//   these differ, each throws an error that says them of each. Among up to eight processes, an operand of up to 1 KiB goes by the
//   same message; else the comparison costs a short one.
// - Whoever waits longer than STAVE_RANKS_TIMEOUT seconds for the others (60, unless the environment says otherwise; 0: for ever)
//   writes to stderr in what, and waits on.
// - MPI is initialised by the first Ranks, if it is not yet, and finalised at the program's end.
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
  /// Processes that give the same number have an axis of their own, in the order of their ranks: Ranks rows("rows", {.group = rank / 4}).
  std::optional<Index> group{};
  /// Among the processes of this communicator, as MPI_Comm_c2f gives it, instead of all.
  std::optional<int> communicator{};
};

/// Answers collectives over one axis: place i is the process of rank i. To be made by all processes of the communicator, in the same order.
class Ranks final : public Handles<Call, AxisSize> {
 public:
  /// Throws Error if MPI cannot be initialised, or was finalised.
  explicit Ranks(std::string axis_name, RanksOptions options = {});
  ~Ranks() override;
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  Index size() const noexcept;   ///< processes
  Index place() const noexcept;  ///< of this one

  Outputs handle(Call& call) override;
  std::optional<Index> handle(AxisSize& axis) override;
  std::string describe() const override;

  /// The part that the processes do together begins: until `end`, a process that exits ends all.
  void begin() const noexcept;
  /// All have come to the end of it. Throws TransformError where some are about to perform a
  /// collective instead.
  void end() const;
  /// Writes the exception's message to stderr, and ends all processes.
  [[noreturn]] void abort(const std::exception_ptr& why) const noexcept;

 private:
  friend class CotangentSums;
  const std::string axis_name_;
  const IntrusivePtr<stave_detail::Processes> processes_;
};

/// As with any handler; but what leaves body by an exception ends all processes.
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
