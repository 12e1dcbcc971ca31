// Performing operations: the way from a call through the handlers to a backend.

#include <stave/core/carried.h>
#include <stave/core/fail.h>
#include <stave/core/note.h>
#include <stave/core/op.h>
#include <stave/core/ops/create.h>
#include <stave/core/storage.h>

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
  if (op_->carries_functions) care_ |= carries;
  op_->infer(*this, outputs_);
}

Call::Call(const Call& other)
    : op_(other.op_), care_(other.care_ & carries), inputs_(other.inputs_), attributes_(other.attributes_),
      outputs_(other.outputs_) {}
Call::Call(Call&& other) noexcept
    : op_(other.op_), attributes_(std::move(other.attributes_)), outputs_(std::move(other.outputs_)) {
  other.own();  // what is moved may be kept for longer than the caller's operands live
  care_ = other.care_;
  inputs_ = std::move(other.inputs_);
}
Call Call::lent() const {
  Call copy(op_);
  for (const Tensor& input : inputs_) copy.lend(input);
  copy.attributes_ = attributes_;
  copy.outputs_ = outputs_;
  copy.care_ |= care_ & carries;
  return copy;
}

[[gnu::always_inline]] inline void Call::lend(Operand&& x) {
  if (x.owns()) return inputs_.push_back(std::move(x).tensor());
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
  fail<IndexError>("{}: input {} was asked for, but the call has {}", op_->name, i, inputs_.size());
}

namespace {

[[noreturn]] void fail_count(const Op& op, std::size_t count) {
  fail<TransformError>("{}: a handler answered with {} outputs instead of 1", op.name, count);
}

[[noreturn]] void fail_devices(const Call& call, Device a, Device b) {
  fail<DeviceError>("{}: operands live on {} and {}: move one with to(x, device)", call.op().name, a.str(), b.str());
}

// One device for all, and values that may be read here. The device is that of the first input, as long as it lives; without
// inputs the attributes say it.
const Device& check_inputs(const Call& call) {
  const auto inputs = call.inputs();
  if (inputs.empty()) return call.as<PlacedAttributes>().device;
  const Device& device = inputs[0].node_ptr()->device;
  for (const Tensor& input : inputs) {
    const Node& node = *input.node_ptr();
    if (node.notes || !node.storage) check_not_escaped(node);
    if (node.device != device) [[unlikely]]
      fail_devices(call, device, node.device);
  }
  return device;
}

// Whether the storage of an input may become the output's: of its size, whole, contiguous, and nobody else can see it.
bool may_donate(const Tensor& input, const Abstract& output) {
  if (!input.node_ptr().unique()) return false;
  const Node& node = *input.node_ptr();
  if (!node.storage.unique() || node.offset != 0 || size_of(node.dtype) != size_of(output.dtype)) return false;
  if (node.shape != output.shape || !node.contiguous()) return false;
  return node.storage->bytes == static_cast<std::size_t>(output.shape.elements()) * size_of(output.dtype);
}

// The storage of a result: taken from an input of an elementwise operation, or new. A donor's input is gone then: whoever reads
// it from the call meets an error, not the new value. `donor` keeps the shape and strides that the kernel still reads.
StoragePtr result_storage(Call& call, const Abstract& output, Backend& backend, Tensor& donor) {
  if (call.op().elementwise)
    for (std::size_t i = 0; i < call.inputs().size(); ++i)
      if (Tensor& input = call.mutable_inputs()[i]; call.owns(i) && may_donate(input, output)) {
        donor = std::move(input);
        return std::move(donor.node_ptr()->storage);
      }
  return StoragePtr(backend.allocate(static_cast<std::size_t>(output.shape.elements()) * size_of(output.dtype)));
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

Outputs run(Call& call) {
  const Device& device = check_inputs(call);
  if (call.op().view)
    if (Tensor view = call.op().view(call); view.defined()) return Outputs(std::move(view));

  Backend& backend = backend_of(device);
  Outputs outputs;
  SmallVector<View, 3> input_views;
  SmallVector<View, 2> output_views;
  for (const Tensor& input : call.inputs()) input_views.push_back(input.node_ptr()->view());
  Tensor donor;
  for (const Abstract& output : call.abstract_outputs()) {
    StoragePtr storage = result_storage(call, output, backend, donor);
    NodePtr node(new Node(output.dtype, device, output.shape, std::move(storage)));
    output_views.push_back(node->view());
    outputs.push_back(Tensor(std::move(node)));
  }
  backend.run(call.op().id, call.attributes(), input_views, output_views);
  return outputs;
}

namespace {

// To the innermost handler, which gets inputs that are counted unless it is discreet.
inline Outputs hand_over(Call& call, Frame* frame) {
  if (!frame->discreet) call.own();
  Intercept intercept(frame);
  return frame->operations->handle(call);
}

}  // namespace

Outputs perform_with_care(Call& call) {
  if (call.op().carries_functions) return carry(call);
  Frame* const frame = current ? current->nearest : nullptr;
  return frame ? hand_over(call, frame) : run(call);
}

Tensor apply_binary(const Op& op, Operand&& a, Operand&& b) {
  Call call(&op);
  call.lend(std::move(a));
  call.lend(std::move(b));
  call.validate();
  Frame* const frame = current ? current->nearest : nullptr;
  Outputs outputs = frame ? hand_over(call, frame) : run(call);
  if (outputs.size() != 1) [[unlikely]]
    fail_count(op, outputs.size());
  return std::move(outputs[0]);
}

}  // namespace stave_detail

namespace stave {

Tensor JvpContext::tangent(std::size_t i) const { return has(i) ? tangents[i] : zeros_like(in(i)); }

}  // namespace stave
