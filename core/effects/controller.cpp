// A computation's life: run() switches to its stack and back, hands what it performed to the controller, and goes on in a loop
// as long as each `handle` ends with an answer. Two stacks meet in `suspend` and `go_on`; what is current goes along.
#include <stave/core/effects/controller.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

#include <stave/core/effects/error.h>

namespace stave_detail {

void throw_used_resumption() {
  fail_transform("resume: this resumption was used or moved from; a computation goes on from one point only once");
}

void throw_no_exception() {
  fail_transform(
      "resume_throwing: no exception is given; std::current_exception() has one inside of a catch block only");
}

constinit Handling<Call>* passing_on = nullptr;

// ---- a thread and its computations ---------------------------------------------------------------------------

// Computations live and end on their thread; their resumptions may be destroyed on any.
class Home : public RefCounted {
 public:
  /// This thread's.
  static const IntrusivePtr<Home>& here();
  bool is_here() const noexcept { return this == here_; }

  void enter(Computation& computation) noexcept {
    computation.next_ = first_;
    if (first_) first_->previous_ = &computation;
    first_ = &computation;
  }
  void leave(Computation& computation) noexcept {
    (computation.previous_ ? computation.previous_->next_ : first_) = computation.next_;
    if (computation.next_) computation.next_->previous_ = computation.previous_;
  }
  /// From any thread: a computation of this one is not wanted any more.
  void give_up(Computation* computation, const void* ticket) noexcept {
    {
      const std::lock_guard lock(mutex_);
      if (!ended_) {
        given_up_.emplace_back(computation, ticket);
        any_.store(true, std::memory_order_release);
        return;
      }
    }
    // The thread has ended, and all its computations with it: one object is left, which others may let go of as well.
    static std::mutex one_at_a_time;
    const std::lock_guard lock(one_at_a_time);
    ComputationPtr::adopt(computation) = nullptr;
  }
  /// Drops what others gave up.
  void tidy() noexcept {
    if (!any_.load(std::memory_order_acquire)) return;
    std::vector<std::pair<Computation*, const void*>> given_up;
    {
      const std::lock_guard lock(mutex_);
      given_up.swap(given_up_);
      any_.store(false, std::memory_order_relaxed);
    }
    for (const auto& [computation, ticket] : given_up) Computation::give_up(computation, ticket);
  }

 private:
  struct EndWithThread {
    IntrusivePtr<Home> home;
    ~EndWithThread() { home->end(); }
  };
  void end() noexcept {
    for (;;) {
      tidy();
      Computation* waiting = first_;
      while (waiting && !waiting->pending_) waiting = waiting->next_;
      if (waiting) {
        waiting->ended_with_ = "its thread";
        waiting->cancel_quietly();
        continue;
      }
      const std::lock_guard lock(mutex_);
      if (given_up_.empty()) {
        ended_ = true;
        break;
      }
    }
    here_ = nullptr;
  }

  static constinit thread_local Home* here_;
  Computation* first_ = nullptr;
  std::mutex mutex_;
  std::vector<std::pair<Computation*, const void*>> given_up_;
  std::atomic<bool> any_{false};
  bool ended_ = false;
};
constinit thread_local Home* Home::here_ = nullptr;

const IntrusivePtr<Home>& Home::here() {
  static thread_local EndWithThread of_thread{make_intrusive<Home>()};
  here_ = of_thread.home.get();
  return of_thread.home;
}

Computation::Computation(ControlledPtr controlled)
    : controlled_(std::move(controlled)), fiber_([](void* self) { static_cast<Computation*>(self)->enter(); }, this),
      home_(Home::here()) {
  home_->tidy();
  home_->enter(*this);
}

Computation::~Computation() {
  if (home_->is_here()) home_->leave(*this);
}

void Computation::give_up(Computation* computation, const void* ticket) noexcept {
  if (!computation->home_->is_here()) {
    const IntrusivePtr<Home> home = computation->home_;
    return home->give_up(computation, ticket);
  }
  const ComputationPtr last = ComputationPtr::adopt(computation);
  if (last->waits_for(ticket)) last->cancel_quietly();
}

// ---- running -------------------------------------------------------------------------------------------------

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
    unwound_by_another_ = !cancelled_;
  } catch (...) {
    thrown_ = std::current_exception();
  }
  state_ = State::ended;
}

