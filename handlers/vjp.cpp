// The tape is a graph. An Entry is one recorded operation; it is owned by the notes on its outputs and by the entries that
// consumed them. When an output dies unconsumed, its entry goes at once, and with it what it saved. Nothing here recurses
// over the program: releasing and walking back are loops, so a million operations need heap, not stack.

#include <stave/handlers/vjp.h>

#include <algorithm>

#include <stave/core/fail.h>
#include <stave/core/note.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/scope.h>

namespace stave_detail {

void check_results(std::span<const Tensor> results, const char* transform) {
  for (std::size_t i = 0; i < results.size(); ++i)
    if (!results[i].defined())
      fail<TransformError>("{}: result {} of the function is an empty Tensor (default-constructed or moved from)",
                           transform, i);
}

namespace {

struct Entry;

// A shared owner of an entry. Entries belong to one thread; their count is a plain one.
class EntryPtr {
 public:
  EntryPtr() noexcept = default;
  explicit EntryPtr(Entry* entry) noexcept;
  EntryPtr(const EntryPtr& other) noexcept : EntryPtr(other.entry_) {}
  EntryPtr(EntryPtr&& other) noexcept : entry_(std::exchange(other.entry_, nullptr)) {}
  EntryPtr& operator=(EntryPtr other) noexcept {
    std::swap(entry_, other.entry_);
    return *this;
  }
  ~EntryPtr();
  Entry* get() const noexcept { return entry_; }
  Entry* operator->() const noexcept { return entry_; }
  explicit operator bool() const noexcept { return entry_; }

 private:
  Entry* entry_ = nullptr;
};

// Where a value came from: output `output` of an entry.
struct Slot {
  EntryPtr entry;
  int output = 0;
};

struct Saved {
  Tensor value;  // undefined if the rule does not read it
  Abstract abstract;
};

struct Entry : Pooled {
  std::uint32_t references = 0;
  bool waiting = false;    // in the backward pass's queue
  std::uint64_t sequence;  // the order of recording
  const Op* op = nullptr;  // null: an input of the transform
  AttributesPtr attributes;
  ScopePathPtr scopes;  // where it was performed, within the function
  SmallVector<Saved, 2> inputs;
  SmallVector<Slot, 2> producers;  // of the inputs; empty slots for constants
  SmallVector<Tensor, 1> outputs;  // saved values
  SmallVector<Abstract, 1> output_abstracts;
  SmallVector<Tensor, 1> cotangents;  // during a backward pass
  Entry* next_to_free = nullptr;
};

EntryPtr::EntryPtr(Entry* entry) noexcept : entry_(entry) {
  if (entry_) ++entry_->references;
}

// Freeing an entry frees values, which may free notes, which release entries: these wait in a list.
EntryPtr::~EntryPtr() {
  static constinit thread_local Entry* to_free = nullptr;
  static constinit thread_local bool freeing = false;
  if (!entry_ || --entry_->references != 0) return;
  entry_->next_to_free = std::exchange(to_free, entry_);
  if (freeing) return;
  freeing = true;
  while (Entry* entry = to_free) {
    to_free = entry->next_to_free;
    delete entry;
  }
  freeing = false;
}

class GradHandler final : public Handler {
 public:
  explicit GradHandler(const char* transform) : notes(transform) {}

  Outputs handle(Call& call) override {
    if (std::none_of(call.inputs().begin(), call.inputs().end(), [&](const Tensor& x) { return notes.find(x); }))
      return perform(std::move(call));
    if (call.op().derivative == Derivative::zero) return without_notes(perform(std::move(call)));
    EntryPtr entry = record(call);
    Outputs outputs = perform(std::move(call));  // may reuse the buffers of inputs that the entry did not save
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      entry->output_abstracts.push_back({outputs[i].shape(), outputs[i].dtype()});
      if (entry->op->saves.outputs) entry->outputs.push_back(outputs[i]);
      if (is_float(outputs[i].dtype())) outputs[i] = notes.put(std::move(outputs[i]), Slot{entry, static_cast<int>(i)});
      else outputs[i] = notes.strip(std::move(outputs[i]));
    }
    return outputs;
  }
  std::string describe() const override { return notes.owner().name; }

  Entry* new_entry() {
    auto* entry = new Entry;
    entry->sequence = sequence_++;
    return entry;
  }

  Notes<Slot> notes;

