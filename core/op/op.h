// An operation: one immutable record of all that is known of it. A Call is one use of it, the effect that handlers see.
//
// Rules are written with public operations, which go to the handlers below the one that runs the rule; so derivatives of
// any order, and any nesting, follow. What can be derived from a declared structure needs no rule:
//   linear        JVP: the operation itself on the tangents
//   bilinear      JVP: op(da, b) + op(a, db)
//   elementwise   batching: the operation itself, operands aligned
// A rule that is absent makes the transform throw, naming the operation, the transform and what to do.
#pragma once

#include <optional>
#include <span>
#include <typeinfo>

#include <stave/core/effects/effect.h>
#include <stave/core/op/all_ops.h>
#include <stave/core/op/attributes.h>
#include <stave/core/tensor/tensor.h>

namespace stave {

/// What an operation infers of one output, before it runs.
struct Abstract {
  Shape shape;
  Dtype dtype;
};

using Inputs = SmallVector<Tensor, 3>;

/// What an operation yields; of the many with one output, that one.
struct Outputs : SmallVector<Tensor, 1> {
  using SmallVector::SmallVector;
  Outputs(Tensor output) { push_back(std::move(output)); }
  operator Tensor() const = delete;  // write perform(call)[0], or apply(call): an operation may have several outputs
};

struct Call;
struct Op;

}  // namespace stave

namespace stave_detail {

using namespace stave;

// Past all handlers: the backend of the inputs' device computes.
Outputs run(Call& call);
// What `perform` does for calls with lent inputs, and for those that carry functions (carried.h).
Outputs perform_with_care(Call& call);

// The same of an operation with inputs and kernels, for which nobody asks for a call. Inputs are the function's to take.
Outputs run_without_call(const Op& op, const Attributes& attributes, std::span<Tensor> inputs,
                         std::span<const Abstract> outputs);

// Perform an elementwise operation on inputs of one shape and dtype (where: a bool and two of one dtype). Without a handler
// there is no Call. Inputs are the function's to take.
Tensor apply_elementwise(const Op& op, std::span<Tensor> inputs);
// Two operands, one of which may be a number: it takes the other's shape and dtype. Without a handler the operands' counts are
// not touched: what the caller holds outlives the call.
Tensor apply_binary(const Op& op, Operand&& a, Operand&& b);

[[noreturn]] void throw_other_attributes(const Op& op, const std::type_info& asked);
template <class A>
const A& attributes_as(const Attributes* attributes, const Op& op) {
  if constexpr (std::is_final_v<A>) {
    if (attributes && typeid(*attributes) == typeid(A)) [[likely]]
      return static_cast<const A&>(*attributes);
  } else if (const auto* found = dynamic_cast<const A*>(attributes)) {
    return *found;
  }
  throw_other_attributes(op, typeid(A));
}

}  // namespace stave_detail

namespace stave {

/// A tensor operation being performed.
struct Call {
  using Result = Outputs;

  /// Validates, and infers the outputs.
  Call(const Op& op, Inputs inputs, AttributesPtr attributes = nullptr);
  /// The same with one or two inputs, built in place.
  Call(const Op& op, Tensor&& input);
  Call(const Op& op, Tensor&& a, Tensor&& b);
  Call(const Call& other);
  Call(Call&& other);
  Call& operator=(Call other) = delete;
  ~Call() {
    if (care_ & ~carries) give_back();
  }

