// What a backward pass computes again of the values that its tape dropped (anchors.cpp), and with them what it makes of these.
//
// A run of elementwise operations is computed again and walked back over in one: the operations of both are recorded into a
// region (core/program/region.h), which is performed by tiles, so that no value between takes memory. It performs, in the same order, what
// the pass without it performs, so the cotangents are the same bits.
#pragma once

#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include <stave/core/program/region.h>
#include <stave/handlers/transforms/tape.h>

namespace stave_detail {

/// The value of a slot, whose entry the tape can compute again: by operations below all handlers but the library's own that stood
/// there at first.
Tensor computed_again(const GradHandler& handler, const Slot& slot);

class JointRegion final : public Handler {
 public:
  /// Of values of this shape.
  JointRegion(const GradHandler& handler, Shape shape) : handler_(handler), shape_(std::move(shape)), notes_("grad") {}

  /// Whether it performs the rules of an entry. Not if it has performed enough of them.
  bool takes(Entry& entry);
  /// What stands for x, which is of the region's shape, or a number of a rule.
  Tensor stand_in(const Tensor& x);
  /// The same for what an entry saved, or dropped. Undefined if a rule does not read it.
  Tensor input(Entry& entry, std::size_t i);
  Tensor output(Entry& entry, std::size_t i);
  Tensor value_of(const Slot& slot) { return tensor(again(slot)); }
  bool stands_in(const Tensor& x) const { return notes_.find(x) != nullptr; }
  /// A rule has been recorded; it gave an entry its first cotangent.
  void count_step() { ++taken_; }
  void count_result(Entry& entry);

  /// The values that these stand for.
  std::vector<Tensor> values_of(std::span<const Tensor> stand_ins);

  Outputs handle(Call& call) override;
  std::string describe() const override { return "grad"; }
  bool discreet() const noexcept override { return true; }

 private:
  struct Value {
    const Op* op = nullptr;  // null: a number or an input
    SmallVector<int, 3> operands;
    Dtype dtype = bool_;
    Scalar number = 0;
    int input = -1;
  };
  int add(Value value);
  int number(const Tensor& x);
  int given(const Tensor& x);
  int operand(Entry& entry, std::size_t i);
  int again(const Slot& slot);
  Tensor tensor(int value);
  RegionPtr region(const std::vector<int>& outputs) const;
  bool is_followed() const;

  const GradHandler& handler_;
  const Shape shape_;
  Notes<int> notes_;
  std::vector<Value> values_;
  std::vector<Tensor> inputs_;
  std::unordered_map<const Node*, int> given_;
  std::map<std::pair<Dtype, std::vector<unsigned char>>, int> numbers_;
  std::unordered_map<const Entry*, int> again_;
  std::vector<EntryPtr> entries_;  // keeps those of again_
  int taken_ = 0, results_ = 0;
};

}  // namespace stave_detail