 private:
  EntryPtr record(const Call& call) {
    EntryPtr entry(new_entry());
    entry->op = &call.op();
    entry->attributes = call.attributes_ptr();
    entry->scopes = scopes_of_performer(scopes_);
    for (std::size_t i = 0; i < call.inputs().size(); ++i) {
      const Tensor& input = call.input(i);
      const bool saved = entry->op->saves.inputs >> i & 1;
      entry->inputs.push_back({saved ? input : Tensor(), {input.shape(), input.dtype()}});
      const Slot* producer = notes.find(input);
      entry->producers.push_back(producer ? *producer : Slot{});
    }
    return entry;
  }

  Outputs without_notes(Outputs outputs) const {
    for (Tensor& output : outputs) output = notes.strip(std::move(output));
    return outputs;
  }

  std::uint64_t sequence_ = 0;
  ScopePathPtr scopes_;  // of the last operation in scopes
};

}  // namespace
}  // namespace stave_detail

namespace stave {

using namespace stave_detail;

struct FlatPullback::Record {
  explicit Record(const char* transform) : handler(transform) {}

  GradHandler handler;
  std::vector<EntryPtr> inputs;
  std::vector<Abstract> input_abstracts;
  std::vector<Slot> outputs;  // empty for outputs that depend on no input
  std::vector<Abstract> output_abstracts;
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
      result.push_back(collected.empty() ? zeros(input.shape, input.dtype) : std::move(collected[0]));
    }
    return result;
  }

 private:
  static bool later(const EntryPtr& a, const EntryPtr& b) { return a->sequence < b->sequence; }

  // Every consumer of this entry was recorded later, and so has been here: its cotangents are complete.
  void step(Entry& entry) {
    const ReenteredScopes scopes(entry.scopes.get());
    const SmallVector<Tensor, 1> cotangents = std::exchange(entry.cotangents, {});
    SmallVector<Tensor, 2> inputs;
    SmallVector<Abstract, 2> abstracts;
    for (const Saved& saved : entry.inputs) {
      inputs.push_back(saved.value);
      abstracts.push_back(saved.abstract);
    }
    if (!entry.op->vjp)
      fail<TransformError>("{}: the operation {} has no VJP rule: give it one, or cut it off with stop_gradient",
                           record_.handler.describe(), entry.op->name);
    const VjpContext context{*entry.op, entry.attributes.get(), inputs, entry.outputs, abstracts, cotangents};
    for (std::size_t i = 0; i < entry.producers.size(); ++i)
      if (entry.producers[i].entry) add_cotangent(entry.producers[i], rule(context, i));
    if (!consume_) return;
    entry.inputs.clear();
    entry.outputs.clear();
    entry.producers.clear();
  }

  static Tensor rule(const VjpContext& context, std::size_t i) {
    Tensor cotangent = context.op.vjp(context, static_cast<int>(i));
    if (cotangent.shape() != context.shape(i) || cotangent.dtype() != context.dtype(i))
      fail<TransformError>("the VJP rule of {} gave a cotangent {} {} for input {}, which is {} {}", context.op.name,
                           cotangent.dtype(), cotangent.shape(), i, context.dtype(i), context.shape(i));
    return cotangent;
  }

  void add_cotangent(const Slot& slot, Tensor cotangent) {
    if (!slot.entry) return;
    Entry& entry = *slot.entry.get();
    const auto output = static_cast<std::size_t>(slot.output);
    if (entry.cotangents.size() <= output)
      entry.cotangents.resize(std::max<std::size_t>(output + 1, entry.output_abstracts.size()));
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
    record->inputs.push_back(EntryPtr(handler.new_entry()));
    record->input_abstracts.push_back({primal.shape(), primal.dtype()});
    inputs.push_back(handler.notes.put(clone_node(primal), Slot{record->inputs.back(), 0}));
  }
  Outputs outputs = with(handler, [&] { return f(inputs); });
  handler.notes.owner().running = false;
  check_results(outputs, transform);
  for (Tensor& output : outputs) {
    const Slot* slot = handler.notes.find(output);
    record->outputs.push_back(slot ? *slot : Slot{});
    record->output_abstracts.push_back({output.shape(), output.dtype()});
    output = handler.notes.strip(std::move(output));
  }
  FlatVjp result;
  result.outputs = std::move(outputs);
  result.pullback.record_ = std::move(record);
  return result;
}

}  // namespace stave