  const Op& op() const noexcept { return *op_; }
  std::span<const Tensor> inputs() const noexcept { return inputs_; }
  /// Throws IndexError if the operation has no input i: some, such as full, have none at all.
  const Tensor& input(std::size_t i) const {
    if (i >= inputs_.size()) [[unlikely]]
      throw_no_input(i);
    return inputs_[i];
  }
  const Attributes* attributes() const noexcept { return attributes_.get(); }
  const AttributesPtr& attributes_ptr() const noexcept { return attributes_; }
  /// Its attributes as what they are. Throws TransformError if they are of another type, which the operation says.
  template <class A>
  const A& as() const {
    return stave_detail::attributes_as<A>(attributes_.get(), *op_);
  }
  /// What each output will be; empty for an operation that carries functions.
  std::span<const Abstract> abstract_outputs() const noexcept { return outputs_; }
  /// This call with other inputs, or attributes: validated and inferred anew.
  Call with_inputs(Inputs inputs) const { return Call(*op_, std::move(inputs), attributes_); }
  Call with_attributes(AttributesPtr attributes) const { return Call(*op_, inputs_, std::move(attributes)); }
  /// A copy whose inputs are this call's: for passing on, while this call stays.
  Call lent() const;

  /// Counts inputs that a caller only lent.
  void own() noexcept {
    if (care_ & ~carries) count_borrowed();
  }
  // For the backend: takes an input's buffer for the result where nobody else can see it.
  Inputs& mutable_inputs() noexcept { return inputs_; }
  /// Whether the call counts as an owner of input i.
  bool owns(std::size_t i) const noexcept { return i >= most_lent || !(care_ >> i & 1); }
  /// A mask of the inputs that it does not.
  unsigned lent_inputs() const noexcept { return care_ & ~carries; }
  bool needs_care() const noexcept { return care_ != 0; }
  static constexpr unsigned most_lent = 31;

 private:
  [[noreturn]] void throw_no_input(std::size_t i) const;
  static constexpr unsigned carries = 1u << most_lent;
  explicit Call(const Op* op) : op_(op) {}
  void validate();
  void lend(Operand&& x);  // an input that is not counted, unless x owns it
  void count_borrowed() noexcept;
  void give_back() noexcept;  // forgets those that are not
  friend Tensor stave_detail::apply_binary(const Op& op, Operand&& a, Operand&& b);

  const Op* op_;
  unsigned care_ = 0;  // a mask of inputs that are not counted; and whether it carries functions
  Inputs inputs_;
  AttributesPtr attributes_;
  SmallVector<Abstract, 1> outputs_;
};

}  // namespace stave

namespace stave_detail {

// Whether outputs are what the operation infers, on the device of its inputs: as far as is seen at a glance.
inline bool fits(const Call& call, const Outputs& outputs) {
  const auto expected = call.abstract_outputs();
  if (outputs.size() != 1 || expected.size() != 1 || !outputs[0].defined()) return false;
  const Node& output = *outputs[0].node_ptr();
  if (output.dtype != expected[0].dtype || output.shape != expected[0].shape) return false;
  const auto inputs = call.inputs();
  return !inputs.empty() && inputs[0].defined() && inputs[0].node_ptr()->device == output.device;
}
// Looks closely, and throws TransformError that names who answered (null: who resumes).
void check_answer_closely(const Call& call, const Outputs& outputs, const AnyHandler* who);
// The frame's handler answers; one that is not the library's own is checked.
inline Outputs answered(Frame* frame, Call& call) {
  Intercept intercept(frame);
  if (frame->trusted) return frame->operations->handle(call);
  const AnyHandler* const who = frame->handler;  // its frame may end while it stands still, if others share the handler
  Outputs outputs = frame->operations->handle(call);
  if (!fits(call, outputs)) [[unlikely]]
    check_answer_closely(call, outputs, who);
  return outputs;
}
}  // namespace stave_detail

