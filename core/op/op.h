// Operations. An Op is the one immutable record of all that is known of an operation.
// A Call is one use of an operation, and the effect that handlers see.
//
// Rules are written with public operations, which go to the handlers outside the one that runs the
// rule. So derivatives of any order, and any nesting of transforms, work. A rule that follows from
// a declared structure need not be written:
//   linear        JVP: the operation itself on the tangents
//   bilinear      JVP: op(da, b) + op(a, db)
//   elementwise   batching: the operation itself, operands aligned
// If a rule is missing, the transform throws an error that names the operation, the transform
// and the remedy.
#pragma once

#include <optional>
#include <span>
#include <typeinfo>
#include <vector>

#include <stave/core/effects/effect.h>
#include <stave/core/op/all_ops.h>
#include <stave/core/op/attributes.h>
#include <stave/core/tensor/tensor.h>

namespace stave {

/// The shape and dtype of one output, inferred before the operation runs.
struct Abstract {
  Shape shape;
  Dtype dtype;
};

using Inputs = SmallVector<Tensor, 3>;

/// The outputs of an operation.
struct Outputs : SmallVector<Tensor, 1> {
  using SmallVector::SmallVector;
  Outputs(Tensor output) { push_back(std::move(output)); }
  operator Tensor() const = delete;  // use perform(call)[0] or apply(call): outputs may be several
};

struct Call;
struct Op;

template <class... Es>
class Controls;  // core/effects/controller.h

}  // namespace stave

namespace stave_detail {

using namespace stave;

// Computes a call on the backend of its inputs' device, outside all handlers.
Outputs run(Call& call);
// Performs a call that `perform` cannot handle inline: a call that borrows inputs, a higher-order
// call (higher_order.h), or any call while an effect is being answered outside of a transform
// (lost_derivatives.h).
Outputs perform_slow(Call& call);

// Computes an operation that has inputs and kernels without making a Call. The inputs may be moved
// from.
Outputs run_without_call(const Op& op, const Attributes& attributes, std::span<Tensor> inputs,
                         std::span<const Abstract> outputs);

// Performs an elementwise operation on inputs of one shape and dtype (for `where`: a bool and two
// inputs of one dtype). Without a handler no Call is made. The inputs may be moved from.
Tensor apply_elementwise(const Op& op, std::span<Tensor> inputs);
// Performs an elementwise operation on two operands. One of them may be a number, which takes
// the other's shape and dtype. Without a handler the reference counts of the operands are not
// changed, since the caller's tensors outlive the call.
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

/// A tensor operation that is being performed.
struct Call {
  using Result = Outputs;
  static constexpr bool has_slot = true;  // the slot effect (effect.h)

  /// Validates the inputs and infers the outputs.
  Call(const Op& op, Inputs inputs, AttributesPtr attributes = nullptr);
  /// Makes a call with one or two inputs, which are constructed in place; validates it likewise.
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
  /// Input i. Throws IndexError if the operation has no input i: some, such as full, have
  /// no inputs.
  const Tensor& input(std::size_t i) const {
    if (i >= inputs_.size()) [[unlikely]]
      throw_no_input(i);
    return inputs_[i];
  }
  const Attributes* attributes() const noexcept { return attributes_.get(); }
  const AttributesPtr& attributes_ptr() const noexcept { return attributes_; }
  /// The attributes as type A. Throws TransformError, naming the operation, if they are
  /// of another type.
  template <class A>
  const A& as() const {
    return stave_detail::attributes_as<A>(attributes_.get(), *op_);
  }
  /// The inferred outputs; empty for a higher-order operation.
  std::span<const Abstract> abstract_outputs() const noexcept { return outputs_; }
  /// A copy of this call with other inputs, or other attributes: it is validated and inferred anew.
  Call with_inputs(Inputs inputs) const { return Call(*op_, std::move(inputs), attributes_); }
  Call with_attributes(AttributesPtr attributes) const { return Call(*op_, inputs_, std::move(attributes)); }
  /// A copy that borrows this call's inputs, to be passed on while this call stays alive.
  Call borrowed() const;

