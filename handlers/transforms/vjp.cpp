// The backward pass: a walk over the tape (tape.h) from the outputs' entries back,
// the last recorded entry first. It is a loop over a queue, so long programs need heap, not stack.
// The queue and its cotangents belong to the pass, so several passes over one tape may run at once.
// Values that the tape dropped are computed again; where a run of elementwise operations reads
// them, its rules and this recomputation are fused (fused_backward.h).

#include <stave/handlers/transforms/vjp_flat.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <optional>

#include <stave/core/effects/scope.h>
#include <stave/core/op/cotangent_sums.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/tensor/fail.h>
#include <stave/handlers/transforms/fused_backward.h>
#include <stave/handlers/transforms/linear_in.h>
#include <stave/handlers/transforms/slice_cotangents.h>
#include <stave/handlers/transforms/tape.h>

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

struct FlatPullback::Record : RefCounted {
  Record(const char* transform, Recompute recompute) : handler(transform, recompute) {}

  GradHandler handler;
  std::vector<Abstract> input_abstracts;
  std::vector<Device> input_devices;
  std::vector<Slot> outputs;  // empty slots for outputs that depend on no input
  std::vector<Abstract> output_abstracts;
  std::vector<Device> output_devices;
  NamePtr backward;  // the name of the backward pass's scope
};

FlatPullback::FlatPullback() noexcept = default;
FlatPullback::FlatPullback(const FlatPullback& other) noexcept = default;
FlatPullback::FlatPullback(FlatPullback&& other) noexcept = default;
FlatPullback& FlatPullback::operator=(FlatPullback other) noexcept {
  std::swap(record_, other.record_);
  return *this;
}
FlatPullback::~FlatPullback() = default;

namespace {

// The queue of the pass: the entries that have received cotangents, in the order of recording,
// and these cotangents. It is stored in pages, because few entries wait at a time.
class Waiting {
 public:
  struct Place {
    Entry* entry = nullptr;
    EntryPtr kept;  // the entry, if the queue may be its only owner
    SmallVector<Tensor, 1> cotangents;
    // Cotangents of slices of output i. If there are any, cotangents[i] is undefined.
    std::vector<SliceCotangents> of_slices;

    void join_slices() {
      for (std::size_t i = 0; i < of_slices.size(); ++i) join_slices(i);
    }
    void join_slices(std::size_t output) {
      if (output < of_slices.size() && !of_slices[output].empty()) cotangents[output] = of_slices[output].take();
    }
  };

  Place& place_of(Entry& entry) {
    const std::size_t page = entry.sequence / page_size, i = entry.sequence % page_size;
    if (page >= pages_.size()) pages_.resize(page + 1);
    if (!pages_[page]) pages_[page] = std::make_unique<Page>();
    pages_[page]->taken |= std::uint64_t{1} << i;
    pages_[page]->places[i].entry = &entry;
    return pages_[page]->places[i];
  }
  /// Returns null if the entry has received no cotangents.
  Place* find(const Entry& entry) {
    const std::size_t page = entry.sequence / page_size, i = entry.sequence % page_size;
    const bool waits = page < pages_.size() && pages_[page] && pages_[page]->taken >> i & 1;
    return waits ? &pages_[page]->places[i] : nullptr;
  }
  bool empty() {
    while (!pages_.empty() && (!pages_.back() || !pages_.back()->taken)) pages_.pop_back();
    return pages_.empty();
  }
  /// Returns the number of the last recorded entry; the queue must not be empty.
  std::uint64_t last() const {
    return (pages_.size() - 1) * page_size + static_cast<std::uint64_t>(std::bit_width(pages_.back()->taken)) - 1;
  }
  /// Removes and returns the last recorded entry; the queue must not be empty. The reference stays
  /// valid until the next call of a member other than place_of.
  Place& take_last() {
    Page& page = *pages_.back();
    const auto i = static_cast<std::size_t>(std::bit_width(page.taken) - 1);
    page.taken &= ~(std::uint64_t{1} << i);
    return page.places[i];
  }
  template <class F>
  void for_each(F f) {
    for (const auto& page : pages_)
      for (std::uint64_t left = page ? page->taken : 0; left; left &= left - 1) f(page->places[std::countr_zero(left)]);
  }

 private:
  static constexpr std::size_t page_size = 64;
  struct Page {
    std::uint64_t taken = 0;
    Place places[page_size];
  };
  std::vector<std::unique_ptr<Page>> pages_;
};

// One walk back over the tape.
class BackwardPass {
 public:
  BackwardPass(FlatPullback::Record& record, bool consume, BackwardScope& scope)
      : record_(record), consume_(consume), scope_(scope) {}

