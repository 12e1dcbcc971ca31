// Regions: straight-line programs of elementwise operations, which one operation performs (ops/fused.h).
//
//   Region region({float32, float32});                     // values 0 and 1
//   int product = region.add(op_multiply, {0, 1});         // 2
//   int half = region.add(Scalar(0.5), float32);           // 3
//   region.set_outputs({region.add(op_add, {product, half})});
//
// Values are numbered: the inputs, then what the steps give. All have one shape, which the region does not know: so neither what
// broadcasts nor lanes are its business.
#pragma once

#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include <stave/core/effects/intrusive.h>
#include <stave/core/op.h>

namespace stave {

class Region;
using RegionPtr = IntrusivePtr<const Region>;

class Region : public RefCounted {
 public:
  /// An operation on earlier values, or a number.
  struct Step {
    const Op* op;  // null: a number
    SmallVector<int, 3> operands;
    Dtype dtype;  // of what it gives
    Scalar number;
    Bytes16 bytes{};  // of a number, as an element
    int slot = -1;    // where the value is kept: see set_outputs
  };

  explicit Region(std::vector<Dtype> inputs) : inputs_(std::move(inputs)) {}
  Region(const Region&) = delete;

  /// Whether a region can perform it: the elementwise operations of all_ops.h, astype, stop_gradient.
  static bool admits(const Op& op);

  /// A step, and the number of its value. Throws TransformError for an operation that it cannot perform or an operand that there
  /// is not, DtypeError for operands of other dtypes than the operation takes. Only astype takes `to`.
  int add(const Op& op, std::span<const int> operands, Dtype to = bool_);
  int add(const Op& op, std::initializer_list<int> operands, Dtype to = bool_) {
    return add(op, std::span<const int>(operands.begin(), operands.size()), to);
  }
  /// A number. Throws DtypeError if dtype cannot hold it.
  int add(Scalar number, Dtype dtype);
  /// Ends the region: which values it gives. Steps that none of them needs are dropped, which numbers the others anew, and what
  /// they give gets slots: one is free again after the last step that reads it, but for those of numbers and outputs.
  void set_outputs(std::vector<int> values);

  const std::vector<Dtype>& inputs() const noexcept { return inputs_; }
  const std::vector<Step>& steps() const noexcept { return steps_; }
  const std::vector<int>& outputs() const noexcept { return outputs_; }
  int slots() const noexcept { return slots_; }
  Dtype dtype(int value) const {
    const auto inputs = static_cast<int>(inputs_.size());
    return value < inputs ? inputs_[static_cast<std::size_t>(value)] : step(value).dtype;
  }
  /// The step that gives this value, which is no input.
  const Step& step(int value) const { return steps_[static_cast<std::size_t>(value) - inputs_.size()]; }

  /// A line for each step: "c:float32 = multiply a b".
  std::string str() const;

  /// What `make` gives for `key`, made once: regions derived from this one.
  template <class Make>
  RegionPtr derived(const std::string& key, Make make) const {
    {
      const std::lock_guard lock(mutex_);
      if (const auto found = derived_.find(key); found != derived_.end()) return found->second;
    }
    RegionPtr made = make();
    const std::lock_guard lock(mutex_);
    return derived_.emplace(key, std::move(made)).first->second;
  }

 private:
  void drop_unused();
  void assign_slots();

  std::vector<Dtype> inputs_;
  std::vector<Step> steps_;
  std::vector<int> outputs_;
  int slots_ = 0;
  mutable std::mutex mutex_;
  mutable std::unordered_map<std::string, RegionPtr> derived_;
};

}  // namespace stave
