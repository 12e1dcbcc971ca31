#include <stave/handlers/transforms/paths.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <string_view>
#include <unordered_map>

#include <stave/core/op/function.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/index.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/transfer.h>
#include <stave/core/tensor/fail.h>
#include <stave/core/tensor/storage.h>
#include <stave/handlers/transforms/answered.h>
#include <stave/handlers/transforms/tape.h>

namespace stave_detail {

namespace {

Tensor tensor_of(std::string_view bytes, Dtype dtype, const Shape& shape) {
  StoragePtr storage = allocate_storage(cpu, dtype, shape, "item");
  if (!bytes.empty()) std::memcpy(storage->data, bytes.data(), bytes.size());
  return Tensor(NodePtr(new Node(dtype, cpu, shape, std::move(storage))));
}

// Returns the number of elements of the largest input of an operation, for one lane.
std::uint64_t work_of(std::span<const Tensor> inputs, const SmallVector<bool, 4>& batched, Index lanes) {
  Index most = 1;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    most = std::max(most, batched[i] && lanes > 0 ? inputs[i].size() / lanes : inputs[i].size());
  return static_cast<std::uint64_t>(most);
}

// Returns groups of rows with equal bits, in the order of their first rows.
std::vector<std::vector<std::size_t>> classes_of(const HostRows& rows, std::size_t count) {
  std::vector<std::vector<std::size_t>> classes;
  // `number` is the number of a class; a number beyond the last class means that
  // the row has none yet.
  const auto add = [&](std::size_t& number, std::size_t row) {
    if (number >= classes.size()) {
      number = classes.size();
      classes.emplace_back();
    }
    classes[number].push_back(row);
  };
  if (rows.bytes() == 1) {
    std::array<std::size_t, 256> number;
    number.fill(~std::size_t{0});
    for (std::size_t i = 0; i < count; ++i) add(number[static_cast<unsigned char>(rows[i][0])], i);
  } else {
    std::unordered_map<std::string_view, std::size_t> number;
    for (std::size_t i = 0; i < count; ++i) add(number.try_emplace(rows[i], ~std::size_t{0}).first->second, i);
  }
  return classes;
}

}  // namespace

// ---- runs ---------------------------------------------------------------------------------------

// The handler that names the lane in error messages while a single lane computes on its own values.
class PathRun::Alone final : public AnyHandler {
 public:
  explicit Alone(const PathRun& run) : AnyHandler(0), run_(run) {}
  void* handling(const EffectType&) override { return nullptr; }
  std::string describe() const override { return run_.describe(); }
  HandlerProperties properties() const noexcept override { return {.only_observes = true}; }