  std::vector<Tensor> run(std::span<const Tensor> cotangents) {
    for (std::size_t i = 0; i < cotangents.size(); ++i)
      if (cotangents[i].defined()) add_cotangent(record_.outputs[i], cotangents[i]);
    if (consume_) record_.outputs.clear();
    std::vector<Tensor> result(record_.input_abstracts.size());  // inputs were the first entries
    while (continue_concats(), !waiting_.empty()) {
      Waiting::Place& last = waiting_.take_last();
      keeps_ = static_cast<bool>(last.kept);
      scope_.entry = last.entry->op ? &*last.entry : nullptr;
      last.join_slices();
      if (fused_ && !fused_->takes(*last.entry)) flush_fused(&last);
      if (is_long_loop(*last.entry)) {
        begin_concat(last);
      } else {
        if (last.entry->op) step(*last.entry, last.cotangents);
        else result[last.entry->sequence] = last.cotangents[0];
        free_values(*last.entry, last.kept);
      }
      last.cotangents.clear();
      scope_.entry = nullptr;
      last.kept = nullptr;
    }
    for (std::size_t i = 0; i < result.size(); ++i) {
      const Abstract& input = record_.input_abstracts[i];
      if (!result[i].defined()) result[i] = zeros(input.shape, input.dtype, record_.input_devices[i]);
    }
    return result;
  }

 private:
  // An entry that something else keeps alive lives on without its saved values.
  void free_values(Entry& entry, const EntryPtr& kept) const {
    if (consume_ && !kept.unique()) entry.clear();
  }

  // A concat of many inputs, such as the rows of a long loop. The cotangent of an input is computed
  // when it is soon to be processed, so that few cotangents wait, and those are in the cache.
  struct LongConcat {
    Entry* entry;
    EntryPtr kept;  // the entry, if the pass may be its only owner
    SmallVector<Tensor, 1> cotangents;
    SmallVector<Abstract, 2> abstracts;
    std::vector<std::uint32_t> left;  // inputs, that of the last recorded producer last
    // The cotangent is added before those of the producer's consumers up to this distance, which
    // are two steps of a loop. So it is the first of the sum, as in a loop that is recorded.
    std::uint64_t ahead = 64;
    Outputs cache = {};
  };
  // Few concats wait at a time, since each keeps its cotangent.
  static constexpr std::size_t most_concats = 4;
  // Returns true for a concat of values that were computed one after the other up to here, by many
  // operations.
  bool is_long_loop(Entry& entry) const {
    if (entry.op != &op_concat || entry.input_count <= 32 || concats_.size() == most_concats) return false;
    std::uint64_t first = entry.sequence, last = 0;
    for (const Slot& producer : entry.producers()) {
      if (!producer.entry) continue;
      first = std::min(first, producer.entry->sequence);
      last = std::max(last, producer.entry->sequence);
    }
    constexpr std::uint64_t many = 1024;
    return last > first + many && entry.sequence < last + many;
  }

  void begin_concat(Waiting::Place& place) {
    LongConcat concat{place.entry, place.kept, std::move(place.cotangents), place.entry->input_abstracts(), {}};
    const std::span<const Slot> producers = place.entry->producers();
    for (std::uint32_t i = 0; i < producers.size(); ++i)
      if (producers[i].entry) concat.left.push_back(i);
    const auto sequence = [&](std::uint32_t i) { return producers[i].entry->sequence; };
    std::ranges::stable_sort(concat.left, {}, sequence);
    for (std::size_t k = 1; k < concat.left.size(); ++k)
      concat.ahead = std::max(concat.ahead, 2 * (sequence(concat.left[k]) - sequence(concat.left[k - 1])));
    concats_.push_back(std::move(concat));
  }
  // Adds the cotangents of long concats to those entries that come next.
  void continue_concats() {
    for (LongConcat& concat : concats_)
      while (!concat.left.empty() && is_next(concat)) concat_step(concat);
    std::erase_if(concats_, [&](const LongConcat& concat) {
      if (concat.left.empty()) free_values(*concat.entry, concat.kept);
      return concat.left.empty();
    });
  }
  bool is_next(const LongConcat& concat) {
    const Entry& producer = *concat.entry->producers()[concat.left.back()].entry;
    return waiting_.empty() || producer.sequence + concat.ahead >= waiting_.last();
  }
  void concat_step(LongConcat& concat) {
    if (fused_) flush_fused();
    Entry& entry = *concat.entry;
    scope_.entry = &entry;
    const ReenteredScopes scopes(entry.scopes.get());
    keeps_ = static_cast<bool>(concat.kept);
    const std::uint32_t i = concat.left.back();
    concat.left.pop_back();
    if (!concat.left.empty()) __builtin_prefetch(entry.producers()[concat.left.back()].entry.get());
    const VjpContext context{*entry.op,        entry.attributes.get(), entry.inputs(), entry.outputs(),
                             concat.abstracts, concat.cotangents,      &concat.cache};
    add_cotangent(entry.producers()[i], rule(context, i));
    scope_.entry = nullptr;
  }

