#include <stave/handlers/tape.h>

#include <algorithm>

namespace stave_detail {

// Freeing an entry frees values, which may free notes, which release entries: these wait in a list.
void destroy(Entry* entry) noexcept {
  static constinit thread_local Entry* to_free = nullptr;
  static constinit thread_local bool freeing = false;
  entry->next_to_free = std::exchange(to_free, entry);
  if (freeing) return;
  freeing = true;
  while (Entry* next = to_free) {
    to_free = next->next_to_free;
    delete next;
  }
  freeing = false;
}

Outputs GradHandler::handle(Call& call) {
  if (call.op().carries_functions) [[unlikely]]
    return handle_carrying(call);
  if (!is_noted(call)) return perform(std::move(call));
  if (call.op().derivative == Derivative::zero) return without_notes(perform(std::move(call)));
  const EntryPtr entry = record(call);
  Outputs outputs = perform(std::move(call));  // may reuse the buffers of inputs that the entry did not save
  if (entry->op->saves.outputs) entry->outputs.append(outputs.begin(), outputs.end());
  return noted(std::move(outputs), entry);
}

bool GradHandler::is_noted(const Call& call) const noexcept {
  return std::any_of(call.inputs().begin(), call.inputs().end(), [&](const Tensor& x) { return notes.find(x); });
}

EntryPtr GradHandler::record(const Call& call) {
  EntryPtr entry = new_entry();
  entry->op = &call.op();
  entry->attributes = call.attributes_ptr();
  entry->scopes = scopes_of_performer(scopes_);
  for (const Tensor& input : call.inputs()) {
    entry->input_abstracts.emplace_back(input.shape(), input.dtype());
    if (const Slot* producer = notes.find(input)) entry->producers.push_back(*producer);
    else entry->producers.emplace_back();
  }
  const Saves& saves = entry->op->saves;
  for (std::size_t i = 0; i < call.inputs().size(); ++i)
    if (saves.crossed ? bool(entry->producers[1 - i].entry) : saves.input(i)) entry->inputs.push_back(call.inputs()[i]);
    else entry->inputs.emplace_back();
  return entry;
}

// The entry holds outputs before they are noted: what it saved is without a note of its own.
Outputs GradHandler::noted(Outputs outputs, const EntryPtr& entry) const {
  entry->output_count = static_cast<std::uint32_t>(outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (entry->op->carries_functions) {
      entry->output_abstracts.emplace_back(outputs[i].shape(), outputs[i].dtype());
      entry->output_devices.push_back(outputs[i].device());
    }
    if (is_float(outputs[i].dtype())) outputs[i] = notes.put(std::move(outputs[i]), Slot{entry, static_cast<int>(i)});
    else outputs[i] = notes.strip(std::move(outputs[i]));
  }
  return outputs;
}

Outputs GradHandler::without_notes(Outputs outputs) const {
  for (Tensor& output : outputs) output = notes.strip(std::move(output));
  return outputs;
}

Inputs GradHandler::without_notes(std::span<const Tensor> inputs) const {
  Inputs stripped;
  for (const Tensor& input : inputs) stripped.push_back(notes.strip(input));
  return stripped;
}

}  // namespace stave_detail