 private:
  const PathRun& run_;
};

PathRun::PathRun(std::shared_ptr<const Vmap> vmap, RowsPtr lanes, Kind what)
    : vmap_(std::move(vmap)), lanes_(what == Kind::vmap ? std::move(lanes) : make_intrusive<const Rows>(*lanes)),
      kind_(what) {}

std::string PathRun::describe() const {
  const Rows& lanes = named_ ? *named_ : path_ ? *path_->lanes : *lanes_;
  const std::string name = vmap_->axis_name.empty() ? "" : fmt::format(" of \"{}\"", vmap_->axis_name);
  if (lanes.size() == vmap_->size) return fmt::format("vmap over {} lanes{}", vmap_->size, name);
  return fmt::format("vmap, {} of {}{}", lanes.str(), vmap_->size, name);
}

PathRun::Results PathRun::operator()(FlatFunction f, std::span<const Tensor> inputs, const std::vector<bool>& batched) {
  std::vector<Argument> arguments;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Argument& argument = arguments.emplace_back();
    if (!batched[i]) {
      argument.same = inputs[i];
      continue;
    }
    argument.shape = lane_shape(inputs[i]);
    argument.label = label_of(inputs[i].node());
    argument.value = make_intrusive<LaneValue>(inputs[i], lanes_);
  }
  aside_.push_back(std::make_unique<LanePath>());
  aside_.back()->lanes = lanes_;
  aside_.back()->alone = is_alone(*lanes_);
  // `around` is null unless this run is inside the function of a higher-order operation.
  PathEffects* const around = stave::perform(FindPathEffects{*vmap_, false});
  const std::size_t answered = around ? around->call_begins() : 0;
  PathEffects* const outermost = stave::perform(FindPathEffects{*vmap_, true});
  first_collective_ = outermost ? outermost->next_collective : 0;
  std::size_t end_collectives = first_collective_;
  std::vector<PathEffects::OfPath> answers;
  std::vector<std::unique_ptr<LanePath>> done;
  std::exception_ptr threw;  // the error of the first path that threw
  while (!aside_.empty()) {
    std::unique_ptr<LanePath> path = std::move(aside_.back());
    aside_.pop_back();
    if (outermost) outermost->next_collective = first_collective_;
    try {
      run(*path, f, arguments);
    } catch (...) {
      // The other paths continue. The PathRun that handles the higher-order operation finds the
      // lanes that threw by running its functions again, with the same answers to effects.
      if (!around || whose_error(std::current_exception(), nullptr) == Whose::of_all) throw;
      if (!threw) threw = std::current_exception();
    }
    if (outermost) end_collectives = std::max(end_collectives, outermost->next_collective);
    if (around) answers.push_back({path->lanes, path->effects->of(*path->lanes)});
    path->effects.reset();
    done.push_back(std::move(path));
  }
  if (outermost) outermost->next_collective = end_collectives;
  if (around) around->call_ends(answered, std::move(before_splits_), std::move(answers));
  if (threw) std::rethrow_exception(threw);
  const std::vector<Sown> sown = take_sown(done);
  Results results = joined(done);
  sow_all(sown, results);
  return results;
}

void PathRun::run(LanePath& path, FlatFunction f, std::span<const Argument> arguments) {
  path_ = &path;
  path.number = paths_++;
  if (!path.alone && !path.log && lanes_->is_own()) {
    path.log = make_intrusive<PathLog>(nullptr, path.lanes);
    path.log->alone_below = alone_below();
  }
  const bool any_known = !path.known_effects.empty();
  path.effects.emplace(PathEffects::Run{*vmap_, *lanes_, id_, *this}, path.lanes, path.alone,
                       std::move(path.known_effects));
  path.effects->collective_results = std::move(path.known_collectives);
  std::vector<Tensor> values;
  for (const Argument& argument : arguments) {
    if (!argument.value) values.push_back(argument.same);
    else if (path.alone && path.replays.empty())
      values.push_back(clone_node(argument.value->of(path.lanes, true, *lanes_)));
    else values.push_back(relabel(vmap_->lane(argument.value, argument.shape), argument.label));
  }
  const auto performed = [&] { return f(values); };
  path.outputs = with(*path.effects, [&] {
    // A single lane that replays no log meets no batched values, so its operations need no handler.
    // The exceptions are values that a higher-order operation's function captured, answers to
    // effects from before the lane was alone, collectives over a named axis, and sown values that a
    // handler gathers.
    if (path.alone && path.replays.empty() && kind_ == Kind::vmap && !any_known && vmap_->axis_name.empty() &&
        !may_be_answered(effect_type<Sowing>()))
      return with(Alone(*this), performed);
    return with(*this, performed);
  });
  if (path.replaying()) fail_other_way("nothing more", "more");
  path.log = nullptr;
  path.alive.clear();
  path.kept.clear();
}

Path PathRun::handle(WhichPath&) {
  Path path = perform(WhichPath{});
  path.push_back({id_, path_->number, kind_ != Kind::vmap});
  return path;
}

// ---- operations ---------------------------------------------------------------------------------