  // Performs the rules of an entry. Every consumer of the entry was recorded later and has been
  // processed, so its cotangents are complete.
  void step(Entry& entry, const SmallVector<Tensor, 1>& cotangents) {
    // The functions of a higher-order operation have scopes of their own.
    const ReenteredScopes scopes(entry.op->is_higher_order ? nullptr : entry.scopes.get());
    if (!fused_ && entry.dropped && entry.joins_regions && is_undisturbed()) {
      fused_.emplace(record_.handler, entry.input_abstracts()[0].shape);
      if (!fused_->takes(entry)) fused_.reset();
    }
    if (fused_) fused_step(entry, cotangents);
    else if (!entry.op->is_higher_order) ordinary_step(entry, cotangents);
    else if (rematerializes(entry)) step_again(entry, cotangents);
    else custom_step(entry, cotangents);
  }

  void ordinary_step(Entry& entry, const SmallVector<Tensor, 1>& cotangents) {
    if (!entry.op->vjp)
      fail<TransformError>("{}: the operation {} has no VJP rule: give it one, or cut it off with stop_gradient",
                           record_.handler.describe(), entry.op->name);
    for (const Slot& producer : entry.producers())
      __builtin_prefetch(producer.entry.get());  // a long tape is not in the cache
    const SmallVector<Abstract, 2> abstracts = entry.input_abstracts();
    Inputs complete;  // all inputs, if some were dropped
    if (entry.dropped) {
      for (std::size_t i = 0; i < entry.input_count; ++i)
        complete.push_back(entry.drops(i) ? computed_again(record_.handler, entry.producers()[i]) : entry.inputs()[i]);
    }
    Outputs cache;
    const std::span<const Tensor> inputs = entry.dropped ? std::span<const Tensor>(complete) : entry.inputs();
    const VjpContext context{*entry.op, entry.attributes.get(), inputs, entry.outputs(), abstracts, cotangents, &cache};
    if (entry.op->id == OpId::own)
      if (const auto* const adds = dynamic_cast<const AddsToCotangents*>(entry.attributes.get()))
        return adding_step(entry, *adds, context);
    for (std::size_t i = 0; i < abstracts.size(); ++i) {
      Slot& producer = entry.producers()[i];
      if (!producer.entry) continue;
      if (entry.op == &op_slice && adds_slice(producer, context)) continue;
      Tensor sum = i == 0 && entry.op->vjp_onto ? take_cotangent(producer) : Tensor();
      add_cotangent(producer, sum.defined() ? rule_onto(context, std::move(sum)) : rule(context, i));
    }
  }

  // Performs a rule that itself adds its cotangents to the sums so far (AddsToCotangents).
  void adding_step(Entry& entry, const AddsToCotangents& adds, const VjpContext& context) {
    const std::span<Slot> producers = entry.producers();
    AddsToCotangents::Sums sums;
    for (std::size_t i = 0; i < producers.size(); ++i) {
      std::size_t first = 0;
      while (producers[first].entry != producers[i].entry || producers[first].output != producers[i].output) ++first;
      sums.same_as.push_back(producers[i].entry ? first : i);
      sums.so_far.push_back(take_cotangent(producers[i]));
    }
    std::vector<Tensor> found = adds.pull_back(context, sums);
    for (std::size_t i = 0; i < producers.size(); ++i) {
      if (!producers[i].entry || !found[i].defined()) continue;
      check(*entry.op, found[i], context.input_abstracts[i], i);
      add_cotangent(producers[i], std::move(found[i]));
    }
  }

