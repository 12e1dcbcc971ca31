#include <stave/handlers/observe/eval_shape.h>

#include <algorithm>

#include <stave/core/op/outputs.h>
#include <stave/core/tensor/fail.h>
#include <stave/core/tensor/note.h>

namespace stave_detail {

namespace {

// The memory that a tensor would occupy. Its views share it.
struct AbstractMemory : RefCounted {
  const std::size_t bytes;
  const IntrusivePtr<MemoryMeter> meter;  // null: an argument, which no meter counts

  AbstractMemory(std::size_t size, IntrusivePtr<MemoryMeter> counted) : bytes(size), meter(std::move(counted)) {
    if (!meter) return;
    const std::size_t live = meter->live += bytes;
    std::size_t peak = meter->peak;
    while (peak < live && !meter->peak.compare_exchange_weak(peak, live)) {
    }
  }
  ~AbstractMemory() {
    if (meter) meter->live -= bytes;
  }
};
using MemoryPtr = IntrusivePtr<const AbstractMemory>;

// The note on an abstract tensor, whose node has no storage.
struct Abstraction {
  MemoryPtr memory;
  const Op* op = nullptr;  // the operation that made the tensor; null: it is an argument

  const Tensor* physical() const noexcept { return nullptr; }
  std::size_t bytes() const noexcept { return memory ? memory->bytes : 0; }
  std::string why_no_elements(const Node& node) const {
    return fmt::format(
        "{}: its elements ({} {}) are needed here, but an abstract tensor has only a shape and a dtype. In a function "
        "for eval_shape or cost, write where(condition, a, b) instead of if; outside, abstract tensors are arguments "
        "of eval_shape and cost only",
        op ? op->name : "an abstract tensor", node.dtype, node.shape);
  }
};

// Abstract tensors outlive the handler that made them, and the notes are never destroyed: a tensor
// may be a global variable that dies last.
const Notes<Abstraction>& abstractions() {
  static const auto& notes = *new Notes<Abstraction>(make_intrusive<NotesState>("eval_shape"));
  return notes;
}

std::size_t bytes_of(const Abstract& x) { return static_cast<std::size_t>(x.shape.elements()) * size_of(x.dtype); }

Tensor noted(Node* node, MemoryPtr memory, const Op* op) {
  return abstractions().put(Tensor(NodePtr(node)), {std::move(memory), op});
}

// Returns the memory of x. If x is not abstract, no meter counts it.
MemoryPtr memory_like(const Tensor& x) {
  if (const Abstraction* found = abstractions().find(x)) return found->memory;
  return make_intrusive<const AbstractMemory>(bytes_kept_by(x.node()), nullptr);
}

}  // namespace

Tensor abstract_like(const Tensor& x) {
  const Node& node = x.node();
  return noted(new Node(node.dtype, node.device, node.shape, node.strides, nullptr, node.offset),
               make_intrusive<const AbstractMemory>(bytes_kept_by(node), nullptr), nullptr);
}

const void* memory_of(const Tensor& x) noexcept {
  const Abstraction* const found = abstractions().find(x);
  return found ? static_cast<const void*>(found->memory.get()) : x.node_ptr()->storage.get();
}

}  // namespace stave_detail

namespace stave {

using namespace stave_detail;

Tensor abstract(const Shape& shape, Dtype dtype, Device device) {
  for (const Index length : shape)
    if (length < 0) fail<ShapeError>("abstract: shape {} has a negative length", shape);
  const std::size_t bytes = naming("abstract", [&] { return bytes_of(Abstract{shape, dtype}); });
  return noted(new Node(dtype, device, shape, nullptr), make_intrusive<const AbstractMemory>(bytes, nullptr), nullptr);
}

bool is_abstract(const Tensor& x) noexcept { return x.defined() && abstractions().find(x); }

ShapesOnly::ShapesOnly() : meter_(make_intrusive<MemoryMeter>()) {}

Outputs ShapesOnly::handle(Call& call) {
  const Op& op = call.op();
  if (op.is_higher_order) return perform(std::move(call));  // its functions run under this handler
  const Device device = device_of_outputs(call);
  if (op.may_be_view() || (op.id == OpId::to && device == call.input(0).device()))
    if (const Tensor view = op.view(call); view.defined()) {
      const Node& node = view.node();
      return noted(new Node(node.dtype, node.device, node.shape, node.strides, nullptr, node.offset),
                   memory_like(call.input(0)), &op);
    }
  Outputs outputs;
  for (const Abstract& output : call.abstract_outputs()) {
    const auto may_donate = [&](const Tensor& x) {
      const Abstraction* const found = abstractions().find(x);
      return found && found->memory->meter == meter_ && x.node_ptr().unique() && found->memory.unique() &&
             fills_storage(x.node(), found->memory->bytes, output.shape, output.dtype);
    };
    // The output takes over the memory of an operand where a backend would let it.
    MemoryPtr memory;
    if (const std::size_t i =
            donor_of(op, call.attributes(), call.inputs(), call.borrowed_inputs(), device, may_donate);
        i < call.inputs().size())
      memory = memory_like(std::exchange(call.mutable_inputs()[i], Tensor()));
    if (!memory) memory = make_intrusive<const AbstractMemory>(bytes_of(output), meter_);
    outputs.push_back(noted(new Node(output.dtype, device, output.shape, nullptr), std::move(memory), &op));
  }
  return outputs;
}

}  // namespace stave
