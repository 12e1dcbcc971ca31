#include <stave/handlers/transforms/tape.h>

#include <algorithm>
#include <memory>

#include <stave/core/program/region.h>
#include <stave/core/tensor/fail.h>

namespace stave_detail {

// Freeing an entry frees values, which may free notes, which release further entries.
// These wait in a list.
void destroy(Entry* entry) noexcept { delete_in_loop<&Entry::next_to_free>(entry); }

// ---- entries ------------------------------------------------------------------------------------

namespace {

std::size_t bytes_of(std::size_t inputs, std::size_t outputs, std::size_t axes) {
  return sizeof(Entry) + inputs * (sizeof(Tensor) + sizeof(Slot) + sizeof(Entry::Kind)) + outputs * sizeof(Tensor) +
         axes * sizeof(Index);
}

}  // namespace

EntryPtr Entry::of_input(std::uint64_t sequence) {
  return EntryPtr(::new (pool_allocate(bytes_of(0, 0, 0))) Entry(sequence));
}

EntryPtr Entry::of(const Call& call, std::uint64_t sequence) {
  std::size_t axes = 0;
  for (const Tensor& input : call.inputs()) axes += input.shape().size();
  const std::size_t outputs = call.op().reads_outputs() ? call.abstract_outputs().size() : 0;
  void* const block = pool_allocate(bytes_of(call.inputs().size(), outputs, axes));
  return EntryPtr(::new (block) Entry(call, sequence, static_cast<std::uint32_t>(axes)));
}

Entry::Entry(const Call& call, std::uint64_t order, std::uint32_t count_of_axes) noexcept
    : input_count(static_cast<std::uint32_t>(call.inputs().size())),
      output_count(static_cast<std::uint32_t>(call.abstract_outputs().size())), axes(count_of_axes), sequence(order),
      op(&call.op()), attributes(call.attributes_ptr()) {
  Tensor* saved = inputs().data();
  Slot* producer = producers().data();
  Index* length = lengths();
  Kind* kind = kinds();
  for (const Tensor& input : call.inputs()) {
    ::new (saved++) Tensor();
    ::new (producer++) Slot();
    const Shape& shape = input.node_ptr()->shape;
    for (const Index axis : shape) *length++ = axis;
    ::new (kind++) Kind{input.node_ptr()->dtype, static_cast<std::uint16_t>(shape.rank())};
  }
  for (Tensor& output : outputs()) ::new (&output) Tensor();
  joins_regions = input_count > 0 && Region::admits(*op, call.inputs().back().node_ptr()->dtype);
}

Entry::~Entry() {
  for (std::size_t i = 0; i < input_count; ++i) {
    std::destroy_at(&inputs()[i]);
    std::destroy_at(&producers()[i]);
  }
  for (Tensor& output : outputs()) std::destroy_at(&output);
}

void Entry::operator delete(Entry* entry, std::destroying_delete_t) noexcept {
  const std::size_t bytes = bytes_of(entry->input_count, entry->outputs().size(), entry->axes);
  entry->~Entry();
  pool_free(entry, bytes);
}

SmallVector<Abstract, 2> Entry::input_abstracts() {
  SmallVector<Abstract, 2> abstracts;
  const Index* length = lengths();
  for (const Kind& kind : std::span(kinds(), input_count)) {
    Abstract& abstract = abstracts.emplace_back();
    abstract.shape.append(length, length + kind.rank);
    abstract.dtype = kind.dtype;
    length += kind.rank;
  }
  return abstracts;
}

void Entry::clear() noexcept {
  for (Tensor& input : inputs()) input = Tensor();
  for (Slot& producer : producers()) producer = Slot();
  for (Tensor& output : outputs()) output = Tensor();
  carried = nullptr;
}

// ---- recording ----------------------------------------------------------------------------------

Outputs GradHandler::handle(Call& call) {
  if (call.op().is_higher_order) [[unlikely]]
    return handle_higher_order(call);
  const Outputs* const saved = replay_ ? replay_->next(call) : nullptr;
  bool known = false;
  // Set if an input has lost its derivative. The number says how: it is Slot::outside or 0.
  std::optional<int> lost;
  for (const Tensor& input : call.inputs())
    if (const Slot* slot = find(input)) {
      known = true;
      if (!slot->entry) [[unlikely]]
        lost = slot->output;
    }
  if (!known) return performed(call, saved);
  if (call.op().derivative == Derivative::zero) return without_notes(performed(call, saved));
  if (lost) [[unlikely]]
    return unrecorded(performed(call, saved), {nullptr, *lost});
  EntryPtr entry = record(call);
  // The operation may reuse the buffers of inputs that the entry did not save.
  Outputs outputs = performed(call, saved);
  if (entry->keeps_outputs) {
    std::copy(outputs.begin(), outputs.end(), entry->outputs().begin());
    for (const Tensor& output : outputs)
      if (rematerialization.may_drop_later(output)) rematerialization.keep(output);
  }
  return noted(std::move(outputs), std::move(entry));
}

inline Outputs GradHandler::performed(Call& call, const Outputs* saved) {
  return saved ? *saved : perform(std::move(call));
}

bool GradHandler::is_noted(const Call& call) const noexcept {
  return std::any_of(call.inputs().begin(), call.inputs().end(), [&](const Tensor& x) { return find(x); });
}

EntryPtr GradHandler::record(const Call& call) {
  EntryPtr entry = Entry::of(call, sequence_++);
  entry->scopes = scopes_of_performer(scopes_);
  const std::span<Slot> producers = entry->producers();
  ValueSet reads;  // values read by the rules of the inputs that have a producer
  for (std::size_t i = 0; i < producers.size(); ++i)
    if (const Slot* producer = find(call.inputs()[i])) {
      producers[i] = *producer;
      reads.mask |= call.op().reads_for(i).mask;
    }
  bool plans = rematerialization.active();
  for (std::size_t i = 0; i < producers.size(); ++i)
    if (reads.has_input(i)) {
      entry->inputs()[i] = call.inputs()[i];
      plans |= rematerialization.may_drop_later(call.inputs()[i]);
    }
  entry->keeps_outputs = reads.has_outputs();
  if (plans) rematerialization.plan(*entry, call, root().rematerialization);
  return entry;
}

// The entry stores outputs before they get notes, so the saved values carry no note of their own.
Outputs GradHandler::noted(Outputs outputs, EntryPtr entry) const {
  if (entry->op->is_higher_order && !entry->carried) entry->carried = std::make_unique<HigherOrderOutputs>();
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (entry->carried) {
      entry->carried->abstracts.emplace_back(outputs[i].shape(), outputs[i].dtype());
      entry->carried->devices.push_back(outputs[i].device());
    }
    if (is_inexact(outputs[i].dtype())) {
      EntryPtr owner = i + 1 == outputs.size() ? std::move(entry) : entry;
      outputs[i] = notes.put(std::move(outputs[i]), Slot{std::move(owner), static_cast<int>(i)});
    } else {
      outputs[i] = without_notes(std::move(outputs[i]));
    }
  }
  return outputs;
}

