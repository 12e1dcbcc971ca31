// The backward pass: a walk over the tape (tape.h) from the outputs' entries back, the last recorded first. It is a loop over a
// queue, so long programs need heap, not stack.

#include <stave/handlers/vjp.h>

#include <algorithm>

#include <stave/core/fail.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/scope.h>
#include <stave/handlers/tape.h>

namespace stave_detail {

void check_results(std::span<const Tensor> results, const char* transform) {
  for (std::size_t i = 0; i < results.size(); ++i)
    if (!results[i].defined())
      fail<TransformError>("{}: result {} of the function is an empty Tensor (default-constructed or moved from)",
                           transform, i);
}

}  // namespace stave_detail

namespace stave {

using namespace stave_detail;

struct FlatPullback::Record {
  explicit Record(const char* transform) : handler(transform) {}

  GradHandler handler;
  std::vector<EntryPtr> inputs;
  std::vector<Abstract> input_abstracts;
  std::vector<Device> input_devices;
  std::vector<Slot> outputs;  // empty for outputs that depend on no input
  std::vector<Abstract> output_abstracts;
  std::vector<Device> output_devices;
  NamePtr backward;  // the name of its scope
  bool running = false;
};

namespace {

// One walk back over the tape.
class BackwardPass {
 public:
  BackwardPass(FlatPullback::Record& record, bool consume) : record_(record), consume_(consume) {
    if (record_.running) fail<TransformError>("{}: the pullback is already running", record_.handler.describe());
    record_.running = true;
  }
  // After an exception, cotangents of entries that were not reached must not stay for the next pass.
  ~BackwardPass() {
    for (EntryPtr& entry : queue_) {
      entry->cotangents.clear();
      entry->waiting = false;
    }
    for (EntryPtr& input : record_.inputs) input->cotangents.clear();
    record_.running = false;
  }

  std::vector<Tensor> run(std::span<const Tensor> cotangents) {
    for (std::size_t i = 0; i < cotangents.size(); ++i)
      if (cotangents[i].defined()) add_cotangent(record_.outputs[i], cotangents[i]);
    if (consume_) record_.outputs.clear();
    while (!queue_.empty()) {
      std::pop_heap(queue_.begin(), queue_.end(), later);
      EntryPtr entry = std::move(queue_.back());
      queue_.pop_back();
      entry->waiting = false;
      if (entry->op) step(*entry.get());
    }
    std::vector<Tensor> result;
    for (std::size_t i = 0; i < record_.inputs.size(); ++i) {
      SmallVector<Tensor, 1>& collected = record_.inputs[i]->cotangents;
      const Abstract& input = record_.input_abstracts[i];
      result.push_back(collected.empty() ? zeros(input.shape, input.dtype, record_.input_devices[i])
                                         : std::move(collected[0]));
    }
    return result;
  }

 private:
  static bool later(const EntryPtr& a, const EntryPtr& b) { return a->sequence < b->sequence; }

  // Every consumer of this entry was recorded later, and so has been here: its cotangents are complete.
  void step(Entry& entry) {
    // Functions that an operation carries have their scopes with them.
    const ReenteredScopes scopes(entry.op->carries_functions ? nullptr : entry.scopes.get());
    const SmallVector<Tensor, 1> cotangents = std::exchange(entry.cotangents, {});
    if (!entry.op->carries_functions) ordinary_step(entry, cotangents);
    else if (entry.op->id == OpId::checkpoint) run_again(entry, cotangents);
    else custom_step(entry, cotangents);
    if (!consume_) return;
    entry.inputs.clear();
    entry.outputs.clear();
    entry.producers.clear();
  }

  void ordinary_step(Entry& entry, const SmallVector<Tensor, 1>& cotangents) {
    if (!entry.op->vjp)
      fail<TransformError>("{}: the operation {} has no VJP rule: give it one, or cut it off with stop_gradient",
                           record_.handler.describe(), entry.op->name);
    const VjpContext context{*entry.op,     entry.attributes.get(), entry.inputs,
                             entry.outputs, entry.input_abstracts,  cotangents};
    for (std::size_t i = 0; i < entry.producers.size(); ++i)
      if (entry.producers[i].entry) add_cotangent(entry.producers[i], rule(context, i));
  }

  // A checkpoint: records the function now, and goes on with what that added to the tape, which is the last recorded.
  void run_again(Entry& entry, const SmallVector<Tensor, 1>& cotangents) {
    // The inputs have their notes: the same producers.
    HandlerFrame frame(current, &record_.handler, &record_.handler);
    UnderFrame install(&frame);
    const Outputs outputs = static_cast<const FunctionAttributes&>(*entry.attributes).function(entry.inputs);
    for (std::size_t i = 0; i < cotangents.size(); ++i) {
      const Abstract& first = entry.output_abstracts[i];
      if (outputs.size() != entry.output_abstracts.size() || outputs[i].shape() != first.shape ||
          outputs[i].dtype() != first.dtype)
        fail<TransformError>("checkpoint: the function gave other results when it ran again than at first");
      const Slot* slot = record_.handler.notes.find(outputs[i]);
      if (slot && cotangents[i].defined()) add_cotangent(*slot, cotangents[i]);
    }
  }

