// Performs operations: the path of a call through the handlers to a backend.
#include <algorithm>
#include <new>
#include <utility>

#include <stave/core/effects/controller.h>
#include <stave/core/op/higher_order.h>
#include <stave/core/op/higher_order_answer.h>
#include <stave/core/op/lost_derivatives.h>
#include <stave/core/op/op.h>
#include <stave/core/op/outputs.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/layout.h>
#include <stave/core/tensor/fail.h>
#include <stave/core/tensor/note.h>
#include <stave/core/tensor/storage.h>

namespace stave_detail {

void fail_complex(const Op& op, Dtype dtype) {
  const bool orders = (op.id >= OpId::less && op.id <= OpId::greater_equal) || op.id == OpId::maximum ||
                      op.id == OpId::minimum || op.id == OpId::max || op.id == OpId::min || op.id == OpId::argmax ||
                      op.id == OpId::argmin || op.id == OpId::sort || op.id == OpId::argsort;
  fail<DtypeError>("{}: it is not defined for {}{}: compute on real(x), imag(x) or abs(x)", op.name, dtype,
                   orders ? ", since complex numbers have no order" : "");
}

}  // namespace stave_detail

namespace stave {

using stave_detail::fail;

Call::Call(const Op& op, Inputs inputs, AttributesPtr attributes)
    : op_(&op), inputs_(std::move(inputs)), attributes_(std::move(attributes)) {
  validate();
}
Call::Call(const Op& op, Tensor&& input) : op_(&op) {
  inputs_.push_back(std::move(input));
  validate();
}
Call::Call(const Op& op, Tensor&& a, Tensor&& b) : op_(&op) {
  inputs_.push_back(std::move(a));
  inputs_.push_back(std::move(b));
  validate();
}

void Call::validate() {
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    if (!inputs_[i].defined()) [[unlikely]]
      fail<TransformError>("{}: operand {} is an empty Tensor (default-constructed or moved from)", op_->name, i);
  if (!op_->takes_complex && op_->id != OpId::own && !op_->is_higher_order) stave_detail::check_real(*op_, inputs_);
  if (op_->is_higher_order || stave_detail::answered_outside != 0) [[unlikely]]
    // If an effect is being answered outside of a transform, this operation may lose a derivative
    // (lost_derivatives.h).
    care_ |= carries;
  op_->infer(*this, outputs_);
}

Call::Call(const Call& other)
    : op_(other.op_), care_(other.care_ & carries), inputs_(other.inputs_), attributes_(other.attributes_),
      outputs_(other.outputs_) {}
Call::Call(Call&& other) : op_(other.op_), attributes_(other.attributes_), outputs_(other.outputs_) {
  other.own();  // the moved call may live longer than the tensors of the caller
  care_ = other.care_;
  inputs_ = std::move(other.inputs_);
}
Call Call::borrowed() const {
  Call copy(op_);
  copy.inputs_.reserve(inputs_.size());
  for (const Tensor& input : inputs_) copy.borrow(input);
  copy.attributes_ = attributes_;
  copy.outputs_ = outputs_;
  copy.care_ |= care_ & carries;
  return copy;
}

// Adds an input. Its reference is not counted if x does not own it and the mask has a bit for it;
// the mask keeps the destructor from releasing an uncounted reference.
[[gnu::always_inline]] inline void Call::borrow(Operand&& x) {
  if (x.owns() || inputs_.size() >= most_borrowed) return inputs_.push_back(std::move(x).tensor());
  care_ |= 1u << inputs_.size();
  inputs_.push_back(Tensor(NodePtr::adopt(x.tensor().node_ptr().get())));
}
void Call::give_back() noexcept {
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    if (!owns(i)) static_cast<void>(inputs_[i].node_ptr().release());
}
void Call::count_borrowed() noexcept {
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    if (!owns(i)) static_cast<void>(Tensor(inputs_[i]).node_ptr().release());
  care_ &= carries;
}

void Call::throw_no_input(std::size_t i) const {
  fail<IndexError>("{}: input {} was requested, but the call has {} inputs", op_->name, i, inputs_.size());
}

namespace {

[[noreturn]] void fail_count(const Op& op, std::size_t count) {
  fail<TransformError>("{}: a handler answered with {} outputs instead of 1", op.name, count);
}

[[noreturn]] void fail_devices(const Op& op, Device a, Device b) {
  fail<DeviceError>("{}: operands live on {} and {}: move one with to(x, device)", op.name, a.str(), b.str());
}

// Checks that an input may be read here, and that it is on `device`, the device of all inputs.
void check_input(const Op& op, const Node& node, const Device& device) {
  if (node.notes || !node.storage) check_not_escaped(node);
  if (node.device != device) [[unlikely]]
    fail_devices(op, device, node.device);
}

// Checks all inputs and returns their device: a reference into the first input, valid while that
// input lives.
const Device& check_inputs(const Op& op, std::span<const Tensor> inputs) {
  const Device& device = inputs[0].node_ptr()->device;
  for (const Tensor& input : inputs) check_input(op, *input.node_ptr(), device);
  return device;
}

// ---- elementwise operations ---------------------------------------------------------------------
// Most operations that programs perform are elementwise. They are computed without lists of inputs
// and outputs.

StoragePtr take_storage(Node& node) {
  const auto lock = node.lock_if_registered();
  return std::move(node.storage);
}

// `like`: the node of an input. `owned[i]`: the tensor that owns input i if the result may take the
// buffer of the input, else null.
Tensor run_elementwise(const Op& op, Dtype dtype, const Node& like, std::span<const View> in, Tensor* const* owned) {
  Backend& backend = backend_of(like.device);
  // The input that donates its buffer becomes empty: code that reads it from the call
  // gets an error, not the new value. Its node stays alive, because its shape and
  // strides are read until the end.
  Tensor donor;
  for (std::size_t i = 0; i < in.size(); ++i)
    if (owned[i] && stave_detail::may_donate(*owned[i], like.shape, dtype)) {
      donor = std::move(*owned[i]);
      break;
    }
  StoragePtr storage = donor.defined()
                           ? take_storage(*donor.node_ptr())
                           : stave_detail::allocate_storage(backend, like.device, dtype, like.shape, op.name);
  Tensor result(NodePtr(new Node(dtype, like.device, like.shape, std::move(storage))));
  const View out = result.node_ptr()->view();
  backend.run(op, nullptr, in, {&out, 1});
  return result;
}

// The same for inputs as tensors. The caller owns all of them except those in the mask `borrowed`.
template <std::size_t... i>
Tensor run_elementwise(const Op& op, Dtype dtype, Tensor* inputs, unsigned borrowed, std::index_sequence<i...>) {
  const Node& like = inputs[0].node();
  (check_input(op, inputs[i].node(), like.device), ...);
  const View views[] = {inputs[i].node().view()...};
  Tensor* const owned[] = {(borrowed >> i & 1 ? nullptr : &inputs[i])...};
  return run_elementwise(op, dtype, like, views, owned);
}
Tensor run_elementwise(const Op& op, Dtype dtype, std::span<Tensor> inputs, unsigned borrowed = 0) {
  if (inputs.size() == 1) return run_elementwise(op, dtype, inputs.data(), borrowed, std::make_index_sequence<1>());
  if (inputs.size() == 2) return run_elementwise(op, dtype, inputs.data(), borrowed, std::make_index_sequence<2>());
  return run_elementwise(op, dtype, inputs.data(), borrowed, std::make_index_sequence<3>());
}

}  // namespace

Tensor apply(Call&& call) {
  Outputs outputs = perform(std::move(call));
  if (outputs.size() != 1) [[unlikely]]
    fail_count(call.op(), outputs.size());
  return std::move(outputs[0]);
}

}  // namespace stave

