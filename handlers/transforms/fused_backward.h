// The fused backward pass: recomputes values that a tape dropped (rematerialization.cpp), and
// performs the VJP rules that read them, as one operation.
//
// The operations that recompute the values are elementwise, or views, which are performed one by
// one. The operations of the rules are elementwise. The elementwise ones of one shape are recorded
// into one region (core/program/region.h). The region is performed tile by tile, so its
// intermediate values take no memory. It performs the same operations in the same order as
// an unfused backward pass, so the cotangents have the same bits.
#pragma once

#include <unordered_map>
#include <utility>
#include <vector>

#include <stave/core/program/region.h>
#include <stave/handlers/transforms/tape.h>

namespace stave_detail {

/// Returns the value of a slot, and computes it again if the tape has dropped it. As in the first
/// run, the operations reach only the library's own handlers: they bypass users' handlers and the
/// handlers inside of these.
Tensor computed_again(const GradHandler& handler, const Slot& slot);

class FusedBackward final : public Handler {
 public:
  /// Creates a region for values of this shape.
  FusedBackward(const GradHandler& handler, Shape shape)
      : handler_(handler), shape_(std::move(shape)), notes_("grad") {}

  /// Returns true if the region can perform the rules of an entry. The result is false once the
  /// region has reached its size limits.
  bool takes(Entry& entry);
  /// Returns the placeholder for x; x itself if it is one. x has the region's shape, or is
  /// a constant that a rule uses.
  Tensor add_operand(const Tensor& x);
  /// Returns the placeholder for an input or output that an entry saved or dropped. It is undefined
  /// if the rule does not read the value.
  Tensor input(Entry& entry, std::size_t i);
  Tensor output(Entry& entry, std::size_t i);
  Tensor value_of(const Slot& slot) { return tensor(again(slot)); }
  bool stands_in(const Tensor& x) const { return notes_.find(x) != nullptr; }
  /// Counts an entry whose rules were recorded. count_result counts the first cotangent of an entry
  /// as a result of the region, unless the region may perform the entry's rules.
  void count_step() { ++taken_; }
  void count_result(Entry& entry);

  /// Performs the region, and returns the values of these placeholders.
  std::vector<Tensor> values_of(std::span<const Tensor> stand_ins);

  Outputs handle(Call& call) override;
  std::string describe() const override { return "grad"; }
  HandlerProperties properties() const noexcept override { return {.runs_no_user_code = true}; }

 private:
  int number(const Tensor& x);
  int given(const Tensor& x);
  int operand(Entry& entry, std::size_t i);
  int again(const Slot& slot);
  Tensor tensor(int value);
  bool is_followed() const;

  const GradHandler& handler_;
  const Shape shape_;
  Notes<int> notes_;
  RegionBuilder builder_{Repetitions::kept};
  std::vector<Tensor> inputs_;
  std::unordered_map<const Node*, int> given_;
  std::unordered_map<const Entry*, int> again_;
  std::vector<EntryPtr> entries_;  // keeps the entries of again_ alive
  int taken_ = 0, results_ = 0;
};

}  // namespace stave_detail
