// What a debugger saw of a program: the operations that ran before, from which line of the source, which of them a derivative belongs to,
// and the values that had labels.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>

#include <stave/handlers/observe/stepping.h>

namespace stave_detail {

using stave::Tensor;

struct PastOperation {
  std::uint64_t number = 0;  // counted from 1
  std::string text;          // "sin f32[3] -> f32[3]  [layer1]"
  CallStack stack;
};

class DebuggerHistory {
 public:
  /// For a handler that is answering: `call` is about to be performed.
  void add(const Call& call, const ScopeNames& scopes);
  /// The last operations, of which the latest is the last; not all that there were.
  const std::deque<PastOperation>& operations() const noexcept { return operations_; }
  std::uint64_t count() const noexcept { return count_; }
  /// The operation of which a derivative is computed; null if it was not seen, or was forgotten.
  const PastOperation* forward_of(const Differentiated& derivative) const;

  /// The values that operands had under these labels last. They stay in memory until `forget_values`.
  const std::map<std::string, Tensor>& labelled() const noexcept { return labelled_; }
  void forget_values() { labelled_.clear(); }

 private:
  static constexpr std::size_t most = 2000;  // operations, about a kilobyte each
  std::deque<PastOperation> operations_;
  std::uint64_t count_ = 0;
  ForwardLinks links_;
  std::map<std::string, Tensor> labelled_;
};

/// A number that differs for other elements, shapes or dtypes.
std::uint64_t fingerprint_of(const Tensor& x);

}  // namespace stave_detail
