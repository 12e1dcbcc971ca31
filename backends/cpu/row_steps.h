// Operations that make their rows apart, planned once for all rows and performed for a few of them at a time: what a call finds out about
// shapes takes longer than the arithmetic of a few rows, and only a few rows stay in the first cache from one operation to the next.
#pragma once

#include <memory>

#include <stave/core/tensor/backend.h>

namespace stave_cpu {

using stave::Index;

class RowStep {
 public:
  virtual ~RowStep() = default;
  /// Rows first, ..., first + count - 1 of axis 0.
  virtual void run(Index first, Index count) const = 0;
};

/// Null: it is none of those that are planned, which are dense elementwise operations, with a value for each row perhaps, reductions of
/// the last axis, and regions that end in these. What is computed are the very bits of a call. `at_a_time`: how many rows run() gets,
/// which are still to be read while the ones before are computed.
std::unique_ptr<RowStep> row_step(const stave::Backend::Step& step, Index at_a_time);

}  // namespace stave_cpu
