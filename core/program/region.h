// Region: a straight-line program of elementwise operations, performed as one operation (fused.h).
//
//   Region region({float32, float32});                     // values 0 and 1
//   int product = region.add(op_multiply, {0, 1});         // 2
//   int half = region.add(Scalar(0.5), float32);           // 3
//   int y = region.add(op_add, {product, half});           // 4
//   region.set_outputs({y, region.reduce(op_sum, y, {-1})});
//
// Values are numbered: first the inputs, then one value for each step. All values have one shape,
// which the region does not know, so broadcasting and batching happen outside. A region may end in
// reductions of values. A reduction has a negative number (-1, -2, ...), and no step can read it.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
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
  /// One step: an operation on earlier values, or a scalar constant (a number).
  struct Step {
    const Op* op;  // null for a number
    SmallVector<int, 3> operands;
    Dtype dtype;  // the dtype of the step's value
    Scalar number;
    Bytes16 bytes{};  // the number as an element of this dtype
    int slot = -1;    // the number of the buffer for the value: see set_outputs

    bool operator==(const Step& other) const {
      return op == other.op && operands == other.operands && dtype == other.dtype &&
             bytes.words[0] == other.bytes.words[0] && bytes.words[1] == other.bytes.words[1];
    }
  };

  /// A reduction of a value over some axes, which count from the end: -1 is the last axis.
  struct Reduction {
    const Op* op;
    int value;
    Shape axes;  // sorted
    bool keepdims;

    bool operator==(const Reduction& other) const = default;
  };

  /// Base class of data that a backend computes once for a region and that the region owns.
  struct Prepared {
    virtual ~Prepared() = default;
    std::unique_ptr<const Prepared> next = nullptr;
    const void* key = nullptr;
  };

  explicit Region(std::vector<Dtype> inputs) : inputs_(std::move(inputs)) {}
  Region(const Region&) = delete;
  ~Region() { delete prepared_.load(); }

  /// Returns true if a region can perform the operation in a step: an elementwise operation of
  /// all_ops.h (`where` is one), astype, stop_gradient, or one that makes complex numbers or takes
  /// their parts.
  static bool admits(const Op& op);
  /// Returns true if a region can perform the operation in a step, on operands of `dtype`.
  static bool admits(const Op& op, Dtype dtype);

  /// Returns the dtype of the operation's value, where `operand` is that of its last operand. Only
  /// astype uses `to`, the dtype to which it converts.
  static Dtype result_dtype(const Op& op, Dtype operand, Dtype to = bool_);

  /// Adds a step and returns the index of its value. Only astype uses `to`, the dtype to which it
  /// converts. Throws TransformError for an operation that a region cannot perform, a wrong number
  /// of operands, or an operand that does not exist. Throws DtypeError for operands of different
  /// dtypes (but for the bool of `where`), or of a dtype that the operation does not take.
  int add(const Op& op, std::span<const int> operands, Dtype to = bool_);
  int add(const Op& op, std::initializer_list<int> operands, Dtype to = bool_) {
    return add(op, std::span<const int>(operands.begin(), operands.size()), to);
  }
  /// Adds a scalar constant and returns the index of its value. Throws DtypeError if dtype cannot
  /// hold the constant.
  int add(Scalar number, Dtype dtype);
  /// Returns true if a region can end in the operation: sum, prod, max, min, all, any.
  static bool admits_reduction(const Op& op);
  /// Adds a reduction of a value over axes (-1 is the last), and returns its negative number, for
  /// set_outputs. Throws TransformError for an operation that admits_reduction() refuses, or a
  /// value that does not exist. Throws DtypeError for a dtype that the operation does not take: all
  /// and any take bool, the others any other real dtype. Throws IndexError for an axis that is not
  /// negative, and ShapeError for an axis that is given twice.
  int reduce(const Op& op, int value, Shape axes, bool keep = false);
  /// Ends the region: `values` are its outputs, each the number of a value or of a reduction. Steps
  /// and reductions that no output needs are dropped, and the others are renumbered. Each step gets
  /// a slot, the number of a buffer for its value. Steps after the last one that reads the value
  /// may reuse the slot, unless the value is a number, an output, or reduced. Throws TransformError
  /// for an output that does not exist.
  void set_outputs(std::vector<int> values);

  const std::vector<Dtype>& inputs() const noexcept { return inputs_; }
  const std::vector<Step>& steps() const noexcept { return steps_; }
  const std::vector<int>& outputs() const noexcept { return outputs_; }
  const std::vector<Reduction>& reductions() const noexcept { return reductions_; }
  int slot_count() const noexcept { return slots_; }
  /// The reduction that computes an output, or null if the output is a value.
  const Reduction* reduction(int output) const {
    return output < 0 ? &reductions_[static_cast<std::size_t>(-1 - output)] : nullptr;
  }
  /// The value of an output, before its reduction if there is one.
  int value_behind(int output) const { return output < 0 ? reduction(output)->value : output; }
  /// The input or constant that the value equals, because the steps between them change nothing
  /// (stop_gradient, conversions to the same dtype); -1 if there is none.
  int given(int value) const;
  Dtype dtype(int value) const {
    if (value < 0) value = value_behind(value);
    const auto inputs = static_cast<int>(inputs_.size());
    return value < inputs ? inputs_[static_cast<std::size_t>(value)] : step(value).dtype;
  }
  /// The step that computes the value, which must not be an input.
  const Step& step(int value) const { return steps_[static_cast<std::size_t>(value) - inputs_.size()]; }

  /// Sets loops that were compiled ahead of time from the same steps. Loops for other dtypes than
  /// the region's are dropped. All are dropped unless the region has one output, which a step
  /// computes. Call it after set_outputs.
  void set_loops(std::span<const stave_detail::Loop> loops);
  /// The loop for an instruction set, or null if there is none.
  const stave_detail::Loop* loop(std::string_view isa) const;

  /// Returns true if an input or a step is complex.
  bool has_complex() const noexcept { return has_complex_; }

  /// Returns true if both regions have equal inputs, steps, reductions and outputs.
  bool is_same_as(const Region& other) const;

  /// A copy of the inputs and steps alone, to which steps, reductions and outputs can be added.
  IntrusivePtr<Region> reopened() const;

  /// The region as text, one line for each step: "c:float32 = multiply a b".
  std::string str() const;

  /// Returns the region that `make` derives from this one, such as a derivative. The first one made
  /// for a key is kept and returned from then on. Thread-safe.
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
  /// Returns the P that `make` returns as a unique_ptr. The first one made for a key is kept and
  /// returned from then on. `key` is the address of an object that is never freed, so that it means
  /// one P. Thread-safe.
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
  bool has_complex_ = false;
  mutable std::mutex mutex_;
  mutable std::atomic<const Prepared*> prepared_{nullptr};
  mutable std::unordered_map<std::string, RegionPtr> derived_;
};

}  // namespace stave

