// The rematerialisation rule: which values a tape saves, and which the backward
// pass computes again.
//
// A value that a rule will read is dropped if a few cheap operations compute it from values that
// the tape keeps in any case: values that the rules of these operations read, results that these
// operations keep, inputs of the transform, and numbers. Entries that the reader's own entry keeps
// alive hold all of these but the inputs. So the tape keeps a subset of what it would keep without
// rematerialisation, except for numbers, and for inputs that are small beside the values computed
// from them (small_part). Any other value is saved, also by the entries that read it later.
//
// With Recompute::automatic, the tape begins to drop values when it keeps `tape_limit`, and drops
// only those of at least 16 KiB (tape.h). It never drops a value where a user's own handler sees
// the operations, an input of a higher-order operation, or an input after the first eight.
//
// "A few" means at most 4 operations, counted from saved values. In a run of elementwise operations
// of one shape, which the backward pass fuses (fused_backward.h), values that are recomputed in any
// case do not count. But at most 512 operations of a run are recomputed for one value, so that the
// tiles of all values fit in the level-2 cache.
#include <algorithm>

#include <stave/core/ops/frontend.h>
#include <stave/core/program/region.h>
#include <stave/handlers/transforms/tape.h>

namespace stave_detail {

namespace {

constexpr int most_cheap = 4, longest = 512;
constexpr std::size_t tape_limit = std::size_t{4} << 20;  // bytes
// The tape may keep a primal alive for recomputing if the primal's size is at most 1 / small_part
// of the size of the value that is dropped for it.
constexpr std::size_t small_part = 16;

std::size_t bytes_of(const Abstract& x) { return static_cast<std::size_t>(x.shape.elements()) * size_of(x.dtype); }

bool is_view(const Op& op) { return op.view != nullptr; }

// Returns the backward slice of an entry. An entry that was recorded before the tape began to drop
// values has no slice yet: it can be recomputed only if it keeps all of its own inputs.
BackwardSlice slice_of_kept(Entry& entry) {
  BackwardSlice slice = entry.slice;
  if (slice.size || entry.dropped || !entry.is_recomputable()) return slice;
  for (const Tensor& input : entry.inputs())
    if (!input.defined()) return slice;
  slice.size = 1;
  return slice;
}

// Returns how many operations, not counting views, recompute an entry's output; any number greater
// than `most_cheap` if there are more than that, or more than `most_seen` operations with views. If
// `beyond`, operations whose values are recomputed in any case do not count.
int operations_to_recompute(Entry& entry, bool beyond) {
  constexpr std::size_t most_seen = 16;
  SmallVector<Entry*, 8> seen;
  seen.push_back(&entry);
  int count = 0;
  for (std::size_t k = 0; k < seen.size(); ++k) {
    count += !is_view(*seen[k]->op);
    if (count > most_cheap || seen.size() > most_seen) return most_cheap + 1;
    for (std::size_t i = 0; i < seen[k]->input_count; ++i) {
      Entry* const producer = seen[k]->producers()[i].entry.get();
      if (seen[k]->inputs()[i].defined() || !producer || !producer->op || producer->keeps_outputs) continue;
      if (beyond && producer->slice.read_again) continue;
      if (std::find(seen.begin(), seen.end(), producer) == seen.end()) seen.push_back(producer);
    }
  }
  return count;
}

// Saves constants of at most 16 bytes, which a recomputation of the operation needs, even if no
// rule reads them.
void save_constants(Entry& entry, const Call& call) {
  for (std::size_t i = 0; i < entry.input_count; ++i) {
    const Tensor& x = call.input(i);
    if (!entry.producers()[i].entry && x.node().storage && x.node().storage->bytes <= sizeof(Bytes16))
      entry.inputs()[i] = x;
  }
}

// Returns true if the entry's inputs were computed by different entries.
bool has_several_producers(Entry& entry) {
  const Entry* first = nullptr;
  for (const Slot& slot : entry.producers()) {
    if (first && slot.entry && slot.entry.get() != first) return true;
    if (!first) first = slot.entry.get();
  }
  return false;
}

// Returns an entry and about 15 entries, or fewer, from which its inputs may be recomputed, the
// last recorded first.
SmallVector<Entry*, 16> nearby(Entry& entry) {
  constexpr std::size_t few = 16;
  SmallVector<Entry*, 16> found;
  found.push_back(&entry);
  for (std::size_t k = 0; k < found.size() && found.size() < few; ++k)
    for (std::size_t i = 0; i < found[k]->input_count; ++i) {
      Entry* const producer = found[k]->producers()[i].entry.get();
      if (found[k]->inputs()[i].defined() || !producer || !producer->op) continue;
      if (!producer->is_recomputable() || producer->keeps_outputs) continue;
      if (std::find(found.begin(), found.end(), producer) == found.end()) found.push_back(producer);
    }
  std::sort(found.begin(), found.end(), [](Entry* a, Entry* b) { return a->sequence > b->sequence; });
  return found;
}

}  // namespace

bool is_undisturbed() { return !current || !current->nearest || current->nearest->runs_no_user_code; }

void Rematerialization::set_primals(std::span<const Tensor> primals, bool stay) {
  if (when_ == Recompute::never) return;
  primals_.assign(primals.begin(), primals.end());
  needed_.assign(primals.size(), false);
  primals_stay_ = stay;
}

void Rematerialization::release_primals() {
  for (std::size_t i = 0; i < primals_.size(); ++i)
    if (!needed_[i]) primals_[i] = Tensor();
}

void Rematerialization::keep(const Tensor& output) { kept_ += bytes_kept_by(output.node()); }

void Rematerialization::plan(Entry& entry, const Call& call, const Rematerialization& of_primals) {
  if (when_ == Recompute::never) return;
  const std::span<Tensor> inputs = entry.inputs();
  const std::span<Slot> producers = entry.producers();
  const auto is_new = [&](std::size_t i) {
    Entry* const producer = producers[i].entry.get();
    return inputs[i].defined() && producer && producer->op && !producer->slice.kept && !producer->keeps_outputs;
  };
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (is_new(i)) bytes += bytes_kept_by(inputs[i].node());
  const bool drops = begins(entry, bytes) && is_undisturbed();
  if (drops) {
    continue_run(entry, call.inputs().empty() ? Shape() : call.input(0).shape());
    for (std::size_t i = 0; i < std::min(inputs.size(), Entry::most_dropped); ++i)
      if (is_new(i) && may_drop(entry, *producers[i].entry, inputs[i]))
        entry.dropped = static_cast<std::uint8_t>(entry.dropped | 1u << i);
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (entry.drops(i)) {
      inputs[i] = Tensor();
      Entry& producer = *producers[i].entry;
      if (entry.joins_regions && is_own(producer)) producer.slice.read_again = true;
    } else if (is_new(i)) {
      kept_ += bytes_kept_by(inputs[i].node());
      if (Entry& producer = *producers[i].entry; is_own(producer)) producer.slice.kept = true;
    }
  }
  if (!drops || !entry.is_recomputable() || entry.keeps_outputs) return;
  save_constants(entry, call);
  const Abstract& output = call.abstract_outputs()[0];
  entry.slice = slice_of(entry, bytes_of(output), of_primals);
  if (has_several_producers(entry)) search_nearby(entry, of_primals);
}

// Returns true once the tape drops values. The tape starts to drop them when the kept values reach
// the limit.
bool Rematerialization::begins(Entry& entry, std::size_t bytes) {
  if (active_) return true;
  if (kept_ + bytes < tape_limit) return false;
  active_ = true;
  run_ = entry.sequence;
  if (entry.input_count == 0) return true;
  shape_ = entry.input_abstracts()[0].shape;
  // The operations that were recorded just before this one may belong to its run.
  Entry* earlier = entry.producers()[0].entry.get();
  while (earlier && earlier->op && earlier->sequence + 1 == run_ && earlier->joins_regions &&
         earlier->input_abstracts()[0].shape == shape_) {
    run_ = earlier->sequence;
    earlier = earlier->producers()[0].entry.get();
  }
  return true;
}

void Rematerialization::continue_run(const Entry& entry, const Shape& shape) {
  const bool elementwise = entry.joins_regions;
  if (elementwise && shape == shape_) return;
  run_ = elementwise ? entry.sequence : entry.sequence + 1;
  shape_ = shape;
}

bool Rematerialization::may_drop(const Entry& reader, Entry& producer, const Tensor& x) const {
  if (reader.op->is_higher_order || bytes_kept_by(x.node()) < least_) return false;
  const BackwardSlice slice = slice_of_kept(producer);
  if (!slice.size || slice.size > longest) return false;
  const int cheap = operations_to_recompute(producer, false);
  if (cheap == 0) return false;  // dropping a view saves no memory
  if (cheap <= most_cheap) return true;
  return reader.joins_regions && slice.back != BackwardSlice::too_far && producer.sequence - slice.back >= run_ &&
         operations_to_recompute(producer, true) <= most_cheap;
}

BackwardSlice Rematerialization::slice_of(Entry& entry, std::size_t bytes, const Rematerialization& of_primals) {
  BackwardSlice slice = entry.slice;
  slice.size = 1;
  slice.back = 0;
  for (std::size_t i = 0; i < entry.input_count; ++i)
    if (!takes(entry, i, bytes, of_primals, slice)) return entry.slice;
  slice.size = static_cast<std::uint16_t>(std::min<unsigned>(slice.size, slice.back + 1u));
  return slice;
}

// Adds the cost of providing input i to the backward slice of an entry whose output has this many
// bytes. Returns false if the input cannot be provided.
bool Rematerialization::takes(Entry& entry, std::size_t i, std::size_t bytes, const Rematerialization& of_primals,
                              BackwardSlice& slice) {
  const std::span<Slot> producers = entry.producers();
  if (entry.inputs()[i].defined()) return true;
  Entry* const producer = producers[i].entry.get();
  if (!producer) return false;
  for (std::size_t k = 0; k < i; ++k)
    if (producers[k].entry.get() == producer && !entry.inputs()[k].defined()) return true;
  if (!producer->op) {
    const Tensor& primal = of_primals.primal(*producer);
    if (!primal.defined()) return false;
    if (!of_primals.primals_stay_ && bytes_kept_by(primal.node()) * small_part > bytes) return false;
    if (&of_primals == this) needed_[producer->sequence] = true;
    return true;
  }
  if (producer->keeps_outputs) return true;
  const BackwardSlice input = slice_of_kept(*producer);
  if (!input.size) return false;
  const std::uint64_t back = entry.sequence - producer->sequence + input.back;
  slice.back = static_cast<std::uint16_t>(std::clamp<std::uint64_t>(back, slice.back, BackwardSlice::too_far));
  slice.size = static_cast<std::uint16_t>(std::min<unsigned>(slice.size + input.size, BackwardSlice::too_far));
  return true;
}

// In y * y + 0.25 * y the first product's entry keeps y. To recompute the sum, the second product's
// entry needs y as well, although its rule does not read y. Both entries live as long as the sum's
// entry, so the second one may share the value.
void Rematerialization::search_nearby(Entry& entry, const Rematerialization& of_primals) {
  const SmallVector<Entry*, 16> entries = nearby(entry);
  const auto kept_copy = [&](const Slot& slot) {
    for (Entry* other : entries)
      for (std::size_t i = 0; i < other->input_count; ++i)
        if (const Slot& of_other = other->producers()[i];
            of_other.entry == slot.entry && of_other.output == slot.output && other->inputs()[i].defined())
          return other->inputs()[i];
    return Tensor();
  };
  bool changed = false;
  for (std::size_t k = entries.size(); k-- > 0;) {
    Entry& other = *entries[k];
    if (!is_own(other) || is_view(*other.op)) continue;
    for (std::size_t i = 0; i < other.input_count; ++i) {
      const Slot& slot = other.producers()[i];
      if (other.inputs()[i].defined() || other.drops(i) || !slot.entry) continue;
      other.inputs()[i] = kept_copy(slot);
      changed |= other.inputs()[i].defined();
    }
    if (!changed) continue;
    // The output has the shape of the first input.
    const Abstract output = other.input_abstracts()[0];
    other.slice = slice_of(other, bytes_of(output), of_primals);
  }
}

}  // namespace stave_detail