Outputs PathRun::handle(Call& call) {
  LanePath& path = *path_;
  if (&call.op() == &op_sow && is_joined(call)) [[unlikely]]
    return sown(call);
  if (!vmap_->axis_name.empty() && answers(call)) return collective(call);
  if (path.replaying()) [[unlikely]]
    return replayed(call);
  return perform_or_split(call);
}

Outputs PathRun::perform_or_split(Call& call) {
  LanePath& path = *path_;
  const bool carries = call.op().is_higher_order;
  PathLog::Given given;
  std::exception_ptr threw;
  std::optional<PathEffects::Mark> mark;
  if (carries) {
    // The log does not contain the operations of the functions that this call carries. The program
    // may continue while these functions are suspended, so the path writes no log from here on.
    path.log = nullptr;
    mark = path.effects->mark();
  }
  try {
    return carries ? handle_higher_order(call) : performed(call, given);
  } catch (const std::bad_alloc&) {
    path.log = nullptr;  // the log may be incomplete
    throw;
  } catch (...) {
    threw = std::current_exception();
  }
  if (has_given_up(call)) fail_all(call, std::move(given), std::move(threw));
  return split_by_error(call, std::move(given), std::move(threw), mark);
}

Outputs PathRun::performed(Call& call, PathLog::Given& given) {
  LanePath& path = *path_;
  const Op& op = call.op();
  SmallVector<const Lanes*, 4> found;
  bool any = false;
  if (path.log) given.attributes = call.attributes_ptr();
  for (const Tensor& input : call.inputs()) {
    const Lanes* const lanes = vmap_->notes.find(input);
    any |= lanes != nullptr;
    if (path.log) given.add(found.size(), input, lanes);
    found.push_back(lanes);
  }
  if (!any) {
    Outputs outputs = perform(std::move(call));
    path.note(op, static_cast<LaneValue*>(nullptr), std::move(given));
    return outputs;
  }
  Inputs inputs;
  SmallVector<bool, 4> batched;
  for (std::size_t i = 0; i < found.size(); ++i) {
    inputs.push_back(found[i] ? rows_of(*found[i], path) : call.inputs()[i]);
    batched.push_back(found[i] != nullptr);
  }
  // The lane's value was computed before the path was left with one lane, and `inputs` now holds it
  // without the axis of lanes.
  if (path.alone) return perform(call.with_inputs(std::move(inputs)));
  if (!op.batch)
    fail<TransformError>("vmap: the operation {} has no batching rule: give it one, or compute it outside of vmap",
                         op.name);
  const Index size = path.lanes->size();
  if (path.log) path.log->work += work_of(inputs, batched, size);
  const BatchContext context{call, inputs, batched, size};
  Outputs outputs = writes_over_inputs(op) ? elementwise(call, context, found, inputs) : op.batch(context);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Abstract& lane = call.abstract_outputs()[i];
    const Tensor& output = outputs[i];
    if (!has_lanes_of(output, lane) || output.shape()[0] != size)
      fail<TransformError>("the batching rule of {} gave {} {} for {} lanes of {} {}", op.name, output.dtype(),
                           output.shape(), size, lane.dtype, lane.shape);
    auto value = make_intrusive<LaneValue>(std::move(outputs[i]), path.lanes);
    path.note(op, value.get(), i == 0 ? std::move(given) : PathLog::Given());
    outputs[i] = vmap_->lane(std::move(value), lane.shape);
  }
  return outputs;
}

// Returns true for operations whose output may take the memory of an input.
bool PathRun::writes_over_inputs(const Op& op) {
  return op.batch == batch_elementwise && op.elementwise && is_undisturbed() && answered_outside == 0;
}