namespace stave_detail {

namespace {

// Copies a host constant to the device, for a kernel that needs it there, and points `view` to the
// copy. `kept` owns the copy.
void copy_host_constant_to_device(View& view, Device device, Tensor& kept) {
  Backend& backend = backend_of(device);
  kept = Tensor(NodePtr(new Node(view.dtype, device, {}, allocate_storage(backend, device, view.dtype, {}, "full"))));
  const View from{view.data, view.dtype, {}, {}, true}, to = kept.node().view();
  backend.run(op_copy, nullptr, {&from, 1}, {&to, 1});
  view.data = to.data;
  view.is_host_constant = false;
}

}  // namespace

namespace {

// Returns the storage of an input that the operation can write its output over and that no other
// code can see; null if there is no such input. The input moves to `donors`. The mask `borrowed`
// marks inputs with another owner.
StoragePtr reused(const Op& op, const Attributes* attributes, std::span<Tensor> inputs, unsigned borrowed,
                  const Abstract& output, SmallVector<Tensor, 1>& donors) {
  const std::size_t i = donor_of(op, attributes, inputs, borrowed, cpu, [&](const Tensor& x) {
    return stave_detail::may_donate(x, output.shape, output.dtype);
  });
  if (i == inputs.size()) return nullptr;
  return take_storage(*donors.emplace_back(std::move(inputs[i])).node_ptr());
}

Outputs run_kernel(const Op& op, const Attributes* attributes, std::span<Tensor> inputs, unsigned borrowed,
                   std::span<const Abstract> abstract_outputs, const Device& device) {
  Backend& backend = backend_of(device);
  Outputs outputs;
  SmallVector<View, 3> input_views;
  SmallVector<View, 2> output_views;
  const bool by_rows = op.id == OpId::own && !op.takes_strides;
  SmallVector<Tensor, 1> made;  // temporary tensors, and inputs whose storage became an output's
  for (const Tensor& input : inputs) {
    const bool as_it_is = !by_rows || input.is_contiguous();
    View& view = input_views.emplace_back((as_it_is ? input : made.emplace_back(contiguous(input))).node().view());
    if (view.is_host_constant && op.id != OpId::copy) copy_host_constant_to_device(view, device, made.emplace_back());
  }
  for (const Abstract& output : abstract_outputs) {
    StoragePtr storage;
    if (op.reuses && device == cpu) storage = reused(op, attributes, inputs, borrowed, output, made);
    if (!storage) storage = allocate_storage(backend, device, output.dtype, output.shape, op.name);
    NodePtr node(new Node(output.dtype, device, output.shape, std::move(storage)));
    output_views.push_back(node->view());
    outputs.push_back(Tensor(std::move(node)));
  }
  try {
    backend.run(op, attributes, input_views, output_views);
  } catch (const std::bad_alloc&) {  // no memory for the kernel's workspace
    fail_memory(op.name, abstract_outputs[0].dtype, abstract_outputs[0].shape, device);
  }
  return outputs;
}

}  // namespace

bool may_donate(const Tensor& x, const Shape& shape, Dtype dtype) noexcept {
  if (!x.node_ptr().unique()) return false;
  const Node& node = *x.node_ptr();
  return node.storage.unique() && node.storage->owner && fills_storage(node, node.storage->bytes, shape, dtype);
}

bool fills_storage(const Node& node, std::size_t bytes, const Shape& shape, Dtype dtype) noexcept {
  return node.offset == 0 && size_of(node.dtype) == size_of(dtype) && node.shape == shape && node.contiguous() &&
         bytes == static_cast<std::size_t>(shape.elements()) * size_of(dtype);
}

std::size_t donor_of(const Op& op, const Attributes* attributes, std::span<const Tensor> inputs, unsigned borrowed,
                     Device device, FunctionRef<bool(const Tensor&)> may_donate) {
  if (!op.elementwise && (!op.reuses || device != cpu)) return inputs.size();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (i < Call::most_borrowed && (borrowed >> i & 1)) continue;
    if (inputs[i].defined() && may_donate(inputs[i]) && (op.elementwise || op.reuses(attributes, i))) return i;
  }
  return inputs.size();
}