  void custom_step(Entry& entry, const SmallVector<Tensor, 1>& cotangents) {
    const Outputs found = custom_cotangents(entry, cotangents, consume_);
    if (found.size() != entry.inputs.size())
      fail<TransformError>("{}: the rule gave {} cotangents for {} inputs", entry.op->name, found.size(),
                           entry.inputs.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (!entry.producers[i].entry || !found[i].defined()) continue;
      check(*entry.op, found[i], entry.input_abstracts[i], i);
      add_cotangent(entry.producers[i], found[i]);
    }
  }

  static void check(const Op& op, const Tensor& cotangent, const Abstract& input, std::size_t i) {
    if (cotangent.shape() != input.shape || cotangent.dtype() != input.dtype)
      fail<TransformError>("the VJP rule of {} gave a cotangent {} {} for input {}, which is {} {}", op.name,
                           cotangent.dtype(), cotangent.shape(), i, input.dtype, input.shape);
  }

  static Tensor rule(const VjpContext& context, std::size_t i) {
    Tensor cotangent = context.op.vjp(context, static_cast<int>(i));
    check(context.op, cotangent, context.input_abstracts[i], i);
    return cotangent;
  }

  void add_cotangent(const Slot& slot, Tensor cotangent) {
    if (!slot.entry) return;
    Entry& entry = *slot.entry.get();
    const auto output = static_cast<std::size_t>(slot.output);
    if (entry.cotangents.size() <= output)
      entry.cotangents.resize(std::max<std::size_t>(output + 1, entry.output_count));
    Tensor& sum = entry.cotangents[output];
    sum = add_tangents(std::move(sum), std::move(cotangent));
    if (std::exchange(entry.waiting, true)) return;
    queue_.push_back(slot.entry);
    std::push_heap(queue_.begin(), queue_.end(), later);
  }

  FlatPullback::Record& record_;
  const bool consume_;
  std::vector<EntryPtr> queue_;  // a heap: the last recorded first
};

void check_cotangents(const FlatPullback::Record& record, std::span<const Tensor> cotangents) {
  const std::string name = record.handler.describe();
  if (cotangents.size() != record.output_abstracts.size())
    fail<TransformError>("{}: {} cotangents for {} outputs", name, cotangents.size(), record.output_abstracts.size());
  for (std::size_t i = 0; i < cotangents.size(); ++i) {
    if (!cotangents[i].defined()) continue;
    const Abstract& output = record.output_abstracts[i];
    if (cotangents[i].shape() != output.shape)
      fail<ShapeError>("{}: the cotangent of output {} has shape {}, the output {}", name, i, cotangents[i].shape(),
                       output.shape);
    if (cotangents[i].dtype() != output.dtype)
      fail<DtypeError>("{}: the cotangent of output {} is {}, the output {}", name, i, cotangents[i].dtype(),
                       output.dtype);
    if (cotangents[i].device() != record.output_devices[i])
      fail<DeviceError>("{}: the cotangent of output {} lives on {}, the output on {}: move one with to(x, device)",
                        name, i, cotangents[i].device().str(), record.output_devices[i].str());
  }
}

std::vector<Tensor> run_backward(FlatPullback::Record& record, std::span<const Tensor> cotangents, bool consume) {
  check_cotangents(record, cotangents);
  const Scope backward(record.backward);
  return BackwardPass(record, consume).run(cotangents);
}

}  // namespace

std::vector<Tensor> FlatPullback::operator()(std::span<const Tensor> cotangents) const {
  const std::shared_ptr<Record> alive = record_;
  return run_backward(*alive, cotangents, false);
}

std::vector<Tensor> FlatPullback::consume(std::span<const Tensor> cotangents) {
  const std::shared_ptr<Record> last = std::move(record_);
  return run_backward(*last, cotangents, last.use_count() == 1);
}

FlatVjp vjp_flat(FlatFunction f, std::span<const Tensor> primals, const char* transform) {
  auto record = std::make_shared<FlatPullback::Record>(transform);
  GradHandler& handler = record->handler;
  record->backward = make_intrusive<const Name>(std::string("backward of ") + transform);
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < primals.size(); ++i) {
    const Tensor& primal = primals[i];
    if (!is_float(primal.dtype()))
      fail<DtypeError>(
          "{}: input {} is {} {}, which has no derivative: make it a floating tensor (write 1. instead of 1, or "
          "astype(x, float32)), or capture it in the function instead of differentiating by it",
          transform, i, primal.dtype(), primal.shape());
    record->inputs.push_back(handler.new_entry());
    record->input_abstracts.push_back({primal.shape(), primal.dtype()});
    record->input_devices.push_back(primal.device());
    inputs.push_back(handler.notes.put(clone_node(primal), Slot{record->inputs.back(), 0}));
  }
  Outputs outputs = with(handler, [&] { return f(inputs); });
  handler.notes.owner().running = false;
  check_results(outputs, transform);
  for (Tensor& output : outputs) {
    const Slot* slot = handler.notes.find(output);
    record->outputs.push_back(slot ? *slot : Slot{});
    record->output_abstracts.push_back({output.shape(), output.dtype()});
    record->output_devices.push_back(output.device());
    output = handler.notes.strip(std::move(output));
  }
  FlatVjp result;
  result.outputs = std::move(outputs);
  result.pullback.record_ = std::move(record);
  return result;
}

}  // namespace stave