  /// Counts a reference for each borrowed input, so that this call owns all its inputs.
  void own() noexcept {
    if (care_ & ~carries) count_borrowed();
  }
  // The inputs for `run`, which gives the buffer of an input to the result if no other code can see
  // that input.
  Inputs& mutable_inputs() noexcept { return inputs_; }
  /// Returns true if the call counts as an owner of input i.
  bool owns(std::size_t i) const noexcept { return i >= most_borrowed || !(care_ >> i & 1); }
  /// A mask of the borrowed inputs.
  unsigned borrowed_inputs() const noexcept { return care_ & ~carries; }
  bool needs_slow_path() const noexcept { return care_ != 0; }
  static constexpr unsigned most_borrowed = 31;

 private:
  [[noreturn]] void throw_no_input(std::size_t i) const;
  static constexpr unsigned carries = 1u << most_borrowed;
  explicit Call(const Op* op) : op_(op) {}
  void validate();
  void borrow(Operand&& x);  // adds an input; its reference is not counted, unless x owns it
  void count_borrowed() noexcept;
  void give_back() noexcept;  // releases the borrowed inputs without a change of their counts
  friend Tensor stave_detail::apply_binary(const Op& op, Operand&& a, Operand&& b);

  const Op* op_;
  // A mask of the borrowed inputs. The bit `carries` is set if the call needs perform_slow for
  // another reason.
  unsigned care_ = 0;
  Inputs inputs_;
  AttributesPtr attributes_;
  SmallVector<Abstract, 1> outputs_;
};

}  // namespace stave

namespace stave_detail {

// Throws DtypeError: the operation is not defined for this complex dtype.
[[noreturn]] void fail_complex(const Op& op, Dtype dtype);
// Throws DtypeError if one of the inputs is complex.
inline void check_real(const Op& op, std::span<const Tensor> inputs) {
  for (const Tensor& input : inputs)
    if (is_complex(input.node_ptr()->dtype)) [[unlikely]]
      fail_complex(op, input.node_ptr()->dtype);
}

// A quick check that there is one output, with the inferred shape and dtype, on the device
// of the inputs.
inline bool fits(const Call& call, const Outputs& outputs) {
  const auto expected = call.abstract_outputs();
  if (outputs.size() != 1 || expected.size() != 1 || !outputs[0].defined()) return false;
  const Node& output = *outputs[0].node_ptr();
  if (output.dtype != expected[0].dtype || output.shape != expected[0].shape) return false;
  const auto inputs = call.inputs();
  return !inputs.empty() && inputs[0].defined() && inputs[0].node_ptr()->device == output.device;
}
// A complete check, which throws TransformError naming the handler that answered
// (null: a resumption).
void check_answer_closely(const Call& call, const Outputs& outputs, const AnyHandler* who);
// Lets the frame's handler answer. The answer is checked unless the handler `runs_no_user_code`.
inline Outputs answered(Frame* frame, Call& call) {
  Intercept intercept(frame);
  Handling<Call>& operations = frame->slot.as<Call>();
  if (frame->answers_need_no_check) return operations.handle(call);
  // The handler is read first: if it is shared, its frame may end while the call is suspended.
  const AnyHandler* const who = frame->handler;
  Outputs outputs = operations.handle(call);
  if (!fits(call, outputs)) [[unlikely]]
    check_answer_closely(call, outputs, who);
  return outputs;
}
}  // namespace stave_detail