Device device_of_outputs(const Call& call) {
  if (call.inputs().empty()) return call.as<PlacedAttributes>().device;
  if (call.op().id == OpId::to) return call.as<TransferAttributes>().device;
  const Device device = call.input(0).device();
  for (const Tensor& input : call.inputs())
    if (input.device() != device) fail_devices(call.op(), device, input.device());
  return device;
}

Outputs run(Call& call) {
  if (call.op().elementwise)
    return run_elementwise(call.op(), call.abstract_outputs()[0].dtype, call.mutable_inputs(), call.borrowed_inputs());
  const bool creates = call.inputs().empty();
  const Device& device = creates ? call.as<PlacedAttributes>().device : check_inputs(call.op(), call.inputs());
  if (call.op().view)
    if (Tensor view = call.op().view(call); view.defined()) return Outputs(std::move(view));
  return run_kernel(call.op(), call.attributes(), call.mutable_inputs(), call.borrowed_inputs(),
                    call.abstract_outputs(), device);
}

Outputs run_without_call(const Op& op, const Attributes& attributes, std::span<Tensor> inputs,
                         std::span<const Abstract> outputs) {
  const Device device = check_inputs(op, inputs);
  return run_kernel(op, &attributes, inputs, 0, outputs, device);
}

namespace {

// Passes the call to the innermost handler. The call first becomes an owner of its borrowed inputs,
// unless this handler and all outer handlers of operations run no user code.
inline Outputs hand_over(Call& call, Frame* frame) {
  if (!frame->runs_no_user_code) call.own();
  return answered(frame, call);
}

struct PassOn final : Handling<Call> {
  Outputs handle(Call& call) override { return perform(std::move(call)); }
};
constinit PassOn pass_on;
[[maybe_unused]] const bool given = (passing_on = &pass_on, true);

}  // namespace

