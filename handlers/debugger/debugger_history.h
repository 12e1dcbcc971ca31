// The history of a debugged program: the operations that ran, with their source lines;
// the operation that a derivative belongs to; and the values that had labels.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>

#include <stave/handlers/observe/stepping.h>

namespace stave_detail {

using stave::Tensor;

struct PastOperation {
  std::uint64_t number = 0;  // Counted from 1.
  std::string text;          // "sin f32[3] -> f32[3]  [layer1]".
  CallStack stack;
};

class DebuggerHistory {
 public:
  /// Adds an operation that is about to be performed. Must be called by a handler that is handling
  /// it.
  void add(const Call& call, const ScopeNames& scopes);
  /// Returns the most recent operations, at most 2000; the latest is the last.
  const std::deque<PastOperation>& operations() const noexcept { return operations_; }
  std::uint64_t count() const noexcept { return count_; }
  /// Returns the forward operation whose derivative is computed; null if it was not seen,
  /// or was forgotten.
  const PastOperation* forward_of(const Differentiated& derivative) const;

  /// Returns the last operand value of each label. The values stay in memory until `forget_values`.
  const std::map<std::string, Tensor>& labelled() const noexcept { return labelled_; }
  void forget_values() { labelled_.clear(); }

 private:
  // The maximal number of operations, which take about 1 KB each.
  static constexpr std::size_t most = 2000;
  std::deque<PastOperation> operations_;
  std::uint64_t count_ = 0;
  ForwardLinks links_;
  std::map<std::string, Tensor> labelled_;
};

/// Returns a hash of the elements, shape and dtype.
std::uint64_t fingerprint_of(const Tensor& x);

}  // namespace stave_detail