// Flattened: the calls of its parts were 8 % of a suspension.
[[gnu::flatten]] void Computation::run() {
  const ComputationPtr alive(this);  // its resumption may be the last owner, and is used up
  Frame* const resumer = current;
  if (handling_) handling_->performer = nullptr;  // the program goes on: it is no longer hidden at that point
  frame_.unwinding = std::uncaught_exceptions() > 0;
  do {
    go_on(resumer);
    if (!ended()) give_to_controller();
  } while (state_ == State::answered);
  if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
  if (!std::exchange(unwound_by_another_, false)) return;
  if (dropped_around()) throw Cancelled{.in_progress = true};
  cancelled_ = true;  // by one around it that is gone
}

struct Computation::Hosts {
  struct Host {
    IntrusivePtr<HandlerFrame::Standing> standing;
    Interception* at_work;
  };
  std::vector<Host> list;
};

// To its stack, and back when it waits or has ended.
void Computation::go_on(Frame* resumer) {
  const auto put_below = [resumer](Frame& frame) {
    frame.below = resumer;
    frame.nearest = resumer ? resumer->nearest : nullptr;
  };
  frame_.below = resumer;
  if (pending_) put_below(*top_);  // the interception by this computation's frame: what is below has changed
  if (hosts_)
    for (const Hosts::Host& host : hosts_->list)
      if (!host.standing->stands) put_below(*host.at_work);
  pending_ = nullptr;
  state_ = State::running;
  current = std::exchange(top_, nullptr);
  fiber_.resume();
  current = resumer;
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
      if (computation.state_ == State::handled) computation.state_ = State::waiting;
    }
  } end{*this, handling_ = &at_work};
  state_ = State::handled;
  try {
    pending_->hand_over(*this);
  } catch (const Cancelled& dropped) {
    // That of a computation around this one goes on. Else this one may have been dropped, through one nested in its operation.
    if (!dropped.in_progress && cancelled_ && ended()) return;
    unwind_answered();
    throw;
  } catch (...) {
    unwind_answered();
    throw;
  }
}

// What its controller threw after it had given the answer: nobody else will cancel it.
void Computation::unwind_answered() noexcept {
  if (state_ == State::answered) cancel_quietly();
}

Computation::Outcome Computation::suspend(Suspension& suspension) {
  if (cancelled_) return may_throw() ? Outcome::cancelled : Outcome::below;
  if (static_cast<Interception*>(current)->answering != &frame_) [[unlikely]]
    return stand_still_inside_others(suspension);
  return stand_still(suspension);
}

