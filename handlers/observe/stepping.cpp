#include <stave/handlers/observe/stepping.h>

#include <algorithm>

#include <stave/core/effects/scope.h>
#include <stave/core/op/notation.h>
#include <stave/core/tensor/fail.h>
#include <stave/core/tensor/label.h>
#include <stave/handlers/model/summary.h>
#include <stave/handlers/transforms/answered.h>
#include <stave/handlers/transforms/tape.h>

namespace stave {

using namespace stave_detail;

void breakpoint(std::string name) { perform_if_answered(BreakpointReached{std::move(name)}); }

std::string Breakpoint::str() const {
  std::string text = operation.empty() ? "any operation" : operation;
  if (!scope.empty()) text += " in " + scope;
  if (!label.empty()) text += " of " + label;
  if (shape) text += " of shape " + shape->str();
  if (!condition.empty()) text += " if " + condition;
  else if (predicate || yields) text += " where a predicate holds";
  if (nan) text += " that yields a NaN";
  if (nan_arises) text += " where a NaN arises";
  if (pass != Breakpoint::Pass::any) text += pass == Breakpoint::Pass::forward ? ", forward" : ", backward";
  return text;
}

// ---- where a program is stopped ----------------------------------------------------------

StopPoint::StopPoint(Stepping& stepping, Call* call, std::string name)
    : stepping_(stepping), call_(call), name_(std::move(name)) {}

const Call& StopPoint::call() const {
  if (!call_)
    fail<TransformError>("{}: the program is stopped at a breakpoint() in its code, not at an operation",
                         stepping_.describe());
  return *call_;
}

std::span<const Tensor> StopPoint::outputs() const noexcept {
  return outputs_ ? std::span<const Tensor>(*outputs_) : std::span<const Tensor>();
}

void StopPoint::answer(Outputs outputs) {
  const std::string who = stepping_.describe();
  const char* const name = call().op().name;
  const bool carries = call().op().is_higher_order;
  if (carries && !outputs_)
    fail<TransformError>("{}: {} calls a function, and its outputs are known only after that has run: perform it first",
                         who, name);
  check_answer_closely(call(), outputs, &stepping_);
  // If the operation is of higher order, the shapes and dtypes of an answer can only be compared
  // with those of its real outputs.
  if (carries) {
    if (outputs.size() != outputs_->size())
      fail<TransformError>("{}: {} returned {} output(s), but the answer has {}", who, name, outputs_->size(),
                           outputs.size());
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const Tensor &was = (*outputs_)[i], &is = outputs[i];
      if (is.shape() != was.shape() || is.dtype() != was.dtype() || is.device() != was.device())
        fail<TransformError>("{}: output {} of {} is {}, but the answer is {}", who, i, name, notation({&was, 1}),
                             notation({&is, 1}));
    }
  }
  outputs_ = std::move(outputs);
}

std::vector<std::string> StopPoint::scopes() const {
  std::vector<std::string> names;
  for (auto name = scopes_.rbegin(); name != scopes_.rend(); ++name) names.push_back((*name)->text);
  return names;
}

std::string StopPoint::source() const { return SourceLines().innermost(stack_).str(); }

void StopPoint::look_around() {
  backward_ = stave::in_backward_pass();
  forward_ = differentiated_operation();
  stack_ = stave_detail::call_stack();
  std::vector<const Frame*> answering;
  visit_frames(current, nullptr, [&](const Frame& frame) {
    if (frame.kind == Frame::Kind::interception) answering.push_back(static_cast<const Interception&>(frame).answering);
    if (!frame.handler) return;
    std::string name = frame.handler->describe();
    if (name.empty()) return;
    const bool at_work = std::find(answering.begin(), answering.end(), &frame) != answering.end();
    around_.push_back({std::move(name), scope_of(frame) != nullptr, at_work});
  });
}

std::string StopPoint::str() const {
  std::string text = call_ ? (outputs_ ? "after " : "before ") + text_of(*call_, outputs())
                           : "at breakpoint" + (name_.empty() ? "" : " " + name_);
  for (const std::string& scope : scopes()) text += "  [" + scope + "]";
  return text;
}

}  // namespace stave