void check_answer_closely(const Call& call, const Outputs& outputs, const AnyHandler* who) {
  if (call.op().is_higher_order) return check_higher_order_answer(functions_of(call), outputs, who);
  const auto expected = call.abstract_outputs();
  const std::string name = who ? who->describe() : "resume";
  if (outputs.size() != expected.size())
    fail<TransformError>("{}: {} answered with {} output(s) instead of {}", call.op().name, name, outputs.size(),
                         expected.size());
  const bool placed = call.op().id != OpId::to && !call.inputs().empty() && call.inputs()[0].defined();
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Tensor& output = outputs[i];
    if (output.defined()) {
      const bool there = !placed || output.device() == call.inputs()[0].device();
      if (there && output.shape() == expected[i].shape && output.dtype() == expected[i].dtype) continue;
    }
    fail<TransformError>("{}: {} answered with {} for output {}, which is {} {}{}", call.op().name, name,
                         description_of(output), i, expected[i].dtype, expected[i].shape,
                         placed ? " on " + call.inputs()[0].device().str() : "");
  }
}

void throw_other_attributes(const Op& op, const std::type_info& asked) {
  fail<TransformError>("{}: its attributes were requested as {}, but have another type", op.name, type_name(asked));
}

Outputs perform_slow(Call& call) {
  const auto performed = [&] {
    if (call.op().is_higher_order) return perform_higher_order(call);
    Frame* const frame = current ? current->nearest : nullptr;
    return frame ? hand_over(call, frame) : run(call);
  };
  if (answered_outside == 0) [[likely]]
    return performed();
  const LostDerivativeMarks marks(call.op(), call.inputs());
  return marks(performed());
}

Tensor apply_elementwise(const Op& op, std::span<Tensor> inputs) {
  if ((!current || !current->nearest) && answered_outside == 0)
    return run_elementwise(op, op.result_dtype(inputs.back().dtype()), inputs);
  Inputs moved;
  for (Tensor& input : inputs) moved.push_back(std::move(input));
  return apply(Call(op, std::move(moved)));
}

namespace {

Tensor run_binary(const Op& op, Operand& a, Operand& b) {
  const Node& like = (a.is_scalar() ? b : a).tensor().node();
  Bytes16 number;  // one element for all positions: it needs no storage
  Strides still;   // the strides of the number, all 0
  const auto view = [&](const Operand& x) {
    if (x.is_scalar()) {
      write_number(&number, x.scalar(), like.dtype);
      for (int axis = 0; axis < like.shape.rank(); ++axis) still.push_back(0);
      return View{&number, like.dtype, like.shape, still, true};
    }
    const Node& node = x.tensor().node();
    check_input(op, node, like.device);
    return node.view();
  };
  const View in[] = {view(a), view(b)};
  Tensor* const owned[] = {a.own(), b.own()};
  return run_elementwise(op, op.result_dtype(like.dtype), like, in, owned);
}

}  // namespace

Tensor apply_binary(const Op& op, Operand&& a, Operand&& b) {
  Frame* const frame = current ? current->nearest : nullptr;
  const bool needs_call = frame || answered_outside != 0;
  if (Operand* const number = a.is_scalar() ? &a : b.is_scalar() ? &b : nullptr) {
    const Node& like = (number == &a ? b : a).tensor().node();
    if (needs_call) *number = constant(number->scalar(), like.dtype, like.shape, like.device);
  }
  if (!needs_call) return run_binary(op, a, b);
  Call call(&op);
  call.borrow(std::move(a));
  call.borrow(std::move(b));
  call.validate();
  Outputs outputs = answered_outside == 0 ? hand_over(call, frame) : perform_slow(call);
  if (outputs.size() != 1) [[unlikely]]
    fail_count(op, outputs.size());
  return std::move(outputs[0]);
}

}  // namespace stave_detail

namespace stave {

Tensor JvpContext::tangent(std::size_t i) const { return has(i) ? tangents[i] : zeros_like(in(i)); }
Tensor VjpContext::zeros(std::size_t i) const {
  const auto given = std::find_if(cotangents.begin(), cotangents.end(), [](const Tensor& x) { return x.defined(); });
  return stave::zeros(shape(i), dtype(i), given->device());
}

namespace {

Inputs all_batched(const BatchContext& c) {
  Inputs inputs;
  for (std::size_t i = 0; i < c.inputs.size(); ++i) inputs.push_back(c.batched_in(i));
  return inputs;
}

}  // namespace

Outputs batch_in_front(const BatchContext& c) {
  return perform(Call(c.call.op(), all_batched(c), c.attributes() ? c.attributes()->batched(c.size) : nullptr));
}

Outputs batch_elementwise(const BatchContext& c) {
  Inputs inputs = all_batched(c);
  if (c.call.op().elementwise) return stave_detail::apply_elementwise(c.call.op(), inputs);
  return perform(Call(c.call.op(), std::move(inputs), c.attributes()));
}

}  // namespace stave