namespace stave {

/// Performs an operation: the innermost handler of operations answers it; without a handler
/// the backend of the inputs' device computes it. A call that is passed as an rvalue may give its
/// inputs' buffers to the result; a call that is passed as an lvalue does not change.
/// This is inline so that each handler on the stack costs only one return address, of which
/// processors predict about sixteen.
inline Outputs perform(Call&& call) {
  if (call.needs_slow_path()) return stave_detail::perform_slow(call);
  Frame* frame = stave_detail::current;
  if (frame) frame = frame->nearest;
  return frame ? stave_detail::answered(frame, call) : stave_detail::run(call);
}
inline Outputs perform(const Call& call) { return perform(Call(call)); }

/// Throws TransformError if an answer does not have the inferred shapes, dtypes and device.
/// Resumption calls this for the answers of controllers.
inline void check_answer(const Call& call, const Outputs& outputs) {
  if (!stave_detail::fits(call, outputs)) stave_detail::check_answer_closely(call, outputs, nullptr);
}

/// Performs an operation that has one output, and returns the output.
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
/// A controller of tensor operations (core/effects/controller.h).
///   struct StopAtNan : Controller {
///     void handle(Call& call, Resumption<Call> rest) override {
///       Outputs outputs = perform(call);
///       if (any(isnan(outputs[0]))) return rest.drop();
///       rest.resume_last(std::move(outputs));
///     }
///   };
using Controller = Controls<Call>;

/// The arguments of a JVP rule: primal inputs and outputs, and the tangents of the inputs
/// that have one.
struct JvpContext {
  const Call& call;
  std::span<const Tensor> outputs;
  std::span<const Tensor> tangents;  // undefined: the tangent is zero

  const Tensor& in(std::size_t i) const { return call.input(i); }
  const Tensor& out(std::size_t i = 0) const { return outputs[i]; }
  bool has(std::size_t i) const { return tangents[i].defined(); }
  /// The tangent of input i; zeros if it has none.
  Tensor tangent(std::size_t i) const;
  template <class A>
  const A& as() const {
    return call.as<A>();
  }
};

/// The arguments of a VJP rule: the inputs and outputs that the record declares as read,
/// shape and dtype of all inputs, and the cotangents of the outputs.
struct VjpContext {
  const Op& op;
  const Attributes* attributes;
  std::span<const Tensor> inputs;   // undefined if not saved
  std::span<const Tensor> outputs;  // undefined if not saved
  std::span<const Abstract> input_abstracts;
  std::span<const Tensor> cotangents;  // undefined: the cotangent is zero
  // Keeps results that the rule computes for all inputs at once; null: nothing is kept.
  Outputs* cache = nullptr;

  const Tensor& in(std::size_t i) const { return inputs[i]; }
  const Tensor& out(std::size_t i = 0) const { return outputs[i]; }
  const Tensor& ct(std::size_t i = 0) const { return cotangents[i]; }
  /// Returns compute(), which gives the cotangents of several inputs and runs once for all of them.
  template <class F>
  Outputs once(F compute) const {
    if (!cache) return compute();
    if (cache->empty()) *cache = compute();
    return *cache;
  }
  /// Zeros with the shape and dtype of input i, for a cotangent.
  Tensor zeros(std::size_t i) const;
  const Shape& shape(std::size_t i) const { return input_abstracts[i].shape; }
  Dtype dtype(std::size_t i) const { return input_abstracts[i].dtype; }
  template <class A>
  const A& as() const {
    return stave_detail::attributes_as<A>(attributes, op);
  }
};

/// The arguments of a series rule: Taylor coefficients of a call's inputs and outputs, which are
/// functions of one real variable. Coefficient 0 is the value; an undefined coefficient is zero.
struct SeriesContext {
  const Call& call;
  std::span<const Tensor> outputs;
  int order;  // the rule computes coefficient `order` of each output, at least 1
  // At least `order`: the coefficients of all inputs up to this one are already known.
  int last;
  std::vector<Tensor>& kept;  // values that the rule keeps for later orders; empty at first

  /// Coefficient k of input i, for k up to `last`.
  virtual Tensor in(std::size_t i, int k) const = 0;
  /// Coefficient k of output i, for k below `order`.
  virtual Tensor out(int k, std::size_t i = 0) const = 0;
  template <class A>
  const A& as() const {
    return call.as<A>();
  }

 protected:
  SeriesContext(const Call& call_, std::span<const Tensor> outputs_, int order_, int last_, std::vector<Tensor>& kept_)
      : call(call_), outputs(outputs_), order(order_), last(last_), kept(kept_) {}
  ~SeriesContext() = default;
};

/// The arguments of a batching rule: inputs, some of which have the batch as axis 0.
struct BatchContext {
  const Call& call;                // the logical call, as one lane sees it
  std::span<const Tensor> inputs;  // the physical inputs
  std::span<const bool> batched;   // batched[i]: input i has the batch as its axis 0
  Index size;                      // the number of lanes