  // Adds the cotangent of a slice to those of other slices of the same value. Returns false if the
  // slice overlaps with one of these, or if a cotangent of all of the value is known.
  bool adds_slice(Slot& producer, const VjpContext& context) {
    Waiting::Place& place = place_of(producer);
    const auto output = static_cast<std::size_t>(producer.output);
    if (place.cotangents[output].defined()) return false;
    if (place.of_slices.size() <= output) place.of_slices.resize(output + 1);
    if (!place.of_slices[output].add(context.as<SliceAttributes>(), context.shape(0), context.ct())) return false;
    keep(place, producer);
    return true;
  }

  // Records the rules of an entry into the fused region, on placeholders for elements.
  void fused_step(Entry& entry, const SmallVector<Tensor, 1>& cotangents) {
    for (const Slot& producer : entry.producers())
      if (Waiting::Place* const place = producer.entry ? waiting_.find(*producer.entry) : nullptr) place->join_slices();
    with(*fused_, [&] {
      Inputs inputs, outputs;
      for (std::size_t i = 0; i < entry.input_count; ++i) inputs.push_back(fused_->input(entry, i));
      for (std::size_t i = 0; i < entry.outputs().size(); ++i) outputs.push_back(fused_->output(entry, i));
      SmallVector<Abstract, 2> elements = entry.input_abstracts();
      for (Abstract& element : elements) element.shape = Shape();
      const Tensor cotangent = fused_->add_operand(cotangents[0]);
      Outputs cache;
      const VjpContext context{*entry.op, entry.attributes.get(), inputs, outputs, elements, {&cotangent, 1}, &cache};
      for (std::size_t i = 0; i < elements.size(); ++i)
        if (entry.producers()[i].entry) add_cotangent(entry.producers()[i], fused_->add_operand(rule(context, i)));
    });
    fused_->count_step();
  }

  // Performs the fused region, and replaces the placeholders in the queue by their cotangents.
  void flush_fused(Waiting::Place* last = nullptr) {
    std::vector<Tensor*> places;
    const auto collect = [&](Waiting::Place& place) {
      for (Tensor& cotangent : place.cotangents)
        if (fused_->stands_in(cotangent)) places.push_back(&cotangent);
    };
    if (last) collect(*last);
    waiting_.for_each(collect);
    std::vector<Tensor> stand_ins;
    for (const Tensor* place : places) stand_ins.push_back(*place);
    const std::vector<Tensor> values = fused_->values_of(stand_ins);
    for (std::size_t i = 0; i < places.size(); ++i) *places[i] = values[i];
    fused_.reset();
  }

  // Processes a checkpoint: runs its function again with recording, and continues with the new
  // entries, which are the last recorded.
  void step_again(Entry& entry, const SmallVector<Tensor, 1>& cotangents) {
    const Recorded again = run_again(entry);
    for (std::size_t i = 0; i < cotangents.size(); ++i) {
      const Slot* found = again.recorder->find(again.outputs[i]);
      again.recorder->check_recorded(found);
      if (!found || !cotangents[i].defined()) continue;
      keeps_ = true;
      Slot slot = *found;
      add_cotangent(slot, cotangents[i]);
    }
  }

  void custom_step(Entry& entry, const SmallVector<Tensor, 1>& cotangents) {
    const Outputs found = custom_cotangents(entry, cotangents, consume_);
    for (std::size_t i = 0; i < found.size(); ++i)
      if (found[i].defined()) add_cotangent(entry.producers()[i], found[i]);
  }

  static void check(const Op& op, const Tensor& cotangent, const Abstract& input, std::size_t i) {
    if (cotangent.shape() != input.shape || cotangent.dtype() != input.dtype)
      fail<TransformError>("the VJP rule of {} gave a cotangent {} {} for input {}, which is {} {}", op.name,
                           cotangent.dtype(), cotangent.shape(), i, input.dtype, input.shape);
  }

  Tensor rule(const VjpContext& context, std::size_t i) const {
    if (lacks_derivative_by(context.op, i)) fail_not_linear(record_.handler.describe(), context.op, i);
    Tensor cotangent = context.op.vjp(context, static_cast<int>(i));
    check(context.op, cotangent, context.input_abstracts[i], i);
    return cotangent;
  }

  Tensor rule_onto(const VjpContext& context, Tensor sum) const {
    if (lacks_derivative_by(context.op, 0)) fail_not_linear(record_.handler.describe(), context.op, 0);
    sum = context.op.vjp_onto(context, std::move(sum));
    check(context.op, sum, context.input_abstracts[0], 0);
    return sum;
  }

