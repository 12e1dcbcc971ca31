// Regions: straight-line programs of elementwise operations, which one operation performs (ops/fused.h).
//
//   Region region({float32, float32});                     // values 0 and 1
//   int product = region.add(op_multiply, {0, 1});         // 2
//   int half = region.add(Scalar(0.5), float32);           // 3
//   int y = region.add(op_add, {product, half});             // 4
//   region.set_outputs({y, region.reduce(op_sum, y, {-1})});
//
// Values are numbered: the inputs, then what the steps give. All have one shape, which the region does not know: so neither what
// broadcasts nor lanes are its business. It may end in reductions of values, whose numbers are negative: nothing is computed of them.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <stave/core/effects/intrusive.h>
#include <stave/core/op/op.h>
#include <stave/core/program/kernel_loop.h>

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

  /// A value over some of its axes, which count from behind: -1 is the last one.
  struct Reduction {
    const Op* op;
    int value;
    Shape axes;  // sorted
    bool keepdims;
  };

  /// What a backend finds out about a region once, and keeps with it.
  struct Prepared {
    virtual ~Prepared() = default;
    std::unique_ptr<const Prepared> next = nullptr;
    const void* key = nullptr;
  };

  explicit Region(std::vector<Dtype> inputs) : inputs_(std::move(inputs)) {}
  Region(const Region&) = delete;
  ~Region() { delete prepared_.load(); }

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
  /// Whether a region can end in it: sum, prod, max, min, all, any.
  static bool admits_reduction(const Op& op);
  /// A reduction of a value over axes, -1 being the last one, and the number by which it can be an output. Throws TransformError for
  /// an operation that is none or a value that there is not, DtypeError where the operation does not take the value's dtype (all
  /// and any take bool, the others anything else), IndexError for an axis that is not negative, ShapeError for one given twice.
  int reduce(const Op& op, int value, Shape axes, bool keep = false);
  /// Ends the region: which values and reductions it gives. Steps that none of them needs are dropped, which numbers the others anew, and
  /// what they give gets slots: one is free again after the last step that reads it, but for those of numbers and outputs.
  void set_outputs(std::vector<int> values);

  const std::vector<Dtype>& inputs() const noexcept { return inputs_; }
  const std::vector<Step>& steps() const noexcept { return steps_; }
  const std::vector<int>& outputs() const noexcept { return outputs_; }
  const std::vector<Reduction>& reductions() const noexcept { return reductions_; }
  int slot_count() const noexcept { return slots_; }
  /// What an output is a reduction of; null: it is a value.
  const Reduction* reduction(int output) const {
    return output < 0 ? &reductions_[static_cast<std::size_t>(-1 - output)] : nullptr;
  }
  /// Of an output the value, itself or reduced.
  int value_behind(int output) const { return output < 0 ? reduction(output)->value : output; }
  /// The input or number that a value is, through steps that change nothing; -1: it is computed.
  int given(int value) const;
  Dtype dtype(int value) const {
    if (value < 0) value = value_behind(value);
    const auto inputs = static_cast<int>(inputs_.size());
    return value < inputs ? inputs_[static_cast<std::size_t>(value)] : step(value).dtype;
  }
  /// The step that gives this value, which is no input.
  const Step& step(int value) const { return steps_[static_cast<std::size_t>(value) - inputs_.size()]; }

  /// What a program compiled of these very steps: kept are those for the region's dtypes. After set_outputs.
  void set_loops(std::span<const stave_detail::Loop> loops);
  /// The loop for an instruction set; null: there is none.
  const stave_detail::Loop* loop(std::string_view isa) const;

  /// Whether it takes, computes and gives the same as another one.
  bool is_same_as(const Region& other) const;

  /// Another one with the same values, whose reductions and outputs are yet to be said.
  IntrusivePtr<Region> reopened() const;

  /// A line for each step: "c:float32 = multiply a b".
  std::string str() const;

  /// What `make` gives for `key`, made once: regions derived from this one.
  template <class Make>
  RegionPtr derived(const std::string& key, Make make) const {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (const auto found = derived_.find(key); found != derived_.end()) return found->second;
    }
    RegionPtr made = make();
    const std::lock_guard<std::mutex> lock(mutex_);
    return derived_.emplace(key, std::move(made)).first->second;
  }
  /// What `make` gave as a unique_ptr<P> for `key`, the address of something that stays.
  template <class P, class Make>
  const P& prepared(const void* key, Make make) const {
    const auto find = [&](const Prepared* at) {
      while (at && at->key != key) at = at->next.get();
      return static_cast<const P*>(at);
    };
    if (const P* const found = find(prepared_.load(std::memory_order_acquire))) [[likely]]
      return *found;
    std::unique_ptr<P> made = make();
    made->key = key;
    const std::lock_guard<std::mutex> lock(mutex_);
    if (const P* const found = find(prepared_.load())) return *found;
    made->next.reset(prepared_.load());
    prepared_.store(made.get());
    return *made.release();
  }

 private:
  void drop_unused_reductions();
  void drop_unused();
  void assign_slots();

  std::vector<Dtype> inputs_;
  std::vector<Step> steps_;
  std::vector<Reduction> reductions_;
  std::vector<int> outputs_;
  std::vector<stave_detail::Loop> loops_;
  int slots_ = 0;
  mutable std::mutex mutex_;
  mutable std::atomic<const Prepared*> prepared_{nullptr};
  mutable std::unordered_map<std::string, RegionPtr> derived_;
};

}  // namespace stave