  const Tensor& in(std::size_t i) const { return inputs[i]; }
  /// Input i with the batch as its axis 0; an input without the batch is broadcast (a view).
  Tensor batched_in(std::size_t i) const;
  template <class A>
  const A& as() const {
    return call.as<A>();
  }
  const AttributesPtr& attributes() const noexcept { return call.attributes_ptr(); }
};

/// A batching rule that runs the operation itself on all lanes. Every input gets the batch as axis
/// 0, and the attributes are adapted by Attributes::batched.
Outputs batch_in_front(const BatchContext& c);

/// A batching rule that runs the operation itself on all lanes, with the same attributes.
/// Every input gets the batch as axis 0.
Outputs batch_elementwise(const BatchContext& c);

/// A set of an operation's inputs and outputs, as a mask. Bit i stands for input i; bit 30 for all
/// inputs from the 31st on; the last bit for the outputs.
struct ValueSet {
  static constexpr unsigned outputs = 1u << 31;
  unsigned mask;

  constexpr ValueSet(unsigned mask_ = 0) noexcept : mask(mask_) {}
  constexpr bool has_input(std::size_t i) const noexcept { return mask >> (i < 30 ? i : 30) & 1; }
  constexpr bool has_outputs() const noexcept { return mask & outputs; }
};

enum class Derivative : std::uint8_t {
  rules,     // given by the JVP and VJP rules
  linear,    // jointly linear in the inputs in `linear_in`
  bilinear,  // linear in each of its two inputs
  zero       // piecewise constant, or integer-valued: no tangent and no cotangent
};

struct DependsContext;  // core/op/depends.h

struct Op {
  OpId id = OpId::own;
  // The attributes hold functions (higher_order.h), and no outputs are inferred.
  bool is_higher_order = false;
  const char* name = nullptr;
  /// The operation takes complex inputs. A call of any other one with complex inputs is an error,
  /// except for a user-defined operation, which validates its inputs itself.
  bool takes_complex = false;
  /// Validates a call, and appends the shapes and dtypes of its outputs. It is the only place
  /// that validates; it throws if the call is invalid.
  void (*infer)(const Call&, SmallVector<Abstract, 1>& outputs) = nullptr;
  Derivative derivative = Derivative::rules;
  ValueSet linear_in = ~0u;
  // One output with the shape of the inputs, at most three inputs, no attributes.
  bool elementwise = false;
  bool boolean = false;  // the output is bool; else it has the dtype of the inputs
  /// The values that the VJP rule reads for the cotangent of the first input, and of any other
  /// input. `reads_for` leaves out values that a linear or bilinear operation does not need.
  ValueSet reads[2] = {~0u, ~0u};
  /// Computes the tangents of the outputs.
  Outputs (*jvp)(const JvpContext&) = nullptr;
  /// Computes Taylor coefficients (handlers/taylor), where the JVP rule would need a number of
  /// operations that grows faster than a power of the order, or more than need be. Returns the
  /// coefficient of order `order` of each output; a rule to which several orders are no more work
  /// than one appends those of the next orders, up to `last`. Null: the coefficients follow from
  /// `derivative` and the JVP rule.
  Outputs (*series)(const SeriesContext&) = nullptr;
  /// Computes the cotangent of one input.
  Tensor (*vjp)(const VjpContext&, int input) = nullptr;
  /// For an operation that reads a part of input 0, at positions that its other inputs or its
  /// attributes give: returns `sum` plus the cotangent of input 0. It adds in place if no other
  /// code sees `sum`, so that each of many reads of one tensor costs as much as the part that it
  /// reads, and not as much as the whole tensor. Null: the tape adds the result of `vjp`.
  Tensor (*vjp_onto)(const VjpContext&, Tensor sum) = nullptr;
  /// Computes the outputs of all lanes, each with the batch as axis 0.
  Outputs (*batch)(const BatchContext&) = nullptr;
  /// Computes which elements of the inputs each element of the outputs depends on (depends.h).
  /// Null: known for elementwise operations and those that move elements; any other output
  /// element counts as dependent on all elements of all inputs.
  Outputs (*depends)(const DependsContext&) = nullptr;
  /// Returns the output without a kernel, as a view of the input (for `to`: a copy on the other
  /// device), or an undefined tensor if that is not possible; then the backend computes the output.
  Tensor (*view)(const Call&) = nullptr;
  /// Kernels of a user's own operation (core/op/define.h). They fill the outputs, which are
  /// row-major, from the inputs, which are row-major unless `takes_strides` is set. On CUDA they
  /// put work on the stream, a cudaStream_t of the current device, and do not wait for it.
  void (*cpu)(const Attributes*, std::span<const View> inputs, std::span<const View> outputs) = nullptr;
  void (*cuda)(void* stream, const Attributes*, std::span<const View> inputs, std::span<const View> outputs) = nullptr;
  bool takes_strides = false;
  /// Returns true if the CPU kernel may write an output over input `input`, provided that the input
  /// is contiguous and of the same size. Null: the kernel writes over no input.
  bool (*reuses)(const Attributes*, std::size_t input) = nullptr;
  /// For an operation on indices: the name of an index in errors about an index out of range.
  /// Kernels of other operations throw no such error.
  const char* index_name = nullptr;
  /// The kernel may throw for another reason than an index out of range (see may_throw).
  bool kernel_throws = false;
  /// Each element of the output is an element of an input, or padding, and the attributes alone
  /// determine which one.
  bool moves_elements = false;
  /// Computing the outputs again takes no longer than reading them from memory would.
  bool is_cheap_arithmetic = false;
  /// Returns the number of floating-point operations; null: see flops_of.
  std::uint64_t (*flops)(const Attributes*, std::span<const Shape> inputs, const Shape& output) = nullptr;

