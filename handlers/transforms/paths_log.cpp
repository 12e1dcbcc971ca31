// The logs of paths, and runs that are answered from a log and checked against it.
#include <algorithm>
#include <cstring>
#include <string>

#include <stave/core/ops/create.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/transfer.h>
#include <stave/core/tensor/fail.h>
#include <stave/handlers/transforms/paths.h>

namespace stave_detail {

namespace {

// The largest number of steps of a log, including the logs before it. If a path performs more,
// lanes that split from it run the function in full.
constexpr std::size_t longest_log = std::size_t{1} << 18;

// Returns a placeholder for a dead value: it holds zeros, and an operation that computes with it
// throws TransformError.
LaneValuePtr dead_placeholder(PathLog& log, std::size_t step, const Abstract& lane, Device device) {
  Shape shape = lane.shape;
  shape.insert(shape.begin(), log.lanes->size());
  auto value = make_intrusive<LaneValue>(constant(0, lane.dtype, shape, device), log.lanes);
  value->is_dead = true;
  value->log = &log;
  value->step = static_cast<std::uint32_t>(step);
  value->dead_bytes = log.steps[step].bytes;
  return value;
}

[[noreturn]] void fail_other_values(const Op& op) {
  fail<TransformError>(
      "vmap: the function ran again for lanes that take another path, and performed {} of other values, or with other "
      "attributes, than in its first run. It changes something outside of itself, such as a counter, or a key that it "
      "advances, and this changes once for each path: up to where lanes split it must do the same in each run. Make "
      "such a value from the arguments, as by fold_in(key, i), or take it as an argument and return the next one",
      op.name);
}

// ---- arguments of an operation ------------------------------------------------------------------

std::uint32_t mixed(std::uint32_t hash, std::uint64_t value) noexcept {
  return static_cast<std::uint32_t>((hash ^ value) * 0x9e3779b97f4a7c15 >> 32);
}

std::uint64_t bits_at(const char* data, std::size_t bytes) noexcept {
  std::uint64_t bits = 0;
  std::memcpy(&bits, data, std::min(bytes, sizeof bits));
  return bits;
}

bool is_readable(const Node& x) noexcept { return x.storage && x.storage->data && x.memory() == cpu; }

// Returns a hash of some of the elements of x, or of all if there are few. If a program computes x
// anew with another value, most elements differ.
std::uint32_t sampled(const Node& x) noexcept {
  auto hash = static_cast<std::uint32_t>(x.dtype);
  const std::size_t bytes = size_of(x.dtype);
  if (x.storage->is_host_constant) return mixed(hash, bits_at(static_cast<const char*>(x.data()), bytes));
  for (const Index length : x.shape) hash = mixed(hash, static_cast<std::uint64_t>(length));
  const Index size = x.shape.elements();
  if (size == 0) return hash;
  constexpr Index most = 8;
  const Index count = std::min(size, most), step = count > 1 ? (size - 1) / (count - 1) : 0;
  const auto* const data = static_cast<const char*>(x.data());
  const bool dense = x.contiguous();
  for (Index i = 0; i < count; ++i) {
    Index rest = i + 1 == count ? size - 1 : step * i, offset = dense ? rest : 0;
    if (!dense)
      for (std::size_t axis = x.shape.size(); axis-- > 0 && rest > 0; rest /= x.shape[axis])
        offset += rest % x.shape[axis] * x.strides[axis];
    hash = mixed(hash, bits_at(data + offset * static_cast<Index>(bytes), bytes));
  }
  return hash;
}

// Returns a number that identifies the value, and is the same each time that the function runs.
std::uint32_t identity(const LaneValue& value) noexcept {
  const LaneValue* found = &value;
  while (found->unlabelled) found = found->unlabelled.get();
  return mixed(found->log ? found->step + 1 : 0,
               found->log ? reinterpret_cast<std::uintptr_t>(found->log) : reinterpret_cast<std::uintptr_t>(found));
}

// The largest number of inputs of one operation that are checked.
constexpr std::size_t most_checked = 32;

}  // namespace

[[noreturn]] void fail_other_way(const std::string& performed, const std::string& logged) {
  fail<TransformError>(
      "vmap: the function ran again for lanes that take another path, and performed {} where it had performed {}: up "
      "to where lanes split it must do the same in each run",
      performed, logged);
}

PathLog::Event event_of_read(const LaneValuePtr& value, Tensor answer) {
  const LaneValue* found = value.get();
  while (found->unlabelled) found = found->unlabelled.get();
  if (!found->log) return {.log = found, .answer = std::move(answer)};
  return {.log = found->log, .step = found->step, .answer = std::move(answer)};
}

void PathLog::Given::add(std::size_t i, const Tensor& input, const Lanes* lane) noexcept {
  if (i >= most_checked) return;
  if (!lane) {
    unread |= !is_readable(input.node());
    if (!unread) outside = mixed(outside, sampled(input.node()));
    return;
  }
  mask |= std::uint32_t{1} << i;
  lanes = mixed(lanes, identity(*lane->value));
}

PathLog::Given PathRun::given_of(const Call& call) const {
  PathLog::Given given{call.attributes_ptr()};
  for (std::size_t i = 0; i < call.inputs().size(); ++i)
    given.add(i, call.inputs()[i], vmap_->notes.find(call.inputs()[i]));
  return given;
}

void PathRun::check_defined(const Call& call, const PathLog::Given& first) const {
  PathLog::Given given;
  const std::span<const Tensor> inputs = call.inputs();
  for (std::size_t i = 0; i < inputs.size() && i < most_checked; ++i) {
    const Lanes* const lanes = vmap_->notes.find(inputs[i]);
    // In a run of a single lane, answers to effects are real values, which were lanes' values in
    // the first run.
    if (!lanes && path_->alone && first.mask >> i & 1) given.mask |= std::uint32_t{1} << i;
    else given.add(i, inputs[i], lanes);
  }
  const Attributes *const a = first.attributes.get(), *const b = call.attributes();
  const bool same = same_attributes(a, b) || (a && b && typeid(*a) == typeid(*b) && a->str() == b->str());
  const bool same_outside = given.unread || first.unread || given.outside == first.outside;
  if (!same || given.mask != first.mask || !same_outside || (given.lanes != first.lanes && !path_->alone))
    fail_other_values(call.op());
}

// ---- logs ---------------------------------------------------------------------------------------

void LaneValue::leave_log() noexcept {
  PathLog::Step& left = log->steps[step];
  left.value = nullptr;
  left.bytes = bytes();
}

void destroy(PathLog* log) noexcept { delete_in_loop<&PathLog::next_to_free>(log); }

void PathRun::LanePath::note(const Op& op, LaneValue* output, PathLog::Given given) {
  if (!log) return;
  if (log->length + log->steps.size() >= longest_log) return void(log = nullptr);
  log->steps.push_back({&op, output, PathLog::untouched, std::move(given)});
  if (!output) return;
  output->log = log.get();
  output->step = static_cast<std::uint32_t>(log->steps.size() - 1);
}

void PathRun::LanePath::note(PathLog::Event event) {
  if (!log) return;
  PathLog::Given given = std::move(event.given);
  log->events.push_back(std::move(event));
  try {
    log->steps.push_back({nullptr, nullptr, PathLog::untouched, std::move(given)});
  } catch (const std::bad_alloc&) {
    log->events.pop_back();
    throw;
  }
}

// Keeps alive the values that are still live, because the groups of lanes that split
// here will need them.
void PathRun::LanePath::pin() {
  if (!log) return;
  std::vector<std::pair<PathLog*, std::size_t>> still;
  const auto keep = [&](PathLog& of, std::size_t number) {
    LaneValue* const value = of.steps[number].value;
    if (!value) return;
    kept_alive.emplace_back(value);
    still.emplace_back(&of, number);
  };
  for (const auto& [of, number] : alive) keep(*of, number);
  for (std::size_t i = 0; i < log->steps.size(); ++i) keep(*log, i);
  alive = std::move(still);
}

// Returns true if the next operation is answered from the log. Skips the ends of segments, because
// no event marks the end of a log, and ends the replay after the last one.
bool PathRun::LanePath::replaying() {
  if (replays.empty()) [[likely]]
    return false;
  while (segment < replays.size() && step == replays[segment]->steps.size()) {
    ++segment;
    step = event = 0;
  }
  if (segment < replays.size()) return true;
  end_replay();
  return false;
}

const PathLog::Step& PathRun::LanePath::next_step() {
  if (!replaying()) fail_other_way("more", "nothing more");
  return replays[segment]->steps[step++];
}

void PathRun::LanePath::end_replay() {
  replays.clear();
  kept_alive.clear();
}

// ---- runs from the log --------------------------------------------------------------------------

Outputs PathRun::replayed(Call& call) {
  LanePath& path = *path_;
  const Op& op = call.op();
  const PathLog::Step* logged = &path.next_step();
  if (!logged->op) {
    const PathLog::Given given = logged->given;
    const PathLog::Event event = path.next_event();
    if (event.op != &op) fail_other_way(op.name, event.op ? event.op->name : "a read");
    check_defined(call, given);
    if (!event.threw) return {event.answer};
    ++path.errors;
    static_cast<void>(path.replaying());
    std::rethrow_exception(event.threw);
  }
  if (logged->op != &op) fail_other_way(op.name, logged->op->name);
  check_defined(call, logged->given);
  if (!logged->value && logged->bytes == PathLog::untouched) try {
      return perform(std::move(call));
    } catch (...) {
      threw_anew_ = std::current_exception();
      throw;
    }
  Outputs outputs;
  const auto expected = call.abstract_outputs();
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (i > 0) logged = &path.next_step();
    LaneValuePtr value(logged->value);
    if (!value) {
      const Device device = op.id == OpId::to ? call.as<TransferAttributes>().device : call.input(0).device();
      value = dead_placeholder(*path.replays[path.segment], path.step - 1, expected[i], device);
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
  const PathLog::Event known = path.next_event();
  if (known.op) fail_other_way("a read", known.op->name);
  const PathLog::Event read = event_of_read(value, {});
  if (known.log != read.log || known.step != read.step) fail_other_way("a read of one value", "a read of another");
  // At the end of the log, replaying() releases the pinned values.
  static_cast<void>(path.replaying());
  if (known.threw) std::rethrow_exception(known.threw);
  return known.answer;
}

}  // namespace stave_detail