// Performs an elementwise operation. A lanes' value that only this call has is given up, so that
// the output may take its memory, and the call's input becomes empty. If the operation throws, the
// call gets the values back, but for those that an outer handler has taken.
Outputs PathRun::elementwise(Call& call, const BatchContext& c, std::span<const Lanes* const> found, Inputs& inputs) {
  SmallVector<LaneValue*, 4> given_up(inputs.size(), nullptr);
  try {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      inputs[i] = c.batched_in(i);
      LaneValue* const value = found[i] ? found[i]->value.get() : nullptr;
      if (!value || !call.owns(i) || !call.inputs()[i].node_ptr().unique() || !value->is_in_one_note(inputs[i]))
        continue;
      value->give_up();
      given_up[i] = value;
    }
    Outputs outputs = apply_elementwise(call.op(), inputs);
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (given_up[i]) call.mutable_inputs()[i] = Tensor();
    return outputs;
  } catch (...) {
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (given_up[i]) given_up[i]->batched = std::move(inputs[i]);
    throw;
  }
}

// Returns true if a call that threw has given up a value. Only the library's handlers performed it,
// which throw the same for every lane.
bool PathRun::has_given_up(const Call& call) const {
  return std::ranges::any_of(call.inputs(), [&](const Tensor& input) {
    const Lanes* const lanes = vmap_->notes.find(input);
    return lanes && lanes->value->is_given_up();
  });
}

// ---- reads --------------------------------------------------------------------------------------

Tensor PathRun::handle(ReadStorage& read) {
  const Lanes* const lanes = vmap_->notes.find(read.value);
  if (!lanes) return perform(ReadStorage(read));
  LanePath& path = *path_;
  const LaneValuePtr value = lanes->value;
  Tensor answer = path.replaying() ? replayed_read(value)
                  : path.alone     ? read_value(rows_of(*lanes, path))
                                   : this->read(*lanes, read.value);
  if (!read.keep_alive) return answer;
  UnderFrame past_all_handlers(nullptr);
  path.kept.push_back(contiguous(view_of(answer)));
  return path.kept.back();
}

// Reads a value. An error of the read, such as one that a device found earlier,
// belongs to every lane.
Tensor PathRun::read(const Lanes& read, const Tensor& x) {
  LanePath& path = *path_;
  const PathLog* const log = path.log.get();
  try {
    return divided(read, x);
  } catch (const std::bad_alloc&) {
    path.log = nullptr;
    throw;
  } catch (...) {
    PathLog::Event event = event_of_read(read.value, {});
    event.threw = std::current_exception();
    if (path.log.get() == log) path.note(std::move(event));
    throw;
  }
}

// Splits the lanes by the value that is read, and returns the value of the lanes
// with which the path continues.
Tensor PathRun::divided(const Lanes& read, const Tensor& x) {
  LanePath& path = *path_;
  const LaneValuePtr value = read.value;
  const auto count = static_cast<std::size_t>(path.lanes->size());
  if (count == 0)
    fail<TransformError>("vmap: a value ({} {}) is read on the host, but there are no lanes", x.dtype(), x.shape());
  const HostRows rows(rows_of(read, path), path.lanes->size());
  const auto answer = [&](std::size_t row) { return tensor_of(rows[row], x.dtype(), x.shape()); };
  Tensor first = answer(0);
  if (rows.agree()) {
    path.note(event_of_read(value, first));
    return first;
  }
  if (kind_ == Kind::undivided_call)
    fail<TransformError>(
        "vmap: lanes split at a value ({} {}) inside a checkpoint with a policy, and the saved values would differ "
        "between the paths: use checkpoint without a policy, or where instead of if",
        x.dtype(), x.shape());
  std::vector<Part> parts;
  for (const std::vector<std::size_t>& of : classes_of(rows, count)) {
    Part& part = parts.emplace_back();
    for (const std::size_t row : of) part.lanes.push_back(path.lanes->lane(static_cast<Index>(row)));
    part.event = event_of_read(value, parts.size() == 1 ? first : answer(of[0]));
  }
  split(std::move(parts));
  return first;
}

