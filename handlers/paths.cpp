#include <stave/handlers/paths.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string_view>
#include <unordered_map>

#include <stave/core/fail.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/function.h>
#include <stave/core/ops/index.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/transfer.h>
#include <stave/core/storage.h>
#include <stave/handlers/answered.h>

namespace stave_detail {

namespace {

// Steps of a log. A path that performs more is run again in full for lanes that part from it.
constexpr std::size_t longest_log = std::size_t{1} << 18;

// What a read is of, the same each time that the function runs: not the label that it gives anew.
PathLog::Event event_of_read(const LaneValuePtr& value, Tensor answer) {
  const LaneValue* found = value.get();
  while (found->unlabelled) found = found->unlabelled.get();
  return {found->log ? static_cast<const void*>(found->log) : found, found->log ? found->step : 0, std::move(answer),
          nullptr, nullptr};
}

// In place of one that is gone: zeros, for who looks at it, and an error for who computes with it.
LaneValuePtr hollow(PathLog& log, std::size_t step, const Abstract& lane, Device device) {
  Shape shape = lane.shape;
  shape.insert(shape.begin(), log.lanes->size());
  auto value = make_intrusive<LaneValue>(constant(0, lane.dtype, shape, device), log.lanes);
  value->hollow = true;
  value->log = &log;
  value->step = static_cast<std::uint32_t>(step);
  value->bytes_of_gone = log.steps[step].bytes;
  return value;
}

[[noreturn]] void fail_other_way(const std::string& performed, const std::string& logged) {
  fail<TransformError>(
      "vmap: the function ran again for lanes that go another way, and performed {} where it had performed {}: up to "
      "the value that they part by it must do the same each time",
      performed, logged);
}

Tensor tensor_of(std::string_view bytes, Dtype dtype, const Shape& shape) {
  StoragePtr storage = allocate_storage(cpu, dtype, shape, "item");
  if (!bytes.empty()) std::memcpy(storage->data, bytes.data(), bytes.size());
  return Tensor(NodePtr(new Node(dtype, cpu, shape, std::move(storage))));
}

// The elements of the largest of an operation's inputs, for one lane.
std::uint64_t work_of(std::span<const Tensor> inputs, const SmallVector<bool, 4>& batched, Index lanes) {
  Index most = 1;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    most = std::max(most, batched[i] && lanes > 0 ? inputs[i].size() / lanes : inputs[i].size());
  return static_cast<std::uint64_t>(most);
}

// Rows with equal bits, in the order of their first ones.
std::vector<std::vector<std::size_t>> classes_of(const HostRows& rows, std::size_t count) {
  std::vector<std::vector<std::size_t>> classes;
  const auto add = [&](std::size_t& number, std::size_t row) {  // of a class; beyond the last: none yet
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

void LaneValue::leave_log() noexcept {
  PathLog::Step& left = log->steps[step];
  left.value = nullptr;
  left.bytes = bytes();
}

void destroy(PathLog* log) noexcept { delete_in_loop<&PathLog::next_to_free>(log); }

// ---- runs ------------------------------------------------------------------------------------------------------------

void PathRun::LanePath::note(const Op& op, LaneValue* output) {
  if (!log) return;
  if (log->length + log->steps.size() >= longest_log) return void(log = nullptr);
  log->steps.push_back({&op, output, PathLog::untouched});
  if (!output) return;
  output->log = log.get();
  output->step = static_cast<std::uint32_t>(log->steps.size() - 1);
}

void PathRun::LanePath::note(PathLog::Event event) {
  if (!log) return;
  log->events.push_back(std::move(event));
  try {
    log->steps.push_back({nullptr, nullptr, PathLog::untouched});
  } catch (const std::bad_alloc&) {
    log->events.pop_back();
    throw;
  }
}

// What the function still has is what others that part here will need.
void PathRun::LanePath::pin() {
  if (!log) return;
  std::vector<std::pair<PathLog*, std::size_t>> still;
  const auto keep = [&](PathLog& of, std::size_t number) {
    LaneValue* const value = of.steps[number].value;
    if (!value) return;
    pinned.emplace_back(value);
    still.emplace_back(&of, number);
  };
  for (const auto& [of, number] : alive) keep(*of, number);
  for (std::size_t i = 0; i < log->steps.size(); ++i) keep(*log, i);
  alive = std::move(still);
}

const PathLog::Step& PathRun::LanePath::next_step() {
  while (step == replays[segment]->steps.size()) {
    ++segment;
    step = event = 0;
  }
  return replays[segment]->steps[step++];
}

void PathRun::LanePath::end_replay() {
  replays.clear();
  pinned.clear();
}

// Says which lane it is that computes on its own values.
class PathRun::Alone final : public AnyHandler {
 public:
  explicit Alone(const PathRun& run) : AnyHandler(0), run_(run) {}
  void* handling(const EffectType&) override { return nullptr; }
  std::string describe() const override { return run_.describe(); }
  bool only_observes() const noexcept override { return true; }

 private:
  const PathRun& run_;
};

PathRun::PathRun(std::shared_ptr<const Vmap> vmap, RowsPtr lanes, Of what)
    : vmap_(std::move(vmap)), lanes_(what == Of::vmap ? std::move(lanes) : make_intrusive<const Rows>(*lanes)),
      what_(what) {}

std::string PathRun::describe() const {
  const Rows& lanes = path_ ? *path_->lanes : *lanes_;
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
  PathEffects* const around = PathEffects::around(*vmap_);  // of a function that an operation carries
  const std::size_t answered = around ? around->call_begins() : 0;
  std::vector<PathEffects::OfPath> answers;
  std::vector<std::unique_ptr<LanePath>> done;
  while (!aside_.empty()) {
    std::unique_ptr<LanePath> path = std::move(aside_.back());
    aside_.pop_back();
    run(*path, f, arguments);
    if (around) answers.push_back({path->lanes, path->effects->of(*path->lanes)});
    path->effects.reset();
    done.push_back(std::move(path));
  }
  if (around) around->call_ends(answered, std::move(before_parting_), std::move(answers));
  const std::vector<Sown> sown = take_sown(done);
  Results results = joined(done);
  sow_all(sown, results);
  return results;
}

void PathRun::run(LanePath& path, FlatFunction f, std::span<const Argument> arguments) {
  path_ = &path;
  path.number = paths_++;
  if (!path.alone && !path.log && lanes_->is_own()) path.log = make_intrusive<PathLog>(nullptr, path.lanes);
  const bool any_known = !path.known_effects.empty();
  path.effects.emplace(PathEffects::Run{*vmap_, *lanes_, id_}, path.lanes, path.alone, std::move(path.known_effects));
  std::vector<Tensor> values;
  for (const Argument& argument : arguments) {
    if (!argument.value) values.push_back(argument.same);
    else if (path.alone && path.replays.empty())
      values.push_back(clone_node(argument.value->of(path.lanes, true, *lanes_)));
    else values.push_back(relabel(vmap_->lane(argument.value, argument.shape), argument.label));
  }
  const auto performed = [&] { return f(values); };
  path.outputs = with(*path.effects, [&] {
    // There are no lanes' values that it could meet, so that operations need nobody; but in answers from before it was alone, and to
    // gather what is sown.
    if (path.alone && path.replays.empty() && what_ == Of::vmap && !any_known && vmap_->axis_name.empty() &&
        !may_be_answered(effect_type<Sowing>()))
      return with(Alone(*this), performed);
    return with(*this, performed);
  });
  if (!path.replays.empty()) fail_other_way("nothing more", "more");
  path.log = nullptr;
  path.alive.clear();
  path.kept.clear();
}

Path PathRun::handle(WhichPath&) {
  Path path = perform(WhichPath{});
  path.push_back({id_, path_->number, what_ != Of::vmap});
  return path;
}

// ---- operations ------------------------------------------------------------------------------------------------------

Outputs PathRun::handle(Call& call) {
  LanePath& path = *path_;
  if (&call.op() == &op_sow && is_joined(call)) [[unlikely]]
    return sown(call);
  if (!vmap_->axis_name.empty() && answers(call)) return collective(call);
  if (!path.replays.empty()) [[unlikely]]
    return replayed(call);
  if (call.op().carries_functions) [[unlikely]] {
    path.log = nullptr;  // what these compute is not in it
    return handle_carrying(call);
  }
  const Op& op = call.op();
  try {
    return performed(call);
  } catch (const std::bad_alloc&) {
    path.log = nullptr;  // which may lack something
    throw;
  } catch (...) {
    path.note({nullptr, 0, {}, &op, std::current_exception()});
    throw;
  }
}

Outputs PathRun::performed(Call& call) {
  LanePath& path = *path_;
  const auto& notes = vmap_->notes;
  const Op& op = call.op();
  const auto is_lane = [&](const Tensor& x) { return notes.find(x) != nullptr; };
  if (std::none_of(call.inputs().begin(), call.inputs().end(), is_lane)) {
    Outputs outputs = perform(std::move(call));
    path.note(op, static_cast<LaneValue*>(nullptr));
    return outputs;
  }
  Inputs inputs;
  SmallVector<bool, 4> batched;
  for (const Tensor& input : call.inputs()) {
    const Lanes* const lanes = notes.find(input);
    inputs.push_back(lanes ? rows_of(*lanes, path) : input);
    batched.push_back(lanes != nullptr);
  }
  if (path.alone) return perform(call.with_inputs(std::move(inputs)));  // values from before it was
  if (!op.batch)
    fail<TransformError>("vmap: the operation {} has no batching rule: give it one, or compute it outside of vmap",
                         op.name);
  const Index size = path.lanes->size();
  if (path.log) path.log->work += work_of(inputs, batched, size);
  Outputs outputs = op.batch(BatchContext{call, inputs, batched, size});
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Abstract& lane = call.abstract_outputs()[i];
    const Tensor& output = outputs[i];
    if (!has_lanes_of(output, lane) || output.shape()[0] != size)
      fail<TransformError>("the batching rule of {} gave {} {} for {} lanes of {} {}", op.name, output.dtype(),
                           output.shape(), size, lane.dtype, lane.shape);
    auto value = make_intrusive<LaneValue>(std::move(outputs[i]), path.lanes);
    path.note(op, value.get());
    outputs[i] = vmap_->lane(std::move(value), lane.shape);
  }
  return outputs;
}

// ---- runs from the log -----------------------------------------------------------------------------------------------

Outputs PathRun::replayed(Call& call) {
  LanePath& path = *path_;
  const Op& op = call.op();
  const PathLog::Step* logged = &path.next_step();
  if (!logged->op) {
    const PathLog::Event& event = path.next_event();
    if (event.op != &op) fail_other_way(op.name, event.op ? event.op->name : "a read");
    if (event.threw) std::rethrow_exception(event.threw);
    return {event.answer};
  }
  if (logged->op != &op) fail_other_way(op.name, logged->op->name);
  if (!logged->value && logged->bytes == PathLog::untouched) return perform(std::move(call));
  Outputs outputs;
  const auto expected = call.abstract_outputs();
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (i > 0) logged = &path.next_step();
    LaneValuePtr value(logged->value);
    if (!value) {
      const Device device = op.id == OpId::to ? call.as<TransferAttributes>().device : call.input(0).device();
      value = hollow(*path.replays[path.segment], path.step - 1, expected[i], device);
    }
    if (!has_lanes_of(value->batched, expected[i])) fail_other_way(fmt::format("{} of other shapes", op.name), op.name);
    outputs.push_back(vmap_->lane(std::move(value), expected[i].shape));
  }
  return outputs;
}

Tensor PathRun::replayed_read(const LaneValuePtr& value) {
  LanePath& path = *path_;
  const PathLog::Step& logged = path.next_step();
  if (logged.op) fail_other_way("a read", logged.op->name);
  const bool last = path.segment + 1 == path.replays.size();
  const PathLog::Event known = path.next_event();
  if (known.op) fail_other_way("a read", known.op->name);
  const PathLog::Event read = event_of_read(value, {});
  if (known.log != read.log || known.step != read.step) fail_other_way("a read of one value", "a read of another");
  if (last) path.end_replay();
  return known.answer;
}

// ---- reads -----------------------------------------------------------------------------------------------------------

Tensor PathRun::handle(ReadStorage& read) {
  const Lanes* const lanes = vmap_->notes.find(read.value);
  if (!lanes) return perform(ReadStorage(read));
  LanePath& path = *path_;
  const LaneValuePtr value = lanes->value;
  Tensor answer = !path.replays.empty() ? replayed_read(value)
                  : path.alone          ? read_value(rows_of(*lanes, path))
                                        : divided(*lanes, read.value);
  if (!read.stays) return answer;
  UnderFrame past_all_handlers(nullptr);
  path.kept.push_back(contiguous(view_of(answer)));
  return path.kept.back();
}

// What the lanes of the path have there that goes on.
Tensor PathRun::divided(const Lanes& read, const Tensor& x) {
  LanePath& path = *path_;
  const LaneValuePtr value = read.value;
  const auto count = static_cast<std::size_t>(path.lanes->size());
  if (count == 0)
    fail<TransformError>("vmap: a value ({} {}) is read on the host, but there are no lanes that would have one",
                         x.dtype(), x.shape());
  const HostRows rows(rows_of(read, path), path.lanes->size());
  const auto answer = [&](std::size_t row) { return tensor_of(rows[row], x.dtype(), x.shape()); };
  Tensor first = answer(0);
  const PathLog::Event event = event_of_read(value, first);
  if (rows.agree()) {
    path.note(event);
    return first;
  }
  if (what_ == Of::undivided_call)
    fail<TransformError>(
        "vmap: lanes part at a value ({} {}) within a checkpoint that saves what a policy says, which differs by the "
        "way that a lane goes: use checkpoint without a policy, or where in place of if",
        x.dtype(), x.shape());
  const auto classes = classes_of(rows, count);
  const auto lanes_of = [&](const std::vector<std::size_t>& of) {
    std::vector<std::int32_t> lanes;
    for (const std::size_t row : of) lanes.push_back(path.lanes->lane(static_cast<Index>(row)));
    return lanes;
  };
  if (what_ != Of::vmap) before_parting_.push_back({path.lanes, path.effects->of(*path.lanes)});
  path.pin();
  const PathLogPtr log = path.log;
  std::vector<std::unique_ptr<LanePath>> others;
  for (std::size_t c = classes.size(); c-- > 1;)
    others.push_back(parted(value, lanes_of(classes[c]), answer(classes[c][0])));
  RowsPtr own = make_intrusive<const Rows>(lanes_of(classes[0]));
  PathLogPtr own_log = log && !is_alone(*own) ? make_intrusive<PathLog>(log, own) : nullptr;
  if (own_log) {
    own_log->events.push_back(event);
    own_log->steps.push_back({nullptr, nullptr, PathLog::untouched});
  }
  aside_.reserve(aside_.size() + others.size());
  // Nothing throws from here on: all lanes go on, or none has parted.
  for (auto& other : others) aside_.push_back(std::move(other));
  path.pinned.clear();
  path.alone = is_alone(*own);
  path.lanes = std::move(own);
  path.log = std::move(own_log);
  return first;
}

std::unique_ptr<PathRun::LanePath> PathRun::parted(const LaneValuePtr& read, std::vector<std::int32_t> lanes,
                                                   Tensor answer) const {
  const LanePath& path = *path_;
  auto other = std::make_unique<LanePath>();
  other->lanes = make_intrusive<const Rows>(std::move(lanes));
  other->alone = is_alone(*other->lanes);
  other->known_effects = path.effects->of(*other->lanes);
  if (!path.log || (other->alone && !path.log->saves_work())) return other;
  other->log = make_intrusive<PathLog>(path.log, other->lanes);
  other->note(event_of_read(read, std::move(answer)));
  if (!other->log) return other;
  for (PathLogPtr segment = other->log; segment; segment = segment->before) other->replays.push_back(segment);
  std::reverse(other->replays.begin(), other->replays.end());
  other->pinned = path.pinned;
  other->alive = path.alive;
  if (other->alone) other->log = nullptr;  // it will not part
  return other;
}

// ---- results ---------------------------------------------------------------------------------------------------------

// What the lanes of a path gave: with them as axis 0, where there are several, or to be joined with others.
Tensor PathRun::part_of(const LanePath& path, const Tensor& output) const {
  const Lanes* const lanes = vmap_->notes.find(output);
  if (path.alone) return expand_dims(lanes ? rows_of(*lanes, path) : output, 0);
  return lanes ? rows_of(*lanes, path) : broadcast_lanes(output, path.lanes->size());
}

Tensor PathRun::rows_of(const Lanes& lanes, const LanePath& path) const {
  return lanes.value->of(path.lanes, path.alone, *lanes_, keeps_rows);
}

PathRun::Results PathRun::joined(std::span<const std::unique_ptr<LanePath>> done) const {
  Results results;
  results.divided = done.size() > 1;
  const auto& notes = vmap_->notes;
  if (!results.divided) {  // as it is
    const LanePath& path = *done[0];
    for (const Tensor& output : path.outputs) {
      const Lanes* const lanes = notes.find(output);  // none, if it is undefined
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
  Tensor indices;  // undefined: they are in order
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
