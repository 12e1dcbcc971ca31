// Performing operations: the way from a call through the handlers to a backend.

#include <stave/core/fail.h>
#include <stave/core/note.h>
#include <stave/core/op.h>
#include <stave/core/ops/create.h>
#include <stave/core/storage.h>

namespace stave {

using stave_detail::fail;

Call::Call(const Op& op, Inputs inputs, AttributesPtr attributes)
    : op_(&op), inputs_(std::move(inputs)), attributes_(std::move(attributes)) {
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    if (!inputs_[i].defined())
      fail<TransformError>("{}: operand {} is an empty Tensor (default-constructed or moved from)", op.name, i);
  op.infer(*this, outputs_);
}

void Call::throw_no_input(std::size_t i) const {
  fail<IndexError>("{}: input {} was asked for, but the call has {}", op_->name, i, inputs_.size());
}

namespace {

Device device_of(const Call& call) {
  const auto inputs = call.inputs();
  if (inputs.empty()) return cpu;
  for (const Tensor& input : inputs)
    if (input.device() != inputs[0].device())
      fail<DeviceError>("{}: operands live on {} and {}: move one with to(x, device)", call.op().name,
                        inputs[0].device().str(), input.device().str());
  return inputs[0].device();
}

// The buffer of an input of the output's size that nobody else can see, taken from the call; null if there is none.
StoragePtr donated_buffer(Call& call, const Abstract& output) {
  if (!call.op().elementwise) return nullptr;
  for (Tensor& input : call.mutable_inputs()) {
    if (!input.node_ptr().unique()) continue;
    Node& node = *input.node_ptr();
    if (!node.storage.unique() || node.offset != 0 || size_of(node.dtype) != size_of(output.dtype)) continue;
    if (node.shape != output.shape || !node.contiguous()) continue;
    if (node.storage->bytes != static_cast<std::size_t>(output.shape.elements()) * size_of(output.dtype)) continue;
    return node.storage;  // the node keeps it, too, until the kernel has read it
  }
  return nullptr;
}

Outputs run(Call& call) {
  for (const Tensor& input : call.inputs())
    if (const Node& node = input.node(); node.notes || !node.storage) check_not_escaped(node);
  if (call.op().view)
    if (Tensor view = call.op().view(call); view.defined()) return Outputs(std::move(view));

  const Device device = device_of(call);
  Backend& backend = backend_of(device);
  Outputs outputs;
  SmallVector<View, 4> input_views, output_views;
  for (const Tensor& input : call.inputs()) input_views.push_back(input.node().view());
  bool donated = false;
  for (const Abstract& output : call.abstract_outputs()) {
    StoragePtr storage = donated_buffer(call, output);
    donated |= static_cast<bool>(storage);
    if (!storage)
      storage = allocate_storage(device, output.shape.elements() * static_cast<Index>(size_of(output.dtype)));
    outputs.push_back(Tensor(
        NodePtr(new Node(output.dtype, device, output.shape, contiguous_strides(output.shape), std::move(storage)))));
    output_views.push_back(outputs.back().node().view());
  }
  backend.run(call.op().id, call.attributes(), input_views, output_views);
  if (donated)  // the old value is gone: whoever reads it from the call meets an error, not the new one
    for (Tensor& input : call.mutable_inputs())
      if (input.node().storage == outputs[0].node().storage) input = Tensor();
  return outputs;
}

}  // namespace

Outputs perform(Call&& call) {
  for (Frame* frame = stave_detail::current.top; frame; frame = frame->below) {
    if (!frame->operations) continue;
    stave_detail::Intercept intercept(frame);
    return frame->operations->handle(call);
  }
  return run(call);
}

Tensor apply(const Op& op, Inputs inputs, AttributesPtr attributes) {
  Outputs outputs = perform(Call(op, std::move(inputs), std::move(attributes)));
  if (outputs.size() != 1)
    fail<TransformError>("{}: a handler answered with {} outputs instead of 1", op.name, outputs.size());
  return std::move(outputs[0]);
}

Tensor JvpContext::tangent(std::size_t i) const { return has(i) ? tangents[i] : zeros_like(in(i)); }

}  // namespace stave
