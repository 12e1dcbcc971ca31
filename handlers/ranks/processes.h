// The processes of an axis, and the exchange of data between them. This header is internal to
// ranks. A "place" is the index of a process along the axis: its rank in the axis's communicator.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <stave/core/effects/function_ref.h>
#include <stave/core/ops/named_axis.h>
#include <stave/handlers/ranks/nccl.h>
#include <stave/handlers/ranks/ranks.h>

namespace stave_detail {

/// Writes the reason to stderr, and ends all processes.
[[noreturn]] void end_all(const std::string& why) noexcept;

/// The number of running `with(ranks, ...)` in this process. If the process exits while this is
/// positive, it ends all other processes.
extern std::atomic<int> open_withs;

/// Returns a description of a collective for error messages.
std::string description_of(const Op& op, const CollectiveAttributes& attributes, Dtype dtype, const Shape& shape,
                           Device device);

class Processes final : public Communicator {
 public:
  /// Creates an axis of all processes, of the processes of a communicator, or of a group (see
  /// RanksOptions).
  Processes(const std::string& axis_name, const RanksOptions& options);
  ~Processes() override;

  void exchange(const Op& op, const CollectiveAttributes& attributes, const View& x, const View& result) override;
  void exchange_on_device(void* stream, const Op& op, const CollectiveAttributes& attributes, const View& x,
                          const View& result) override;
  /// Returns the device whose memory is used to exchange a tensor on `device`: the GPU that this
  /// process uses with NCCL, or else the CPU. All processes must call this function before an
  /// exchange. `what(device)` describes the collective for the error of check_alike.
  Device exchanges_on(Device device, FunctionRef<std::string(Device)> what);
  /// Describes how tensors on devices are exchanged; empty until the processes have decided it.
  std::string way() const;
  /// Compares the text what() and the scopes between all processes, by their digests. If they
  /// differ, each process throws a TransformError that lists what() and the scopes of every
  /// process.
  void check_alike(FunctionRef<std::string()> what);
  /// Checks with check_alike that all processes are at the end of a `with`, if there was a
  /// collective since the last `with` ended.
  void end();
  /// Returns this process's description for messages: rank 1 of 4 of "batch".
  std::string str() const;
  /// Returns an axis of the same processes with a separate communicator, for use by another thread.
  /// All processes must call this function.
  IntrusivePtr<Processes> again() const;
  /// Returns whether several threads may exchange data at the same time.
  static bool is_thread_multiple() noexcept;

  const std::string name;
  int size = 1, place = 0;

 private:
  bool agree(std::uint64_t digest, const View* x, FunctionRef<std::string()> what);
  [[noreturn]] void fail_mismatch(const std::string& mine) const;
  const std::byte* operand(int place) const noexcept;
  void combine(const Op& op, const CollectiveAttributes& attributes, const View& x, const View& result) const;
  void reduce(const View& x, const View& result, MPI_Op op) const;
  void scatter(const View& x, const View& result) const;
  void permute(const CollectiveAttributes::Pairs& pairs, const View& x, const View& result) const;

  void decide(Device device);

  MPI_Comm communicator_ = MPI_COMM_NULL;
  // With few processes: the records that all processes exchanged last, in the order of the places.
  // A record is a digest and a small operand; see record_bytes in processes.cpp.
  std::vector<std::byte> records_;
  // True if there was a collective since the last `with` ended.
  bool exchanged_ = false;
  // Whether the processes have compared their first collective, and whether they have decided
  // between NCCL and the host's memory.
  bool compared_first_collective_ = false, decided_ = false;
  // The reason why NCCL is not used.
  std::string why_not_;
  // Null if NCCL is not used.
  std::unique_ptr<Nccl> nccl_;
};

}  // namespace stave_detail
