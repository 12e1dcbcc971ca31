// Operations whose rows are independent. They are planned once for all rows, and then run on a few
// rows at a time, so that the rows stay in the L1 cache from one operation to the next. Planning
// once matters, because analysing the shapes of a call takes longer than the arithmetic of a few
// rows.
#pragma once

#include <memory>

#include <stave/core/tensor/backend.h>

namespace stave_cpu {

using stave::Index;

class RowStep {
 public:
  virtual ~RowStep() = default;
  /// Computes rows first, ..., first + count - 1 of axis 0.
  virtual void run(Index first, Index count) const = 0;
};

/// Plans one operation, or returns null if the operation does not have one of the supported forms:
/// elementwise operations on dense operands, or on a dense operand and one value per row;
/// reductions of the last axis; and regions whose outputs are elements or reductions of the last
/// axis. The results are, bit for bit, those of running the operation on all rows. `at_a_time` is
/// the number of rows that each run() computes. A region prefetches the inputs of the next
/// at_a_time rows.
std::unique_ptr<RowStep> row_step(const stave::Backend::Step& step, Index at_a_time);

}  // namespace stave_cpu