// Splits the running path. The first part continues at once; the others are set aside.
void PathRun::split(std::vector<Part> parts) {
  LanePath& path = *path_;
  if (kind_ != Kind::vmap) before_splits_.push_back({path.lanes, path.effects->of(*path.lanes)});
  path.pin();
  const PathLogPtr log = path.log;
  // Single lanes for which a replay saves no work run from the start on their real values, without
  // a check against the log. As an exception, some of the lanes that run next, and the last one,
  // are checked: these runs detect state that the function changes outside of itself.
  const bool checks_next = splits_ < 4 || std::has_single_bit(static_cast<unsigned>(splits_));
  ++splits_;
  std::vector<std::unique_ptr<LanePath>> others;
  for (std::size_t i = parts.size(); i-- > 1;)
    others.push_back(new_path(std::move(parts[i]), (i == 1 && checks_next) || (aside_.empty() && others.empty())));
  RowsPtr own = make_intrusive<const Rows>(std::move(parts[0].lanes));
  PathLogPtr own_log = log && !is_alone(*own) ? make_intrusive<PathLog>(log, own) : nullptr;
  if (own_log && parts[0].event) {
    own_log->steps.push_back({nullptr, nullptr, PathLog::untouched, parts[0].event->given});
    own_log->events.push_back(std::move(*parts[0].event));
  }
  aside_.reserve(aside_.size() + others.size());
  // No statement throws from here on: either all lanes continue, or none has split.
  for (auto& other : others) aside_.push_back(std::move(other));
  path.kept_alive.clear();
  path.alone = is_alone(*own);
  times_alone_ += path.alone;
  path.lanes = std::move(own);
  path.log = std::move(own_log);
}

// The recorder may discard the steps of the loop, or record them in another way when the lanes run
// again. So the path writes no log from here on, and rows are not cached inside the loop.
Index PathRun::handle(RecordLoop& loop) {
  path_->log = nullptr;
  struct Restore {
    bool& keeps_rows;
    const bool before = std::exchange(keeps_rows, false);
    ~Restore() { keeps_rows = before; }
  } restore{keeps_rows_};
  return stave::perform(loop);
}

// Returns a number that changes when a path of an outer vmap is left with one lane. That lane then
// computes on its own values without the axis of lanes. Their layouts differ, so an operation on
// them may perform other operations, and a log from before does not match them.
int PathRun::alone_below() noexcept {
  int times = 0;
  stave::perform(VisitRuns{[&](const PathRun& below) { times += below.times_alone_; }});
  return times;
}

// Returns true if a path of an outer vmap threw this error in a replay, at an operation that
// succeeded in the first run. Then a handler outside of that vmap threw the error. Performing the
// operation again for some of the lanes would not repeat the operations of that path.
bool PathRun::throws_anew_below(const std::exception_ptr& threw) noexcept {
  bool throws = false;
  stave::perform(VisitRuns{[&](const PathRun& below) { throws |= below.threw_anew_ == threw; }});
  return throws;
}

std::unique_ptr<PathRun::LanePath> PathRun::new_path(Part part, bool checks) const {
  const LanePath& path = *path_;
  auto other = std::make_unique<LanePath>();
  other->lanes = make_intrusive<const Rows>(std::move(part.lanes));
  other->alone = is_alone(*other->lanes);
  other->known_effects = path.effects->of(*other->lanes);
  if (part.answer.has_value()) other->known_effects.push_back(std::move(part.answer));
  other->known_errors = path.errors + (part.threw != nullptr);
  other->known_collectives = path.effects->collective_results;
  if (!path.log || (other->alone && !path.log->saves_work() && !checks)) return other;
  if (path.log->alone_below != alone_below()) return other;
  other->log = make_intrusive<PathLog>(path.log, other->lanes);
  if (part.event) {
    other->note(std::move(*part.event));
    if (!other->log) return other;
  }
  for (PathLogPtr segment = part.event ? other->log : path.log; segment; segment = segment->before)
    other->replays.push_back(segment);
  std::reverse(other->replays.begin(), other->replays.end());
  other->kept_alive = path.kept_alive;
  other->alive = path.alive;
  if (other->alone) other->log = nullptr;  // a single lane does not split
  return other;
}