const Slot* GradHandler::find_lost(const Call& call) const noexcept {
  for (const Tensor& input : call.inputs())
    if (const Slot* slot = find(input); slot && !slot->entry) return slot;
  return nullptr;
}

Outputs GradHandler::unrecorded(Outputs outputs, const Slot& like) const {
  for (Tensor& output : outputs)
    if (is_inexact(output.dtype())) output = notes.put(std::move(output), like);
  return outputs;
}

Tensor GradHandler::lost(Tensor x) const {
  if (lost_by_.empty()) lost_by_ = outside_.effect();
  return is_inexact(x.dtype()) ? notes.put(std::move(x), Slot{nullptr, Slot::outside}) : x;
}

void GradHandler::check_recorded(const Slot* slot) const {
  if (!slot || slot->entry) return;
  if (slot->output == Slot::outside) fail_lost(notes.owner().name, root().lost_by_);
  fail<TransformError>(
      "{}: a value that a checkpoint's function computed left the function through a captured variable or an effect, "
      "and the result depends on it: its derivative would be lost. Return it from the function",
      notes.owner().name);
}

Tensor GradHandler::without_notes(Tensor x) const {
  for (const GradHandler* handler = this; handler; handler = handler->base_.get())
    x = handler->notes.strip(std::move(x));
  return x;
}

Outputs GradHandler::without_notes(Outputs outputs) const {
  for (Tensor& output : outputs) output = without_notes(std::move(output));
  return outputs;
}

Inputs GradHandler::without_notes(std::span<const Tensor> inputs) const {
  Inputs stripped;
  for (const Tensor& input : inputs) stripped.push_back(without_notes(input));
  return stripped;
}

}  // namespace stave_detail