namespace stave {

/// Performs an operation: the innermost handler of operations answers; without one, the backend of the inputs' device.
/// Passed on as an rvalue, the call may give its inputs' buffers to the result; as an lvalue it stays as it is.
/// Inline, so that a stack of handlers costs one return address each: processors predict some sixteen.
inline Outputs perform(Call&& call) {
  if (call.needs_care()) return stave_detail::perform_with_care(call);
  Frame* frame = stave_detail::current;
  if (frame) frame = frame->nearest;
  return frame ? stave_detail::answered(frame, call) : stave_detail::run(call);
}
inline Outputs perform(const Call& call) { return perform(Call(call)); }

/// For controllers, which give answers to Resumption: throws TransformError for one of another shape, dtype or device.
inline void check_answer(const Call& call, const Outputs& outputs) {
  if (!stave_detail::fits(call, outputs)) stave_detail::check_answer_closely(call, outputs, nullptr);
}

/// Performs an operation that has one output.
Tensor apply(Call&& call);
inline Tensor apply(const Call& call) { return apply(Call(call)); }
inline Tensor apply(const Op& op, Inputs inputs, AttributesPtr attributes = nullptr) {
  return apply(Call(op, std::move(inputs), std::move(attributes)));
}

/// A handler of tensor operations.
///   struct CountOps : Handler {
///     int n = 0;
///     Outputs handle(Call& call) override { ++n; return perform(std::move(call)); }
///   };
using Handler = Handles<Call>;

/// What a JVP rule is given: primal inputs and outputs, and the tangents of the inputs that have one.
struct JvpContext {
  const Call& call;
  std::span<const Tensor> outputs;
  std::span<const Tensor> tangents;  // undefined: zero

  const Tensor& in(std::size_t i) const { return call.input(i); }
  const Tensor& out(std::size_t i = 0) const { return outputs[i]; }
  bool has(std::size_t i) const { return tangents[i].defined(); }
  /// The tangent of input i, zeros if it has none.
  Tensor tangent(std::size_t i) const;
  template <class A>
  const A& as() const {
    return call.as<A>();
  }
};

/// What a VJP rule is given: the inputs and outputs that the record says it reads, of the other inputs shape and dtype, and
/// the cotangents of the outputs.
struct VjpContext {
  const Op& op;
  const Attributes* attributes;
  std::span<const Tensor> inputs;   // undefined where not saved
  std::span<const Tensor> outputs;  // undefined where not saved
  std::span<const Abstract> input_abstracts;
  std::span<const Tensor> cotangents;  // undefined: zero
  Outputs* shared = nullptr;           // what the rule computed for all inputs at once; null: nobody keeps it

  const Tensor& in(std::size_t i) const { return inputs[i]; }
  const Tensor& out(std::size_t i = 0) const { return outputs[i]; }
  const Tensor& ct(std::size_t i = 0) const { return cotangents[i]; }
  /// compute(), which gives the cotangents of several inputs, once for all of them.
  template <class F>
  Outputs once(F compute) const {
    if (!shared) return compute();
    if (shared->empty()) *shared = compute();
    return *shared;
  }
  /// Zeros like input i, for a cotangent.
  Tensor zeros(std::size_t i) const;
  const Shape& shape(std::size_t i) const { return input_abstracts[i].shape; }
  Dtype dtype(std::size_t i) const { return input_abstracts[i].dtype; }
  template <class A>
  const A& as() const {
    return stave_detail::attributes_as<A>(attributes, op);
  }
};

/// What a batching rule is given: inputs of which some carry the batch as axis 0.
struct BatchContext {
  const Call& call;                // the logical call, of one lane
  std::span<const Tensor> inputs;  // physical
  std::span<const bool> batched;   // input i has the batch as its axis 0
  Index size;                      // lanes

  const Tensor& in(std::size_t i) const { return inputs[i]; }
  /// Input i with the batch as its axis 0: broadcast (a view) if it has none.
  Tensor batched_in(std::size_t i) const;
  template <class A>
  const A& as() const {
    return call.as<A>();
  }
  const AttributesPtr& attributes() const noexcept { return call.attributes_ptr(); }
};

/// A batching rule: the operation itself on all lanes. Every input has the batch as axis 0, and the attributes say so
/// (Attributes::batched).
Outputs batch_in_front(const BatchContext& c);

/// A batching rule: the operation itself on all lanes, of which it knows nothing. Every input has the batch as axis 0.
Outputs batch_elementwise(const BatchContext& c);

/// A set of an operation's values, as a mask: inputs, those beyond the 31st being as that one, and the outputs in the last bit.
struct ValueSet {
  static constexpr unsigned outputs = 1u << 31;
  unsigned mask;

