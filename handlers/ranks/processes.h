// The processes of an axis: who exchanges between them. Internal to ranks.
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

/// Writes to stderr that this process ends all, and why, and ends them.
[[noreturn]] void end_all(const std::string& why) noexcept;

/// How many `with(ranks, ...)` are running in this process: one that exits meanwhile ends all
/// others.
extern std::atomic<int> open_withs;

/// A collective as errors name it.
std::string in_words(const Op& op, const CollectiveAttributes& attributes, Dtype dtype, const Shape& shape,
                     Device device);

class Processes final : public Communicator {
 public:
  /// Of all processes, of a communicator, or of a group: as the options of Ranks say.
  Processes(const std::string& axis_name, const RanksOptions& options);
  ~Processes() override;

  void exchange(const Op& op, const CollectiveAttributes& attributes, const View& x, const View& result) override;
  void exchange_on_device(void* stream, const Op& op, const CollectiveAttributes& attributes, const View& x,
                          const View& result) override;
  /// Where a tensor of this device is to be for that: the CPU, or the one device that this place goes by NCCL with. To be asked by all
  /// before they exchange; `what` is as for check_alike.
  Device exchanges_on(Device device, FunctionRef<std::string(Device)> what);
  /// How tensors on devices go; empty until it is decided.
  std::string way() const;
  /// Compares what all processes are about to do, by a digest. Where they differ, each throws a
  /// TransformError that says of all what what() says there, and in which scopes.
  void check_alike(FunctionRef<std::string()> what);
  /// The same of the end of a `with`, if there was a collective since the one before.
  void end();
  /// This place, for messages: rank 1 of 4 of "batch".
  std::string str() const;
  /// The same processes again, whose messages do not meet those of others: for another thread. To be made by all.
  IntrusivePtr<Processes> again() const;
  /// Whether several threads may exchange at a time.
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
  std::vector<std::byte> records_;  // what all places said last, and their operands, if they are few and these small
  bool exchanged_ = false;          // since a `with` ended
  bool met_ = false, decided_ = false;
  std::string why_not_;         // they do not go by NCCL
  std::unique_ptr<Nccl> nccl_;  // null: they do not
};

}  // namespace stave_detail
