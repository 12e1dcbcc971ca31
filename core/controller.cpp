// A computation's life: run() switches to its stack and back, hands what it performed to the controller, and goes on in a loop
// as long as each `handle` ends with an answer. Two stacks meet in `suspend` and `run`; what is current goes along.
#include <stave/core/controller.h>

#include <cstdio>
#include <utility>

#include <stave/core/fail.h>
#include <stave/core/op.h>

namespace stave_detail {

void throw_used_resumption() {
  fail<TransformError>(
      "resume: this resumption was used or moved from; a computation goes on from one point only once");
}

void throw_no_exception() {
  fail<TransformError>(
      "resume_throwing: no exception is given; std::current_exception() has one inside of a catch block only");
}

Handling<Call>* passing_on() noexcept {
  struct PassOn final : Handling<Call> {
    Outputs handle(Call& call) override { return perform(std::move(call)); }
  };
  static constinit PassOn pass_on;
  return &pass_on;
}

Computation::Computation(bool keeps_controller)
    : keeps_controller_(keeps_controller), fiber_([](void* self) { static_cast<Computation*>(self)->enter(); }, this) {}

Computation::~Computation() = default;

void Computation::install(AnyHandler* handler, Handling<Call>* operations) noexcept {
  frame_.handler = handler;
  frame_.operations = operations;
  frame_.nearest = &frame_;
}

// The first function on the computation's stack.
void Computation::enter() noexcept {
  try {
    body();
  } catch (const Cancelled&) {
    if (!cancelled_) thrown_ = std::current_exception();  // that of a computation around this one, on its way down
  } catch (...) {
    thrown_ = std::current_exception();
  }
  ended_ = true;
}

void Computation::run() {
  const ComputationPtr alive(this);  // its resumption may be the last owner, and is used up
  Frame* const resumer = current;
  if (handling_) handling_->performer = nullptr;  // the program goes on: it is no longer hidden at that point
  frame_.unwinding = std::uncaught_exceptions() > 0;
  do {
    continues_ = false;
    frame_.below = resumer;
    if (pending_) {  // the interception by this computation's frame: what is below has changed
      top_->below = resumer;
      top_->nearest = resumer ? resumer->nearest : nullptr;
      pending_ = nullptr;
    }
    current = std::exchange(top_, nullptr);
    fiber_.resume();
    current = resumer;
    if (!ended_) give_to_controller();
  } while (continues_);
  if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
}

// `handle` stands where the frames below the controller's are current; what performed the effect shows in errors.
void Computation::give_to_controller() {
  Interception at_work(static_cast<Interception*>(top_)->performer, &frame_);
  struct AtWork {
    Computation& computation;
    Interception* self;
    UnderFrame install{self};
    ~AtWork() {
      if (computation.handling_ == self) computation.handling_ = nullptr;
    }
  } end{*this, handling_ = &at_work};
  try {
    pending_->hand_over(*this);
  } catch (const Cancelled& dropped) {
    // That of a computation around this one goes on. Else this one may have been dropped, through one nested in its operation.
    if (!dropped.in_progress && cancelled_ && ended_) return;
    cancel_answered();
    throw;
  } catch (...) {
    cancel_answered();
    throw;
  }
}

// What its controller threw after it had given the answer: nobody else will cancel it.
void Computation::cancel_answered() noexcept {
  if (std::exchange(continues_, false)) cancel_quietly();
}

void Computation::check_controller() const {
  if (with_ended_ && !keeps_controller_)
    fail<TransformError>(
        "a function runs again (that of a checkpoint, in the backward pass), but `with` of the controller that stood "
        "around "
        "it has ended: install it outside of grad, or give `with` a std::shared_ptr of it");
}

void Computation::throw_not_in_handle(const void* ticket) {
  static_cast<void>(pending(ticket));
  fail<TransformError>("resume_last: `handle` has returned; it is for the end of `handle`, use resume elsewhere");
}

Computation::Outcome Computation::suspend(Suspension& suspension) {
  if (cancelled_) return may_throw() ? Outcome::cancelled : Outcome::below;
  pending_ = &suspension;
  top_ = current;
  fiber_.suspend();
  switch (suspension.answer) {
    case Suspension::Answer::value: return Outcome::answered;
    case Suspension::Answer::exception: std::rethrow_exception(std::exchange(answer_, nullptr));
    case Suspension::Answer::cancel:
    case Suspension::Answer::none: break;
  }
  return may_throw() ? Outcome::cancelled : Outcome::below;
}

// Not while an exception is in flight on the stacks between here and this computation's end, nor under an Uncancellable.
bool Computation::may_throw() const noexcept {
  if (std::uncaught_exceptions() > 0) return false;
  for (const Frame* frame = current; frame && frame != &frame_;) {
    if (frame->kind == Frame::Kind::uncancellable) return false;
    if (frame->kind == Frame::Kind::computation && static_cast<const ControllerFrame*>(frame)->unwinding) return false;
    const Frame* hidden =
        frame->kind == Frame::Kind::interception ? static_cast<const Interception*>(frame)->performer : nullptr;
    frame = hidden ? hidden : frame->below;
  }
  return true;
}

Suspension& Computation::pending(const void* ticket) {
  if (ended_ || pending_ != ticket)
    fail<TransformError>(
        "resume: the computation was cancelled when `with` of its controller ended; for computations that go on later, "
        "give `with` a std::shared_ptr of the controller");
  if (!fiber_.on_its_thread())
    fail<TransformError>("resume: the computation began on another thread, and can only go on there");
  return *pending_;
}

void Computation::cancel() {
  if (ended_) return;
  cancelled_ = true;
  if (!pending_) return;  // it waits inside another one that is suspended: its next effect throws
  pending_->answer = Suspension::Answer::cancel;
  run();
}

void Computation::cancel_quietly() noexcept {
  try {
    cancel();
  } catch (...) {  // an exception is on its way already, and comes first
  }
}

void run_with(Computation& computation) {
  struct End {
    Computation& computation;
    ~End() { computation.end_with(); }
  } end{computation};
  try {
    computation.run();
  } catch (...) {
    if (!computation.keeps_controller()) computation.cancel_quietly();
    throw;
  }
  if (!computation.keeps_controller()) computation.cancel();
}

void run_to_its_end(Computation& computation) {
  computation.run();
  if (computation.cancelled()) throw Cancelled();
  if (computation.ended()) return;
  computation.cancel_quietly();
  fail<TransformError>(
      "a controller kept the rest of a function that an operation runs, such as a checkpoint's: it must resume or drop "
      "it "
      "before `handle` returns");
}

}  // namespace stave_detail