Computation::Outcome Computation::stand_still(Suspension& suspension) {
  pending_ = &suspension;
  state_ = State::waiting;
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

// ---- inside the `handle` of handlers below the controller ------------------------------------------------------

namespace {

// The interceptions between `first` and `last` that hide `sought`: those by handlers below it. Whether it is there at all.
bool find_hiding(Frame* first, const Frame* last, const Frame* sought, FunctionRef<void(Interception&)> found) {
  for (Frame* frame = first; frame; frame = frame->below) {
    if (frame == sought) return true;
    if (frame->kind == Frame::Kind::interception) {
      auto& interception = static_cast<Interception&>(*frame);
      if (find_hiding(interception.performer, interception.answering, sought, found)) {
        if (interception.answering) found(interception);
        return true;
      }
    }
    if (frame == last) break;
  }
  return false;
}

}  // namespace

Computation::Outcome Computation::stand_still_inside_others(Suspension& suspension) {
  Hosts hosts;
  struct Register {
    Computation& computation;
    Hosts& hosts;
    Register(Computation& of, Hosts& those) : computation(of), hosts(those) {
      for (const Hosts::Host& host : hosts.list) host.standing->inside.push_back(&computation);
      computation.hosts_ = &hosts;
    }
    ~Register() {
      for (const Hosts::Host& host : hosts.list) std::erase(host.standing->inside, &computation);
      computation.hosts_ = nullptr;
    }
  };
  find_hiding(current, nullptr, &frame_, [&](Interception& at_work) {
    hosts.list.push_back({&static_cast<HandlerFrame*>(at_work.answering)->standing(), &at_work});
  });
  const Register until_it_goes_on(*this, hosts);
  return stand_still(suspension);
}

void Computation::installation_ends(const std::string& handler, bool shared) noexcept {
  if (!shared) {
    ended_with_ = handler;
    return cancel_quietly();
  }
  for (Hosts::Host& host : hosts_->list)
    if (!host.standing->stands) host.at_work->answering = &frame_;  // what it hides ends there
}

// ---- cancelling ------------------------------------------------------------------------------------------------

void Computation::cancel() {
  if (ended()) return;
  cancelled_ = true;
  if (!pending_) return;  // it waits inside another one that is suspended: its next effect throws
  pending_->answer = Suspension::Answer::cancel;
  run();
}

void Computation::cancel_quietly() noexcept {
  try {
    cancel();
  } catch (
      ...) {  // an exception is on its way already, and comes first; in a destructor there is no place for it to go
  }
}

namespace {

// All frames of the stacks that run, hidden ones as well; from inside out.
const Frame* next_on_stack(const Frame& frame) noexcept {
  const Frame* hidden =
      frame.kind == Frame::Kind::interception ? static_cast<const Interception&>(frame).performer : nullptr;
  return hidden ? hidden : frame.below;
}

}  // namespace

bool Computation::dropped_around() const noexcept {
  for (Frame* frame = current; frame; frame = const_cast<Frame*>(next_on_stack(*frame)))
    if (frame->kind == Frame::Kind::computation && of(*frame).cancelled_) return true;
  return false;
}

// Not while an exception is in flight on the stacks between here and this computation's end, nor under an Uncancellable.
bool Computation::may_throw() const noexcept {
  if (std::uncaught_exceptions() > 0) return false;
  for (const Frame* frame = current; frame && frame != &frame_; frame = next_on_stack(*frame)) {
    if (const auto answers = frame->handler ? frame->handler->answered_effects() : nullptr)
      if (answers(effect_type<MayCancel>())) return false;
    if (frame->kind == Frame::Kind::computation && static_cast<const ControllerFrame*>(frame)->unwinding) return false;
  }
  return true;
}

// ---- misuse ----------------------------------------------------------------------------------------------------

Suspension& Computation::waiting(const void* ticket) {
  if (!home_->is_here()) fail_transform("resume: the computation began on another thread, and can only go on there");
  if (pending_ != ticket) throw_not_waiting();
  return *pending_;
}

Suspension& Computation::pending(const void* ticket) {
  Suspension& suspension = waiting(ticket);
  if (stack_is_nearly_full()) [[unlikely]]
    fail_transform(
        "resume: the stack is nearly full. Each resume in `handle` runs the rest of the program inside of it: end "
        "`handle` with resume_last instead, which needs no stack");
  return suspension;
}

void Computation::throw_not_waiting() const {
  if (!ended_with_.empty())
    fail_transform(
        "resume: the computation stood still inside " + ended_with_ +
        ", which has ended, and ended with it; a handler that is given to `with` as a std::shared_ptr lives on");
  fail_transform(
      "resume: the computation was cancelled when `with` of its controller ended; for computations that go on later, "
      "give `with` a std::shared_ptr of the controller");
}

void Computation::throw_not_in_handle(const void* ticket) {
  static_cast<void>(waiting(ticket));
  fail_transform("resume_last: `handle` has returned; it is for the end of `handle`, use resume elsewhere");
}

// ---- with ------------------------------------------------------------------------------------------------------

void run_with(Computation& computation) {
  Controlled& controlled = computation.controlled();
  struct End {
    Controlled& controlled;
    ~End() { controlled.end_with(); }
  } end{controlled};
  try {
    computation.run();
  } catch (...) {
    if (!controlled.shared()) computation.cancel_quietly();
    throw;
  }
  if (!controlled.shared()) return computation.cancel();
  // It may stand still while it unwinds, for one around it was dropped: what follows here was dropped as well.
  if (!computation.ended() && computation.dropped_around()) throw Cancelled{.in_progress = true};
}

void run_to_its_end(Computation& computation) {
  computation.run();
  if (computation.cancelled()) throw Cancelled();
  if (computation.ended()) return;
  computation.cancel_quietly();
  fail_transform(
      "a controller kept the rest of a function that an operation runs, such as a checkpoint's: it must resume or drop "
      "it before `handle` returns");
}

}  // namespace stave_detail