  /// The values that the VJP rule reads for the cotangent of input i. A tape keeps only these
  /// alive. A linear operation reads no input in which it is linear; a bilinear one reads the other
  /// input.
  constexpr ValueSet reads_for(std::size_t i) const noexcept {
    const unsigned declared = reads[i > 0].mask;
    if (derivative == Derivative::linear) return declared & ~(linear_in.mask | ValueSet::outputs);
    return derivative == Derivative::bilinear ? declared & (i == 0 ? 0b10 : 0b01) : declared;
  }

  /// Returns true if some rule reads the outputs.
  constexpr bool reads_outputs() const noexcept { return reads_for(0).has_outputs() || reads_for(1).has_outputs(); }
  /// The dtype of an elementwise operation's output, given the dtype of its last input.
  Dtype result_dtype(Dtype input) const noexcept { return boolean ? bool_ : input; }
  /// Returns true if the operation may throw even if shapes and dtypes of its inputs are right.
  constexpr bool may_throw() const noexcept {
    return id == OpId::own || is_higher_order || index_name || kernel_throws;
  }
  /// Returns true if the output may be a view of the first input's storage.
  constexpr bool may_be_view() const noexcept { return view && id != OpId::to; }
  /// Returns true if the operation is a view, or if computing it again takes no longer than reading
  /// its result from memory would, as for elementwise arithmetic.
  constexpr bool is_cheap() const noexcept { return is_cheap_arithmetic || may_be_view(); }
  /// Returns the number of floating-point operations: one per element of an elementwise operation
  /// (per element and step if several are fused) and per element that is reduced; 2 n m k for a
  /// matrix product, and likewise for a convolution; 0 for operations that only move or select
  /// elements. Returns nothing for an operation whose record has no such formula, such as a
  /// factorisation, sorting, attention, or an operation that the user defined.
  std::optional<std::uint64_t> flops_of(const Attributes* attributes, std::span<const Shape> inputs,
                                        const Shape& output) const {
    if (flops) return flops(attributes, inputs, output);
    if (elementwise) return static_cast<std::uint64_t>(output.elements());
    return moves_elements ? std::optional<std::uint64_t>(0) : std::nullopt;
  }
};

// The records of all operations: op_sin, op_matmul, ...
#define X(name, ...) extern const Op op_##name;
STAVE_ALL_OPS(X)
#undef X

}  // namespace stave
