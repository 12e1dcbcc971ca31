#include <stave/handlers/transforms/fused_backward.h>

#include <algorithm>

#include <stave/core/ops/create.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/program/fused.h>
#include <stave/core/tensor/print.h>
#include <stave/handlers/transforms/record_region.h>

namespace stave_detail {

namespace {

// One region performs the rules of at most this many entries, and recomputes at most this many.
constexpr int most_entries = 512;
// A region accepts entries while it has at most this many results more than recomputed entries.
constexpr int few_results = 4;
// If a transform differentiates a region with more inputs than this, the region's steps are
// performed one by one: the VJP of a region is one region for each input, and each of these
// computes all values again.
constexpr std::size_t few_inputs = 8;

/// Returns the innermost frame from which operations reach no user's handler; null: there is none.
Frame* library_frames() {
  Frame* frame = current;
  while (frame && frame->nearest && !frame->nearest->runs_no_user_code) frame = frame->nearest->below;
  return frame;
}

bool is_number(const Tensor& x) {
  if (!x.node().storage || live_notes(x) > 0 || (x.device() != cpu && !x.node().storage->is_host_constant))
    return false;
  return repeats_one_element(x);
}

bool is_elementwise(Entry& entry, const Shape& shape) {
  return entry.op && entry.joins_regions && entry.op->vjp && entry.input_abstracts()[0].shape == shape;
}

}  // namespace

Tensor computed_again(const GradHandler& handler, const Slot& slot) {
  Entry& entry = *slot.entry;
  if (!entry.op) return handler.primal(entry);
  if (entry.keeps_outputs) return entry.outputs()[static_cast<std::size_t>(slot.output)];
  const UnderFrame as_at_first(library_frames());
  if (entry.joins_regions) {
    FusedBackward region(handler, entry.input_abstracts()[0].shape);
    const Tensor value = region.value_of(slot);
    return region.values_of({&value, 1})[0];
  }
  const Tensor& saved = entry.inputs()[0];  // the operation is a view, which has one input
  return apply(*entry.op, {saved.defined() ? saved : computed_again(handler, entry.producers()[0])}, entry.attributes);
}

bool FusedBackward::takes(Entry& entry) {
  if (!is_elementwise(entry, shape_)) return false;
  if (builder_.empty()) return true;
  std::size_t more = 0;  // entries to recompute
  for (std::size_t i = 0; i < entry.input_count; ++i)
    if (entry.drops(i))
      if (Entry& producer = *entry.producers()[i].entry; !again_.contains(&producer)) more += producer.slice.size;
  if (taken_ >= most_entries || again_.size() + more > most_entries) return false;
  return results_ <= few_results + static_cast<int>(again_.size());
}

void FusedBackward::count_result(Entry& entry) {
  if (!is_elementwise(entry, shape_)) ++results_;
}

// ---- recording ----------------------------------------------------------------------------------

Outputs FusedBackward::handle(Call& call) {
  const auto inputs = call.inputs();
  if (std::none_of(inputs.begin(), inputs.end(), [&](const Tensor& x) { return stands_in(x); }))
    return perform(std::move(call));
  SmallVector<int, 3> operands;
  for (const Tensor& input : inputs) operands.push_back(*notes_.find(add_operand(input)));
  return tensor(builder_.add(call.op(), operands, call.abstract_outputs()[0].dtype));
}

Tensor FusedBackward::add_operand(const Tensor& x) {
  if (stands_in(x)) return x;
  return tensor(x.rank() == 0 && shape_.rank() > 0 && is_number(x) ? number(x) : given(x));
}

Tensor FusedBackward::input(Entry& entry, std::size_t i) {
  if (entry.inputs()[i].defined() || entry.drops(i)) return tensor(operand(entry, i));
  return {};
}
Tensor FusedBackward::output(Entry& entry, std::size_t i) {
  return entry.keeps_outputs ? tensor(given(entry.outputs()[i])) : Tensor();
}

Tensor FusedBackward::tensor(int value) {
  Tensor stands(NodePtr(new Node(builder_.dtype(value), cpu, {}, {}, nullptr)));
  return notes_.put(std::move(stands), value);
}

int FusedBackward::given(const Tensor& x) {
  const auto [found, is_new] = given_.emplace(&x.node(), 0);
  if (!is_new) return found->second;
  inputs_.push_back(x);
  return found->second = builder_.input(x.dtype());
}

int FusedBackward::number(const Tensor& x) {
  const UnderFrame past_all_handlers(nullptr);
  return builder_.number(number_of(x), x.dtype());
}

int FusedBackward::operand(Entry& entry, std::size_t i) {
  const std::span<Tensor> inputs = entry.inputs();
  const Slot& slot = entry.producers()[i];
  if (inputs[i].defined()) return !slot.entry && is_number(inputs[i]) ? number(inputs[i]) : given(inputs[i]);
  return again(slot);
}

// Returns the value of a slot as a value of the region: an input if the tape kept it or a view
// computes it, else the result of recorded operations. The recursion is as deep as the run of
// elementwise operations is long.
int FusedBackward::again(const Slot& slot) {
  Entry& entry = *slot.entry;
  if (!entry.op || entry.keeps_outputs) return given(computed_again(handler_, slot));
  if (const auto found = again_.find(&entry); found != again_.end()) return found->second;
  int value = 0;
  if (is_elementwise(entry, shape_)) {
    SmallVector<int, 3> operands;
    for (std::size_t i = 0; i < entry.input_count; ++i) operands.push_back(operand(entry, i));
    const auto* const astype = dynamic_cast<const DtypeAttributes*>(entry.attributes.get());
    const Dtype dtype =
        Region::result_dtype(*entry.op, builder_.dtype(operands.back()), astype ? astype->dtype : bool_);
    value = builder_.add(*entry.op, operands, dtype);
  } else {
    value = given(computed_again(handler_, slot));
  }
  entries_.push_back(slot.entry);
  again_.emplace(&entry, value);
  return value;
}

// ---- performing ---------------------------------------------------------------------------------

// Returns true if a transform differentiates an input of the region.
bool FusedBackward::is_followed() const {
  for (const Tensor& input : inputs_)
    for (const Note* note = input.node().notes; note; note = note->next)
      if (note->live() && note->owner->differentiates && note->owner->running) return true;
  return false;
}

std::vector<Tensor> FusedBackward::values_of(std::span<const Tensor> stand_ins) {
  std::vector<int> outputs;
  std::unordered_map<int, std::size_t> places;
  for (const Tensor& x : stand_ins)
    if (const int value = *notes_.find(x);
        builder_.input_index(value) < 0 && places.emplace(value, outputs.size()).second)
      outputs.push_back(value);
  Outputs found;
  if (!outputs.empty()) {
    if (inputs_.empty()) given(constant(0, float32, shape_, cpu));  // gives the region its shape
    const RegionPtr steps = builder_.region(outputs);
    found = is_followed() && inputs_.size() > few_inputs ? perform_steps(*steps, inputs_) : fused(steps, inputs_);
  }
  std::vector<Tensor> results;
  for (const Tensor& x : stand_ins) {
    const int value = *notes_.find(x), input = builder_.input_index(value);
    results.push_back(input >= 0 ? inputs_[static_cast<std::size_t>(input)] : found[places.at(value)]);
  }
  return results;
}

}  // namespace stave_detail