namespace stave_detail {

std::string text_of(const Call& call, std::span<const Tensor> outputs) {
  std::string results = notation(outputs);
  if (outputs.empty())
    for (const Abstract& output : call.abstract_outputs())
      results += (results.empty() ? "" : ", ") +
                 notation(nullptr, output.dtype, output.shape, call.inputs().empty() ? cpu : call.input(0).device());
  return notation(call) + " -> " + (results.empty() ? "?" : results);
}

const std::optional<Differentiated>& StopDetails::forward(const StopPoint& at) { return at.forward_; }
const CallStack& StopDetails::stack(const StopPoint& at) { return at.stack_; }

namespace {

// Calls f(frame) for the frames inside of the handler that is handling an operation.
template <class F>
void visit_performer(F f) {
  const auto& interception = static_cast<const Interception&>(*current);
  visit_frames(interception.performer, interception.answering, f);
}

const BackwardScope* backward_scope() {
  const BackwardScope* found = nullptr;
  visit_performer([&](const Frame& frame) {
    const auto* const scope = found ? nullptr : dynamic_cast<const BackwardScope*>(frame.handler);
    if (scope && scope->entry) found = scope;
  });
  return found;
}

}  // namespace

std::optional<Differentiated> differentiated_operation() {
  const BackwardScope* const scope = backward_scope();
  if (!scope) return std::nullopt;
  Entry& entry = *scope->entry;
  std::string text = entry.op->name;
  if (const std::string attributes = entry.attributes ? entry.attributes->str() : ""; !attributes.empty())
    text += " " + attributes;
  const char* between = " ";
  for (const Abstract& input : entry.input_abstracts())
    text += std::exchange(between, ", ") + notation(nullptr, input.dtype, input.shape, cpu);
  return Differentiated{{scope->tape, entry.sequence}, std::move(text)};
}

std::optional<TapeEntry> differentiated_entry() {
  const BackwardScope* const scope = backward_scope();
  if (!scope) return std::nullopt;
  return TapeEntry{scope->tape, scope->entry->sequence};
}

// A tape performs an operation right after it has recorded it, so its last entry belongs to this
// operation. Operations that it performs later without recording them follow the same entry,
// but do not belong to it; therefore the first one is kept.
void ForwardLinks::add(std::uint64_t number) {
  visit_performer([&](const Frame& frame) {
    if (frame.kind != Frame::Kind::interception) return;
    const Frame* const answering = static_cast<const Interception&>(frame).answering;
    const auto* const tape = answering ? dynamic_cast<const GradHandler*>(answering->handler) : nullptr;
    if (!tape) return;
    const Link link{tape->notes.id(), number};
    const auto [found, is_new] = links_.try_emplace({tape->tape(), tape->last_sequence()}, link);
    if (!is_new && found->second.recorder != link.recorder) found->second = link;
  });
}

std::uint64_t ForwardLinks::find(const TapeEntry& entry) const {
  const auto found = links_.find(entry);
  return found == links_.end() ? 0 : found->second.number;
}

void ForwardLinks::forget_before(std::uint64_t number) {
  std::erase_if(links_, [&](const auto& entry) { return entry.second.number < number; });
}

// ---- where to stop -----------------------------------------------------------------------

int Stepping::add(Breakpoint breakpoint) {
  if (breakpoint.operation.empty() && breakpoint.scope.empty() && breakpoint.label.empty() && !breakpoint.shape &&
      !breakpoint.predicate && !breakpoint.yields && !breakpoint.nan && !breakpoint.nan_arises &&
      breakpoint.pass == Breakpoint::Pass::any)
    fail<TransformError>(
        "{}: a breakpoint must say where: an operation, scope, label, shape, predicate, NaN or pass. "
        "To stop at every operation, step",
        describe());
  breakpoints_.push_back({++last_number_, std::move(breakpoint)});
  return last_number_;
}

bool Stepping::remove(int number) {
  return std::erase_if(breakpoints_, [&](const BreakpointState& of) { return of.number == number; }) > 0;
}

bool Stepping::ignore(int number, int times) {
  for (BreakpointState& numbered : breakpoints_)
    if (numbered.number == number) return numbered.breakpoint.ignore = times, true;
  return false;
}

void Stepping::go(Until until) {
  until_ = until;
  if (at_) from_ = at_->scopes_;
}

void Stepping::perform_and_stay() {
  go(Until::breakpoint);
  stay_ = true;
}

namespace {

bool begins_with(const ScopeNames& scopes, const ScopeNames& outer) {
  return scopes.size() >= outer.size() && std::equal(outer.begin(), outer.end(), scopes.begin());
}

bool has_shape(const Call& call, const Shape& shape) {
  const auto is = [&](const auto& x) { return x.shape == shape; };
  return std::any_of(call.inputs().begin(), call.inputs().end(), [&](const Tensor& x) { return x.shape() == shape; }) ||
         std::any_of(call.abstract_outputs().begin(), call.abstract_outputs().end(), is);
}

bool any_nan(std::span<const Tensor> xs) {
  return std::any_of(xs.begin(), xs.end(), [](const Tensor& x) { return nans_in(x) > 0; });
}

}  // namespace

// Returns the names of the scopes, outermost first. The higher-order operations that are running
// are among them.
ScopeNames Stepping::scopes_of_this() const {
  ScopeNames scopes = place_of_performer().scopes;
  std::reverse(scopes.begin(), scopes.end());
  for (const Inside& of : inside_)
    scopes.insert(scopes.begin() + static_cast<std::ptrdiff_t>(std::min(of.scopes, scopes.size())), of.name);
  return scopes;
}

bool Stepping::step_stops_in(const ScopeNames& scopes) const {
  switch (until_) {
    case Until::operation: return true;
    case Until::same_scope: return scopes.size() <= from_.size() || !begins_with(scopes, from_);
    case Until::end_of_scope: return !begins_with(scopes, from_);
    case Until::breakpoint:
    case Until::end: break;
  }
  return false;
}

bool Stepping::matches(const Breakpoint& breakpoint, const StopPoint& here) const {
  const Call& call = *here.call_;
  const auto named = [&](const NamePtr& name) { return name->text == breakpoint.scope; };
  const auto labelled = [&](const Tensor& x) { return stave::label_of(x) == breakpoint.label; };
  return (breakpoint.operation.empty() || breakpoint.operation == call.op().name) &&
         (breakpoint.scope.empty() || std::any_of(here.scopes_.begin(), here.scopes_.end(), named)) &&
         (breakpoint.label.empty() || std::any_of(call.inputs().begin(), call.inputs().end(), labelled)) &&
         (!breakpoint.shape || has_shape(call, *breakpoint.shape)) &&
         (breakpoint.pass == Breakpoint::Pass::any ||
          in_backward_pass() == (breakpoint.pass == Breakpoint::Pass::backward)) &&
         (!breakpoint.predicate || breakpoint.predicate(call));
}

namespace {

// Returns whether the breakpoint depends on the outputs of the operation.
bool asks_for_outputs(const Breakpoint& breakpoint) {
  return breakpoint.nan || breakpoint.nan_arises || breakpoint.yields;
}

}  // namespace

// Returns the reason for a stop at a breakpoint whose conditions hold; empty if the breakpoint
// ignores this stop.
std::string Stepping::reason_of(BreakpointState& numbered) {
  ++numbered.stops;
  if (numbered.breakpoint.ignore > 0) return --numbered.breakpoint.ignore, "";
  return fmt::format("{}breakpoint {}: {}", numbered.breakpoint.once ? "temporary " : "", numbered.number,
                     numbered.breakpoint.str());
}

// Removes the breakpoints that stop only once and have stopped.
void Stepping::remove_spent() {
  std::erase_if(breakpoints_, [](const BreakpointState& numbered) {
    const bool once = numbered.breakpoint.once || numbered.breakpoint.nan_arises;
    return once && numbered.stopped;
  });
}

std::string Stepping::reason_before(const StopPoint& here) {
  for (BreakpointState& numbered : breakpoints_) {
    if (asks_for_outputs(numbered.breakpoint) || !matches(numbered.breakpoint, here)) continue;
    std::string reason = reason_of(numbered);
    if (reason.empty()) continue;
    numbered.stopped = true;
    remove_spent();
    return reason;
  }
  if (!step_stops_in(here.scopes_)) return "";
  return until_ == Until::operation ? "step" : until_ == Until::same_scope ? "next" : "finish";
}

// Returns the reason for a stop after an operation; empty if there is none. `number` is the number
// of the operation. If it is of higher order, the operations of its functions have greater numbers.
std::string Stepping::reason_after(const StopPoint& here, std::uint64_t number) {
  std::string reason;
  // Whether an output has a NaN, and whether an operand has one.
  std::optional<bool> outputs_have_nan, inputs_have_nan;
  for (BreakpointState& numbered : breakpoints_) {
    const Breakpoint& breakpoint = numbered.breakpoint;
    if (!asks_for_outputs(breakpoint) || !matches(breakpoint, here)) continue;
    if (breakpoint.yields && !breakpoint.yields(*here.call_, here.outputs())) continue;
    if (breakpoint.nan || breakpoint.nan_arises) {
      if (!outputs_have_nan) outputs_have_nan = any_nan(here.outputs());
      if (!*outputs_have_nan) continue;
      if (!inputs_have_nan) inputs_have_nan = any_nan(here.call_->inputs());
      // Whether this operation is of higher order and an operation inside it has yielded a NaN
      // already.
      const bool known = std::exchange(numbered.nan_at, operations_) > number;
      const bool first = !std::exchange(numbered.seen_nan, true);
      if (known || (*inputs_have_nan && (breakpoint.nan_arises || !first))) continue;
    }
    if (!reason.empty()) continue;
    reason = reason_of(numbered);
    numbered.stopped = !reason.empty();
  }
  remove_spent();
  return reason;
}

// Returns whether some breakpoint may stop at this operation or, if it is of higher order, inside
// of it.
bool Stepping::any_concerns(const Op& op) const {
  return op.is_higher_order || std::any_of(breakpoints_.begin(), breakpoints_.end(), [&](const BreakpointState& of) {
           return of.breakpoint.operation.empty() || of.breakpoint.operation == op.name;
         });
}

bool Stepping::watches_outputs() const {
  return std::any_of(breakpoints_.begin(), breakpoints_.end(),
                     [](const BreakpointState& of) { return asks_for_outputs(of.breakpoint); });
}

// ---- during the run ----------------------------------------------------------------------

void Stepping::stop_at(StopPoint& here, std::string reason) {
  here.reason_ = std::move(reason);
  here.around_.clear();
  here.look_around();
  struct AtStop {
    StopPoint *&at, *outer;
    ~AtStop() { at = outer; }
  } restore{at_, std::exchange(at_, &here)};
  on_stop();
}

// Performs an operation in the handlers outside of this one. While a higher-order operation runs,
// it counts as a scope of the operations that its functions perform.
Outputs Stepping::perform_below(Call&& call, const ScopeNames& scopes) {
  if (!call.op().is_higher_order) return perform(std::move(call));
  struct Leave {
    std::vector<Inside>& inside;
    ~Leave() { inside.pop_back(); }
  } leave{inside_};
  inside_.push_back({scopes.size(), make_intrusive<const SharedName>(attributes_of(call))});
  return perform(std::move(call));
}

Outputs Stepping::handle(Call& call) {
  if (until_ == Until::end) return perform(std::move(call));
  before_operation(call);
  if (until_ == Until::breakpoint && !any_concerns(call.op())) return perform(std::move(call));
  StopPoint here(*this, &call, "");
  here.scopes_ = scopes_of_this();
  const std::uint64_t number = ++operations_;
  if (std::string reason = reason_before(here); !reason.empty()) stop_at(here, std::move(reason));
  if (here.outputs_) return *std::move(here.outputs_);
  const bool keep_alive = std::exchange(stay_, false);
  if (!keep_alive && !watches_outputs()) return perform_below(std::move(call), here.scopes_);
  here.outputs_ = perform_below(Call(call), here.scopes_);
  std::string reason = reason_after(here, number);
  if (reason.empty() && keep_alive) reason = "performed";
  if (!reason.empty()) stop_at(here, std::move(reason));
  return *std::move(here.outputs_);
}

void Stepping::handle(BreakpointReached& reached) {
  if (until_ == Until::end) return;
  StopPoint here(*this, nullptr, reached.name);
  here.scopes_ = scopes_of_this();
  stop_at(here, "breakpoint in the code");
  stay_ = false;
}

}  // namespace stave_detail