  // Removes and returns the sum of cotangents so far; undefined: there is none.
  Tensor take_cotangent(const Slot& slot) {
    Waiting::Place* const place = slot.entry ? waiting_.find(*slot.entry) : nullptr;
    const auto output = static_cast<std::size_t>(slot.output);
    if (place) place->join_slices(output);
    return place && output < place->cotangents.size() ? std::move(place->cotangents[output]) : Tensor();
  }

  void add_cotangent(Slot& slot, Tensor cotangent) {
    if (!slot.entry) return;
    Waiting::Place& place = place_of(slot);
    const auto output = static_cast<std::size_t>(slot.output);
    place.join_slices(output);
    Tensor& sum = place.cotangents[output];
    if (fused_ && !sum.defined()) fused_->count_result(*slot.entry);
    else if (fused_) sum = fused_->add_operand(sum);
    sum = add_tangents(std::move(sum), std::move(cotangent));
    keep(place, slot);
  }

  // Returns the place of a slot's entry, which must exist, with cotangents for all of its outputs.
  Waiting::Place& place_of(const Slot& slot) {
    Entry& entry = *slot.entry;
    Waiting::Place& place = waiting_.place_of(entry);
    const auto output = static_cast<std::size_t>(slot.output);
    if (place.cotangents.size() <= output) {
      const std::size_t count = entry.carried ? entry.carried->abstracts.size() : entry.output_count;
      while (place.cotangents.size() < std::max<std::size_t>(output + 1, count)) place.cotangents.emplace_back();
    }
    return place;
  }

  void keep(Waiting::Place& place, Slot& slot) const {
    if (consume_) place.kept = std::move(slot.entry);
    else if (keeps_) place.kept = slot.entry;
  }

  FlatPullback::Record& record_;
  const bool consume_;  // whether the tape's saved values may be freed
  BackwardScope& scope_;
  // True if the pass may be the only owner of the current entry, and so of its producers.
  bool keeps_ = false;
  Waiting waiting_;
  std::vector<LongConcat> concats_;     // whose cotangents are not all computed
  std::optional<FusedBackward> fused_;  // set while rules are recorded into it
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
  BackwardScope backward(record.backward, record.handler.tape());
  return with(backward, [&] { return BackwardPass(record, consume, backward).run(cotangents); });
}

}  // namespace

std::vector<Tensor> FlatPullback::operator()(std::span<const Tensor> cotangents) const {
  const IntrusivePtr<Record> alive = record_;
  return run_backward(*alive, cotangents, false);
}

std::vector<Tensor> FlatPullback::consume(std::span<const Tensor> cotangents) {
  const IntrusivePtr<Record> last = std::move(record_);
  if (!last.unique()) return run_backward(*last, cotangents, false);
  NotesState& owner = last->handler.notes.owner();
  // The notes of the handler end in this call, and so on this thread.
  if (owner.thread == id_of_this_thread()) owner.ends_on_this_thread = true;
  return run_backward(*last, cotangents, true);
}

FlatVjp vjp_flat(FlatFunction f, std::span<const Tensor> primals, const char* transform, InputNames names,
                 GradOptions options, bool primals_stay) {
  auto record = make_intrusive<FlatPullback::Record>(transform, options.recompute);
  GradHandler& handler = record->handler;
  record->backward = make_intrusive<const SharedName>(std::string("backward of ") + transform, true);
  std::vector<Tensor> inputs;
  handler.rematerialization.set_primals(primals, primals_stay);
  for (std::size_t i = 0; i < primals.size(); ++i) {
    const Tensor& primal = primals[i];
    if (!is_inexact(primal.dtype()))
      fail<DtypeError>(
          "{}: {} is {} {}, which has no derivative: make it a floating tensor (write 1. instead of 1, or "
          "astype(x, float32)), or capture it in the function instead of differentiating with respect to it",
          transform, names(i), primal.dtype(), primal.shape());
    if (options.holomorphic && !is_complex(primal.dtype()))
      fail<DtypeError>("{}: .holomorphic is set, but {} is {}: convert it with astype to a complex dtype", transform,
                       names(i), primal.dtype());
    record->input_abstracts.push_back({primal.shape(), primal.dtype()});
    record->input_devices.push_back(primal.device());
    inputs.push_back(handler.notes.put(clone_node(primal), Slot{handler.entry_of_input(), 0}));
  }
  Outputs outputs = handler.run([&] { return f(inputs); });
  handler.rematerialization.release_primals();
  check_results(outputs, transform);
  for (Tensor& output : outputs) {
    const Slot* slot = handler.notes.find(output);
    handler.check_recorded(slot);
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