  constexpr ValueSet(unsigned mask_ = 0) noexcept : mask(mask_) {}
  constexpr bool has_input(std::size_t i) const noexcept { return mask >> (i < 30 ? i : 30) & 1; }
  constexpr bool has_outputs() const noexcept { return mask & outputs; }
};

enum class Derivative : std::uint8_t {
  rules,     // by the JVP and VJP rules
  linear,    // jointly linear in the inputs of `linear_in`
  bilinear,  // linear in each of its two inputs
  zero       // piecewise constant, or of integers: no tangent, no cotangent
};

struct Op {
  OpId id = OpId::own;
  bool carries_functions = false;  // in its attributes (carried.h); it has no outputs to infer
  const char* name = nullptr;
  /// The only place that validates: throws, or gives the outputs' shapes and dtypes.
  void (*infer)(const Call&, SmallVector<Abstract, 1>& outputs) = nullptr;
  Derivative derivative = Derivative::rules;
  ValueSet linear_in = ~0u;
  bool elementwise = false;  // one output of the inputs' shape, at most three inputs, no attributes
  bool boolean = false;      // its output is bool, else of its inputs' dtype
  /// The values that the VJP rule reads for the first input, and for any other; `reads_for` knows what the structure says.
  ValueSet reads[2] = {~0u, ~0u};
  /// The tangents of the outputs.
  Outputs (*jvp)(const JvpContext&) = nullptr;
  /// The cotangent of one input.
  Tensor (*vjp)(const VjpContext&, int input) = nullptr;
  /// The outputs of all lanes, each with the batch as axis 0.
  Outputs (*batch)(const BatchContext&) = nullptr;
  /// The output without a kernel: a view of the input, where that is possible (of `to`: its copy elsewhere); else an undefined
  /// tensor, and the backend computes.
  Tensor (*view)(const Call&) = nullptr;
  /// Kernels of an operation of one's own (ops/define.h): they fill the outputs, which are row-major, from the inputs, which are so
  /// unless `takes_strides`. On CUDA they put work on the stream, a cudaStream_t of the current device, and do not wait for it.
  void (*cpu)(const Attributes*, std::span<const View> inputs, std::span<const View> outputs) = nullptr;
  void (*cuda)(void* stream, const Attributes*, std::span<const View> inputs, std::span<const View> outputs) = nullptr;
  bool takes_strides = false;
  /// Whether the kernel on the CPU may write an output over this input, a contiguous one of the same size; null: over none.
  bool (*reuses)(const Attributes*, std::size_t input) = nullptr;
  /// Of an operation on indices: what an error calls one that is out of range. Kernels of others find none.
  const char* index_name = nullptr;

  /// The values that the VJP rule reads for the cotangent of input i, so that a tape keeps nothing else alive: of a linear
  /// operation no input in which it is linear, of a bilinear one the other input.
  constexpr ValueSet reads_for(std::size_t i) const noexcept {
    const unsigned declared = reads[i > 0].mask;
    if (derivative == Derivative::linear) return declared & ~(linear_in.mask | ValueSet::outputs);
    return derivative == Derivative::bilinear ? declared & (i == 0 ? 0b10 : 0b01) : declared;
  }

  /// Whether some rule reads the outputs.
  constexpr bool reads_outputs() const noexcept { return reads_for(0).has_outputs() || reads_for(1).has_outputs(); }
  /// Of an elementwise operation, by the dtype of its last input.
  Dtype result_dtype(Dtype input) const noexcept { return boolean ? bool_ : input; }
};

// Every operation's record: op_sin, op_matmul, ...
#define X(name, ...) extern const Op op_##name;
STAVE_ALL_OPS(X)
#undef X

}  // namespace stave