namespace stave_detail {

using namespace stave;

/// Returns true for operations that form, take apart or conjugate complex numbers.
inline bool is_of_parts(const Op& op) {
  return op.id == OpId::complex || op.id == OpId::real || op.id == OpId::imag || op.id == OpId::conj;
}

/// Whether a builder keeps or merges an operation that repeats an earlier one on the same operands.
/// A region that is differentiated must keep repetitions: two values have a cotangent each, whereas
/// one value would have the sum of the two, which rounds differently.
enum class Repetitions { kept, merged };

/// Builds a region whose inputs need not be known before its steps.
///   int x = builder.input(float32), y = builder.add(op_square, {{x}}, float32);
///   int z = builder.add(op_add, {{y, builder.input(float32)}}, float32);
///   RegionPtr region = builder.region({{z}});  // has two inputs
/// The builder numbers values in the order of their creation; `region` numbers them anew.
class RegionBuilder {
 public:
  explicit RegionBuilder(Repetitions repetitions) : merges_(repetitions == Repetitions::merged) {}

  int input(Dtype dtype);
  /// Returns the value of a scalar constant. Constants with equal bits share one value.
  int number(Scalar number, Dtype dtype);
  /// Adds an operation whose value has this dtype, and returns the value.
  int add(const Op& op, std::span<const int> operands, Dtype dtype);
  /// Adds a reduction, in which the region may end: see Region::reduce.
  int reduce(const Op& op, int value, Shape axes, bool keepdims);
  /// Adds the steps of a region, which must have no reductions, with these values as its inputs.
  /// Returns the values of its outputs.
  std::vector<int> append(const Region& region, std::span<const int> inputs);

  bool empty() const noexcept { return values_.empty(); }
  Dtype dtype(int value) const { return values_[static_cast<std::size_t>(value)].step.dtype; }
  /// The index of a value among the inputs of the region; -1 if the value is not an input.
  int input_index(int value) const { return values_[static_cast<std::size_t>(value)].input; }
  /// Returns the region with these outputs. Throws the errors of Region::add and Region::reduce.
  RegionPtr region(std::span<const int> outputs) const;

 private:
  struct Value {
    Region::Step step;
    int input = -1;      // the index in `inputs_`; -1: the value is not an input
    int reduction = -1;  // the index in `reductions_`; -1: the value is not a reduction
  };
  struct HashOfStep {
    std::size_t operator()(const Region::Step& step) const noexcept;
  };
  int push(Value value);
  int find_or_push(Region::Step step);

  const bool merges_;
  std::vector<Value> values_;
  std::vector<Dtype> inputs_;
  std::vector<Region::Reduction> reductions_;
  std::unordered_map<Region::Step, int, HashOfStep> known_;  // numbers, and steps if `merges_`
};

}  // namespace stave_detail
