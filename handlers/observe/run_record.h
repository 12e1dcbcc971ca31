// RunRecord and RunComparison: the first operation at which two runs of a program differ.
//
//   RunRecord record;                          // one build, thread count or device
//   with(record, [&] { train(); });
//   record.write("a.run");
//
//   RunComparison comparison("a.run");         // another one
//   with(comparison, [&] { train(); });        // throws RunDifferenceError at the first difference
//   if (const auto difference = comparison.difference()) ...  // also if this run ended earlier
//
// For each operation, the file has digests of the bits of its operands and outputs, its name,
// attributes, shapes and dtypes, its scopes, and the line of the source if the program was compiled
// with -g (source_lines.h). It is text with a line for each operation, made for diff as well.
//
// - Two runs are equal if they perform the same operations in the same order with the same bits.
//   Devices, labels, scopes and source lines may differ. -0 differs from 0, and NaN from a NaN of
//   other bits.
// - The report says whether the operation computed other bits from equal operands, or an operand
//   differs that no observed operation made: an argument, a captured tensor, a draw of the host.
// - Outside of grad and vmap, backward passes and all lanes are seen. The steps of a loop follow
//   each other in the sequence. A compiled function is called as it is, without its recordings.
//   Rematerialisation and fused backward passes, which change no bits, are off under any handler of
//   a user.
// - Several threads may share a handler. The operations of each thread are a sequence of their own,
//   and the sequences are matched by their first operations, whichever thread comes first. The
//   turns of `concurrently` are one sequence.
// - All values are read, which waits for the device; each costs about as much time as a copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <stave/core/op/op.h>
#include <stave/core/tensor/note.h>
#include <stave/core/tensor/options.h>
#include <stave/handlers/observe/source_lines.h>

namespace stave {

/// One operation of a run.
struct RunOperation {
  std::string text;                         ///< "sum axes=[0] f32[64] -> f32[]"
  std::uint64_t operands = 0, outputs = 0;  ///< Digests of all elements' bits.
  std::string scopes;                       ///< "[layer1] [backward of grad]", innermost first
  std::string place;                        ///< "model.cpp:12 in loss"; empty if unknown
};

/// The first difference between a recorded run and this one.
struct RunDifference {
  /// The number of the operation in its thread, from 0.
  std::size_t number = 0;
  /// Empty if the run had already ended.
  std::optional<RunOperation> recorded, found;
  /// The difference in words: both operations with their places, and whether their operands differ.
  std::string str() const;
};

/// A RunComparison has found a difference.
class RunDifferenceError : public Error {
  using Error::Error;
};

}  // namespace stave

namespace stave_detail {

/// The number of the calling thread. No other thread of the process ever has it.
std::uint64_t number_of_this_thread() noexcept;

/// Describes operations, and remembers the digests of their outputs in notes.
class OperationDigests {
 public:
  OperationDigests();
  /// Performs the call. Sets `operation`, without its place.
  Outputs perform_described(Call& call, RunOperation& operation) const;

 private:
  std::uint64_t digest(const Tensor& x) const;
  std::uint64_t digest_of_all(std::span<const Tensor> xs) const;

  Notes<std::uint64_t> digests_;
};

}  // namespace stave_detail

namespace stave {

class RunRecord : public Handler {
 public:
  Outputs handle(Call& call) override;
  std::string describe() const override { return "run record"; }
  HandlerProperties properties() const noexcept override { return {.only_observes = true}; }

  /// Writes the operations that were performed until now. Throws FileError.
  void write(const std::string& path) const;

 private:
  struct Performed {
    RunOperation operation;
    const stave_detail::CallStack* stack;
  };
  const stave_detail::OperationDigests digests_;
  mutable std::mutex mutex_;
  std::map<std::uint64_t, std::size_t> threads_;
  std::vector<std::vector<Performed>> sequences_;  // one for each thread
  std::set<stave_detail::CallStack> stacks_;
};

struct RunComparisonOptions {
  [[no_unique_address]] ByName by_name{};
  /// Whether the first difference is an error. If false, the run goes on unobserved.
  bool stop = true;
};

class RunComparison : public Handler {
 public:
  /// Reads the file of a RunRecord. Throws FileError.
  explicit RunComparison(const std::string& path, RunComparisonOptions options = {});
  Outputs handle(Call& call) override;
  std::string describe() const override { return "run comparison"; }
  HandlerProperties properties() const noexcept override { return {.only_observes = true}; }

  /// Returns the first difference so far. After this run has ended, operations that only the
  /// recorded run has are a difference, too.
  std::optional<RunDifference> difference() const;

 private:
  struct Sequence {
    std::vector<RunOperation> operations;
    std::size_t next = 0;
    bool taken = false;  // a thread of this run performs this sequence
  };
  bool differs() const;
  Sequence* sequence_for(const RunOperation& first);

  const RunComparisonOptions options_;
  const stave_detail::OperationDigests digests_;
  mutable std::mutex mutex_;
  std::vector<Sequence> sequences_;
  std::map<std::uint64_t, Sequence*> threads_;
  std::optional<RunDifference> difference_;
};

}  // namespace stave