// ---- results ------------------------------------------------------------------------------------

// Returns an output of a path with its lanes as axis 0, for joining it with the outputs of other
// paths.
Tensor PathRun::part_of(const LanePath& path, const Tensor& output) const {
  const Lanes* const lanes = vmap_->notes.find(output);
  if (path.alone) return expand_dims(lanes ? rows_of(*lanes, path) : output, 0);
  return lanes ? rows_of(*lanes, path) : broadcast_lanes(output, path.lanes->size());
}

Tensor PathRun::rows_of(const Lanes& lanes, const LanePath& path) const {
  return lanes.value->of(path.lanes, path.alone, *lanes_, keeps_rows_);
}

PathRun::Results PathRun::joined(std::span<const std::unique_ptr<LanePath>> done) const {
  Results results;
  results.divided = done.size() > 1;
  const auto& notes = vmap_->notes;
  if (!results.divided) {  // one path: the outputs are used as they are
    const LanePath& path = *done[0];
    for (const Tensor& output : path.outputs) {
      const Lanes* const lanes = notes.find(output);  // null also for an undefined output
      results.outputs.push_back(lanes ? rows_of(*lanes, path) : output);
      results.batched.push_back(lanes && !path.alone);
    }
    return results;
  }
  std::vector<const LanePath*> paths;
  for (const auto& path : done) paths.push_back(path.get());
  std::sort(paths.begin(), paths.end(), [](auto* a, auto* b) { return a->lanes->lane(0) < b->lanes->lane(0); });
  std::vector<std::int32_t> places(static_cast<std::size_t>(lanes_->size()));
  std::int32_t place = 0;
  for (const LanePath* path : paths)
    for (Index row = 0; row < path->lanes->size(); ++row)
      places[static_cast<std::size_t>(lanes_->row_of(path->lanes->lane(row)))] = place++;
  Tensor indices;  // undefined: the lanes are in order
  if (!std::is_sorted(places.begin(), places.end())) {
    UnderFrame past_all_handlers(nullptr);
    indices = from(places, {lanes_->size(), 1});
  }
  const Outputs& first = paths[0]->outputs;
  for (const LanePath* path : paths)
    if (path->outputs.size() != first.size())
      fail<ShapeError>("vmap: the function returned {} tensors in {}, and {} in {}", first.size(),
                       paths[0]->lanes->str(), path->outputs.size(), path->lanes->str());
  for (std::size_t i = 0; i < first.size(); ++i) {
    const LanePath* like = nullptr;
    bool same = !notes.find(first[i]);
    for (const LanePath* path : paths) {
      const Tensor& output = path->outputs[i];
      same &= output.node_ptr() == first[i].node_ptr();
      if (!output.defined()) continue;
      if (!like) like = path;
      const Tensor& other = like->outputs[i];
      if (output.shape() != other.shape() || output.dtype() != other.dtype())
        fail<ShapeError>("vmap: result {} is {} {} in {}, and {} {} in {}", i, other.dtype(), other.shape(),
                         like->lanes->str(), output.dtype(), output.shape(), path->lanes->str());
    }
    results.batched.push_back(!same);
    if (same) {
      results.outputs.push_back(first[i]);
      continue;
    }
    std::vector<Tensor> parts;
    for (const LanePath* path : paths) {
      const Tensor& output = path->outputs[i];
      parts.push_back(part_of(*path, output.defined() ? output : zeros_like(like->outputs[i])));
    }
    Tensor all = concat(parts, 0);
    if (indices.defined()) all = gather(all, all.device() == cpu ? indices : to(indices, all.device()));
    results.outputs.push_back(std::move(all));
  }
  return results;
}

}  // namespace stave_detail
