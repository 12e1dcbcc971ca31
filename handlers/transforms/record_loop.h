// RecordLoop: the effect by which loop and scan offer their steps to a recorder, which records them
// as one operation.
#pragma once

#include <vector>

#include <stave/core/op/op.h>
#include <stave/core/ops/entries_along.h>

namespace stave_detail {

/// The rows of stacks: the entries along axis 0.
class StackRows {
 public:
  explicit StackRows(std::span<const Tensor> stacks);
  /// Returns row i of each stack.
  Outputs operator()(Index i) const;

 private:
  std::vector<EntriesAlong> stacks_;
};
/// A row of zeros for each stack, with the shape of the stack's rows.
Outputs zero_row(std::span<const Tensor> stacks);
/// Rows first to first + count - 1 of a stack.
Tensor rows_of(const Tensor& stack, Index first, Index count);

/// The results of a scan's steps, which are added in the order of the steps.
class StackedRows {
 public:
  /// `reverse`: the steps go from the last row to the first.
  StackedRows(const char* name, bool reverse) : name_(name), reverse_(reverse) {}
  /// Adds the results of one step. This and add_stacks throw ShapeError or DtypeError if a result
  /// has another shape or dtype than in an earlier step.
  void add_row(Outputs row);
  /// Adds the stacked results of some steps.
  void add_stacks(Outputs stacks);
  /// Returns the stacks of all results.
  Outputs take();

 private:
  void check_type(std::size_t result, Abstract type);
  void stack_rows();

  const char* name_;
  bool reverse_;
  std::vector<Abstract> types_;  // the types of the rows of each result
  // For each result: the rows that are not stacked yet, and the stacks of the rows before them.
  std::vector<std::vector<Tensor>> rows_, stacks_;
};

/// The effect that offers n > 2 steps from `state` to a recorder, which performs all of them, some
/// or none. The answer is the number of steps that are left. A handler inside of the recorder
/// passes the effect on. The recorder runs the steps under the handlers of the place where the loop
/// was performed, and may discard them.
struct RecordLoop {
  static constexpr bool remembered = false;
  using Result = Index;
  const Index n, snapshots;
  const bool reverse;
  /// Takes the state and a row of each stack. Returns the next state, and a row of each result.
  const FunctionRef<Outputs(std::span<const Tensor>)> step;
  /// Set by `step` when the steps have changed anything in the state other than its tensors.
  const bool& changes;
  Outputs& state;
  const std::span<const Tensor> stacks;
  StackedRows& results;
  Frame* const performer = current;
  Index unhandled() const noexcept { return n; }
};

/// Returns true if a recorder that records loops receives a loop that is performed here. Handlers
/// of operations inside of it must be transforms, whose answers need no check: they see the loop as
/// one operation, for which they have rules. There must be no controller inside of it, and no
/// handler that counts operations.
bool is_loop_recorded() noexcept;

}  // namespace stave_detail
