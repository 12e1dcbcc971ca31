// The processes of an axis, and the exchange between them. This header is internal to ranks.
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

/// The number of running `with(ranks, ...)` in this process. If the process exits meanwhile,
/// it ends all others.
extern std::atomic<int> open_withs;

/// Formats a collective for error messages.
std::string in_words(const Op& op, const CollectiveAttributes& attributes, Dtype dtype, const Shape& shape,
                     Device device);

class Processes final : public Communicator {
 public:
  /// Creates an axis of all processes, of a communicator, or of a group, according to the options.
  Processes(const std::string& axis_name, const RanksOptions& options);
  ~Processes() override;

  void exchange(const Op& op, const CollectiveAttributes& attributes, const View& x, const View& result) override;
  void exchange_on_device(void* stream, const Op& op, const CollectiveAttributes& attributes, const View& x,
                          const View& result) override;
  /// Returns the device on which a tensor of this device is exchanged: the CPU, or the device
  /// with which this place uses NCCL. All places must call it before an exchange; `what`
  /// is as for check_alike.
  Device exchanges_on(Device device, FunctionRef<std::string(Device)> what);
  /// Describes the transport of tensors on devices; empty until it is decided.
  std::string way() const;
  /// Compares the digests of what() and the scopes on all processes. If they differ, each process
  /// throws a TransformError that lists what() and the scopes of every process.
  void check_alike(FunctionRef<std::string()> what);
  /// Checks in this way that all processes are at the end of a `with`, if there was a collective
  /// since the last `with` ended.
  void end();
  /// Formats this place for messages: rank 1 of 4 of "batch".
  std::string str() const;
  /// Returns the same processes with a separate communicator, for use by another thread.
  /// All processes must call it.
  IntrusivePtr<Processes> again() const;
  /// Returns whether several threads may exchange at the same time.
  static bool takes_threads() noexcept;

  const std::string name;
  int size = 1, place = 0;

 private:
  bool agree(std::uint64_t digest, const View* x, FunctionRef<std::string()> what);
  [[noreturn]] void fail_unlike(const std::string& mine) const;
  const std::byte* operand(int place) const noexcept;
  void combine(const Op& op, const CollectiveAttributes& attributes, const View& x, const View& result) const;
  void reduce(const View& x, const View& result, MPI_Op op) const;
  void scatter(const View& x, const View& result) const;
  void permute(const CollectiveAttributes::Pairs& pairs, const View& x, const View& result) const;

  void decide(Device device);

  MPI_Comm communicator_ = MPI_COMM_NULL;
  // If there are few places: the records that all places exchanged last, in the order of the places
  // (digest and small operand; see record_bytes in processes.cpp).
  std::vector<std::byte> records_;
  // Whether there was a collective since the last `with` ended.
  bool exchanged_ = false;
  bool met_ = false, decided_ = false;
  // The reason why NCCL is not used.
  std::string why_not_;
  // Null if NCCL is not used.
  std::unique_ptr<Nccl> nccl_;
};

}  // namespace stave_detail
