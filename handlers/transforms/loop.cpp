#include <stave/handlers/transforms/loop.h>

#include <algorithm>
#include <limits>
#include <utility>

#include <stave/core/ops/create.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/layout.h>
#include <stave/core/tensor/fail.h>

namespace stave_detail {

namespace {

/// Returns (s + r)! / (s! r!), the largest number of steps that can be walked back with s
/// snapshots if each step runs at most r times before it is recorded. The result saturates
/// at the largest Index.
Index most_steps(Index s, Index r) {
  Index most = 1;
  for (Index k = 1; k <= std::min(s, r); ++k) {
    const Index factor = std::max(s, r) + k;
    if (most > std::numeric_limits<Index>::max() / factor) return std::numeric_limits<Index>::max();
    most = most * factor / k;
  }
  return most;
}

Shape row_shape(const Shape& stack) { return Shape(std::vector<Index>(stack.begin() + 1, stack.end())); }

}  // namespace

// ---- rows ---------------------------------------------------------------------------------------

StackRows::StackRows(std::span<const Tensor> stacks) {
  for (const Tensor& stack : stacks) stacks_.emplace_back(stack, 0);
}

Outputs StackRows::operator()(Index i) const {
  Outputs row;
  for (const EntriesAlong& entry : stacks_) row.push_back(entry(i));
  return row;
}

Outputs zero_row(std::span<const Tensor> stacks) {
  Outputs row;
  for (const Tensor& stack : stacks) row.push_back(zeros(row_shape(stack.shape()), stack.dtype(), stack.device()));
  return row;
}

Tensor rows_of(const Tensor& stack, Index first, Index count) {
  return first == 0 && count == stack.shape(0) ? stack : entries(stack, 0, first, count);
}

Outputs stacks_without_rows(std::span<const Tensor> row) {
  Outputs stacks;
  for (const Tensor& x : row) {
    Shape shape = require_defined(x, "scan").shape();
    shape.insert(shape.begin(), 0);
    stacks.push_back(zeros(shape, x.dtype(), x.device()));
  }
  return stacks;
}

void StackedRows::check_type(std::size_t result, Abstract type) {
  if (result == types_.size()) return types_.push_back(std::move(type));
  const Abstract& first = types_[result];
  if (first.shape != type.shape)
    fail<ShapeError>("{}: result {} of the function has the shape {} in one step and {} in another", name_, result,
                     first.shape, type.shape);
  if (first.dtype != type.dtype)
    fail<DtypeError>("{}: result {} of the function is {} in one step and {} in another", name_, result, first.dtype,
                     type.dtype);
}

void StackedRows::add_row(Outputs row) {
  rows_.resize(row.size());
  for (std::size_t k = 0; k < row.size(); ++k) {
    check_type(k, {require_defined(row[k], name_).shape(), row[k].dtype()});
    rows_[k].push_back(std::move(row[k]));
  }
}

void StackedRows::add_stacks(Outputs stacks) {
  stack_rows();
  stacks_.resize(stacks.size());
  for (std::size_t k = 0; k < stacks.size(); ++k) {
    check_type(k, {row_shape(stacks[k].shape()), stacks[k].dtype()});
    stacks_[k].push_back(std::move(stacks[k]));
  }
}

void StackedRows::stack_rows() {
  stacks_.resize(std::max(stacks_.size(), rows_.size()));
  for (std::size_t k = 0; k < rows_.size(); ++k) {
    std::vector<Tensor> rows = std::exchange(rows_[k], {});
    if (rows.empty()) continue;
    if (reverse_) std::reverse(rows.begin(), rows.end());
    stacks_[k].push_back(stack(rows));
  }
}

Outputs StackedRows::take() {
  stack_rows();
  Outputs all;
  for (std::vector<Tensor>& stacks : stacks_) {
    if (reverse_) std::reverse(stacks.begin(), stacks.end());
    all.push_back(concat(stacks));
  }
  return all;
}

// ---- steps --------------------------------------------------------------------------------------

// Let r be the least number with most_steps(s, r) >= n. The fewest steps run in total if the next
// snapshot comes as late as possible with at most most_steps(s, r - 1) steps before it, and at
// least most_steps(s - 1, r - 1) after it.
Index steps_to_snapshot(Index n, Index snapshots) {
  Index r = 1;
  while (most_steps(snapshots, r) < n) ++r;
  return std::min(most_steps(snapshots, r - 1), n - most_steps(snapshots - 1, r - 1));
}

bool is_loop_recorded() noexcept {
  for (const Frame* frame = current; frame; frame = frame->below) {
    // A controller may suspend or drop the computation in the middle of the loop.
    if (frame->kind == Frame::Kind::computation) return false;
    if (!frame->slot) continue;
    const HandlerProperties handler = frame->handler->properties();
    if (handler.records_loops) return true;
    if (!frame->answers_need_no_check || handler.counts_slot_effects) return false;
  }
  return false;
}

// ---- checks -------------------------------------------------------------------------------------

void check_loop(const char* name, Index n, Index snapshots) {
  if (n < 0) fail<TransformError>("{}: the number of steps is {}: it must not be negative", name, n);
  if (snapshots < 0) fail<TransformError>("{}: snapshots is {}: it must not be negative", name, snapshots);
}

Index scan_length(std::span<const Tensor> stacks, std::optional<Index> length) {
  std::optional<Index> rows;
  for (const Tensor& stack : stacks) {
    if (require_defined(stack, "scan", 1).rank() == 0)
      fail<ShapeError>("scan: xs holds a tensor of rank 0, which has no rows: let the function capture it");
    if (rows && *rows != stack.shape(0))
      fail<ShapeError>("scan: xs holds tensors of {} and of {} rows (entries along axis 0)", *rows, stack.shape(0));
    rows = stack.shape(0);
  }
  if (!rows && !length)
    fail<TransformError>("scan: there are no tensors to take rows of: give the number of steps, {{.length = n}}");
  if (rows && length && *rows != *length)
    fail<ShapeError>("scan: length is {}, but xs holds tensors of {} rows", *length, *rows);
  return rows ? *rows : *length;
}

void fail_rows_differ(const char* name) {
  fail<TransformError>(
      "{}: a part of the function's results other than tensors, or their number, differs between two steps, so they "
      "cannot be stacked",
      name);
}

}  // namespace stave_detail
