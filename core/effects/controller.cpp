// The life of a computation. run() switches to its stack and back, hands its effect
// to the controller, and repeats this as long as each `handle` ends with an answer.
// `suspend` and `go_on` connect the two stacks and set the current frame.
#include <stave/core/effects/controller.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include <stave/core/effects/error.h>
#include <stave/core/effects/fiber_state.h>
#include <stave/core/effects/sanitize.h>

namespace stave_detail {

void throw_used_resumption() {
  fail_transform(
      "resume: this resumption was used or moved from; a computation can be resumed from one point only once");
}

void throw_no_exception() {
  fail_transform(
      "resume_throwing: no exception is given; std::current_exception() returns one only inside a catch block");
}

constinit SlotHandling passing_on;

// ---- a thread and its computations --------------------------------------------------------------

// The computations of one thread. They live and end on that thread; their resumptions may be
// destroyed on any thread.
class ThreadComputations : public RefCounted {
 public:
  /// The computations of this thread.
  static ThreadComputations& here();
  bool is_here() const noexcept { return this == here_; }
  /// Returns memory for a computation, from a list of free blocks: malloc and free would take a
  /// fifth of the life of a short computation.
  static void* take(std::size_t bytes);
  static void give(void* memory, std::size_t bytes) noexcept;

  void enter(Computation& computation) noexcept {
    computation.next_ = first_;
    if (first_) first_->previous_ = &computation;
    first_ = &computation;
  }
  void leave(Computation& computation) noexcept {
    if (!is_here()) return uncount_for_one();  // the computation's thread has ended
    (computation.previous_ ? computation.previous_->next_ : first_) = computation.next_;
    if (computation.next_) computation.next_->previous_ = computation.previous_;
  }
  /// Drops a computation of this thread. It may be called on any thread.
  void give_up(Computation* computation, const void* ticket) noexcept {
    {
      const std::lock_guard lock(mutex_);
      if (!ended_) {
        given_up_.emplace_back(computation, ticket);
        any_.store(true, std::memory_order_release);
        return;
      }
    }
    // The thread has ended, and all its computations with it. Only the object is left, and other
    // threads may release it as well.
    static std::mutex one_at_a_time;
    const std::lock_guard lock(one_at_a_time);
    ComputationPtr::adopt(computation) = nullptr;
  }
  /// Drops the computations that other threads gave up.
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
    IntrusivePtr<ThreadComputations> computations;
    ~EndWithThread() { computations->end(); }
  };
  void end() noexcept {
    for (;;) {
      tidy();
      Computation* waiting = first_;
      while (waiting && !waiting->pending_) waiting = waiting->next_;
      if (waiting) {
        const ComputationPtr alive(waiting);
        waiting->ended_with_ = "its thread";
        waiting->cancel_quietly();
        continue;
      }
      const std::lock_guard lock(mutex_);
      if (given_up_.empty()) {
        // From here on each computation holds a reference to this object.
        for (const Computation* left = first_; left; left = left->next_) count(*this);
        ended_ = true;
        break;
      }
    }
    here_ = nullptr;
    while (free_) ::operator delete(std::exchange(free_, free_->next));
  }
  void uncount_for_one() noexcept { IntrusivePtr<ThreadComputations>::adopt(this) = nullptr; }

  static constinit thread_local ThreadComputations* here_;
  Computation* first_ = nullptr;
  std::mutex mutex_;
  std::vector<std::pair<Computation*, const void*>> given_up_;
  std::atomic<bool> any_{false};
  bool ended_ = false;

  struct FreeBlock {
    FreeBlock* next;
  };
  // Under ASan no block is cached, so that ASan knows which memory is free.
  static constexpr std::size_t block_bytes = STAVE_ASAN ? 0 : 512, most_free = 64;
  FreeBlock* free_ = nullptr;
  std::size_t free_count_ = 0;
};
constinit thread_local ThreadComputations* ThreadComputations::here_ = nullptr;

ThreadComputations& ThreadComputations::here() {
  if (here_) return *here_;
  static thread_local EndWithThread of_thread{make_intrusive<ThreadComputations>()};
  here_ = of_thread.computations.get();
  return *here_;
}

void* ThreadComputations::take(std::size_t bytes) {
  if (bytes > block_bytes) return ::operator new(bytes);
  ThreadComputations& computations = here();
  if (!computations.free_) return ::operator new(block_bytes);
  --computations.free_count_;
  return std::exchange(computations.free_, computations.free_->next);
}
void ThreadComputations::give(void* memory, std::size_t bytes) noexcept {
  if (bytes > block_bytes || !here_ || here_->free_count_ == most_free) return ::operator delete(memory);
  ++here_->free_count_;
  here_->free_ = new (memory) FreeBlock{here_->free_};
}
void* Computation::operator new(std::size_t bytes) { return ThreadComputations::take(bytes); }
void Computation::operator delete(void* memory, std::size_t bytes) noexcept { ThreadComputations::give(memory, bytes); }

Computation::Computation(std::shared_ptr<AnyController> owner, ControlledPtr controlled)
    : owner_(std::move(owner)), controlled_(std::move(controlled)),
      fiber_([](void* self) { static_cast<Computation*>(self)->enter(); }, this), thread_(&ThreadComputations::here()) {
  thread_->tidy();
  thread_->enter(*this);
}

Computation::~Computation() { thread_->leave(*this); }

void Computation::give_up(Computation* computation, const void* ticket) noexcept {
  if (!computation->thread_->is_here()) {
    const IntrusivePtr<ThreadComputations> computations(computation->thread_);
    return computations->give_up(computation, ticket);
  }
  const ComputationPtr last = ComputationPtr::adopt(computation);
  if (last->waits_for(ticket)) last->cancel_quietly();
}

// ---- running ------------------------------------------------------------------------------------

void Computation::install(AnyHandler* handler, SlotHandling slot) noexcept {
  frame_.handler = handler;
  frame_.slot = slot;
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

// The first part of run(), which then leaves this stack for the computation's; finish_run is the
// second part. The caller holds a reference to the computation, since its resumption is used up.
__attribute__((no_sanitize("thread"))) Departure Computation::begin_run() {
  // The program's frames are on the stack again, so this interception does not hide them.
  if (handling_) handling_->performer = nullptr;
  frame_.unwinding = exceptions_in_flight();
  go_on(current);
  return fiber_.begin_resume();
}

/// Returns true if the computation is suspended, false if it has ended.
bool Computation::finish_run(Context* left, Frame* resumer) {
  fiber_.finish_resume(left);
  current = resumer;
  if (!ended()) return true;
  finish();
  return false;
}

// One function for the whole loop: separate calls of its parts took 8 % of a suspension.
void Computation::run_answered(Frame* resumer) {
  do {
    go_on(resumer);
    fiber_.resume_here();
    current = resumer;
    if (ended()) return finish();
    give_to_controller<Suspension>(resumer);
  } while (state_ == State::answered);
}

// Ends the frame's installation now, while the controller still exists and error messages can name
// it: this object may outlive the controller.
void Computation::end_installation() noexcept {
  std::destroy_at(&frame_);
  std::construct_at(&frame_, *this);
}

[[gnu::noinline]] void Computation::finish() {
  if (frame_.known) end_installation();
  if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
  if (!std::exchange(unwound_by_another_, false)) return;
  if (dropped_around()) throw Cancelled{.in_progress = true};
  cancelled_ = true;  // the enclosing computation that was dropped no longer exists
}

struct Computation::Hosts {
  struct Host {
    IntrusivePtr<HandlerFrame::Installation> installation;
    Interception* at_work;
  };
  std::vector<Host> list;
};

// Prepares the switch to this computation's stack.
inline void Computation::go_on(Frame* resumer) noexcept {
  const auto put_below = [resumer](Frame& frame) {
    frame.below = resumer;
    frame.nearest = resumer ? resumer->nearest : nullptr;
  };
  frame_.below = resumer;
  // The interception of the waiting effect gets the same outer frames as the computation's frame.
  if (pending_) put_below(*top_);
  if (hosts_)
    for (const Hosts::Host& host : hosts_->list)
      if (!host.installation->installed) put_below(*host.at_work);
  pending_ = nullptr;
  state_ = State::running;
  current = std::exchange(top_, nullptr);
}

void Computation::controller_threw() {
  try {
    throw;
  } catch (const Cancelled& dropped) {
    // A Cancelled that unwinds an enclosing computation is rethrown below. Any other Cancelled ends
    // here if code that `handle` ran has cancelled this computation.
    if (!dropped.in_progress && cancelled_ && ended()) return;
  } catch (...) {
  }
  // The controller threw after it had given the answer: no other code will cancel the computation.
  if (state_ == State::answered) cancel_quietly();
  throw;
}

// TSan does not instrument this function, because the switch between it and finish_suspend also
// exchanges TSan's call stack.
__attribute__((no_sanitize("thread"))) Departure Computation::begin_suspend(Suspension& suspension) {
  if (cancelled_) return {};
  if (static_cast<Interception*>(current)->answering != &frame_) [[unlikely]]
    return suspend_inside_others(suspension), Departure{};
  mark_suspended(suspension);
  return fiber_.begin_suspend();
}

__attribute__((no_sanitize("thread"))) Computation::Outcome Computation::finish_suspend(Suspension& suspension,
                                                                                        Context* left) {
  if (left) fiber_.finish_suspend(left);
  if (suspension.answer == Suspension::Answer::value) return Outcome::answered;
  return finish_unanswered(suspension);
}

Computation::Outcome Computation::finish_unanswered(Suspension& suspension) {
  if (suspension.answer == Suspension::Answer::exception) std::rethrow_exception(std::exchange(answer_, nullptr));
  return can_unwind_here() ? Outcome::cancelled : Outcome::below;
}

void Computation::mark_suspended(Suspension& suspension) noexcept {
  pending_ = &suspension;
  state_ = State::waiting;
  top_ = current;
}

// ---- suspended inside the `handle` of outer handlers --------------------------------------------

namespace {

// Searches the frames from `first` outwards to `last`, hidden ones included, for `sought`; returns
// true if it is found. Calls `found` with each interception that hides `sought`: its handler is
// installed outside `sought` and answers an effect performed inside it.
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

void Computation::suspend_inside_others(Suspension& suspension) {
  Hosts hosts;
  struct Register {
    Computation& computation;
    Hosts& hosts;
    Register(Computation& of, Hosts& those) : computation(of), hosts(those) {
      // All lists reserve memory first, so that the computation is added to every list or to none.
      for (const Hosts::Host& host : hosts.list)
        host.installation->listeners.reserve(host.installation->listeners.size() + hosts.list.size());
      for (const Hosts::Host& host : hosts.list) host.installation->listeners.push_back(&computation);
      computation.hosts_ = &hosts;
    }
    ~Register() {
      for (const Hosts::Host& host : hosts.list) std::erase(host.installation->listeners, &computation);
      computation.hosts_ = nullptr;
    }
  };
  find_hiding(current, nullptr, &frame_, [&](Interception& at_work) {
    hosts.list.push_back({&static_cast<HandlerFrame*>(at_work.answering)->installation(), &at_work});
  });
  const Register until_it_goes_on(*this, hosts);
  mark_suspended(suspension);
  fiber_.suspend_here();
}

void Computation::installation_ends(const std::string& handler, bool shared) noexcept {
  if (!shared) {
    const ComputationPtr alive(this);
    ended_with_ = handler;
    return cancel_quietly();
  }
  for (Hosts::Host& host : hosts_->list)
    // The frame that `answering` points to is destroyed. From here on the controller's frame is the
    // last frame that this interception hides.
    if (!host.installation->installed) host.at_work->answering = &frame_;
}

// ---- cancelling ---------------------------------------------------------------------------------

void Computation::cancel() {
  if (ended()) return;
  cancelled_ = true;
  if (!pending_) return;  // it waits inside another suspended computation: its next effect throws
  pending_->answer = Suspension::Answer::cancel;
  run();
}

void Computation::cancel_quietly() noexcept {
  try {
    cancel();
  } catch (
      // An exception is in flight already and takes precedence; a destructor cannot throw
      // another one.
      ...) {
  }
}

namespace {

// The next frame, from inside out, among all frames of the running stacks, hidden ones included.
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

// Returns false while an exception is in flight on the stacks between here and this computation's
// frame, or while an Uncancellable lives there.
bool Computation::can_unwind_here() const noexcept {
  if (exceptions_in_flight()) return false;
  for (const Frame* frame = current; frame && frame != &frame_; frame = next_on_stack(*frame)) {
    if (const auto answers = frame->handler ? frame->handler->answered_effects() : nullptr)
      if (answers(effect_type<UncancellableMark>())) return false;
    if (frame->kind == Frame::Kind::computation && static_cast<const ControllerFrame*>(frame)->unwinding) return false;
  }
  return true;
}

// ---- misuse -------------------------------------------------------------------------------------

Suspension& Computation::waiting(const void* ticket) {
  if (!thread_->is_here() || pending_ != ticket) throw_not_waiting();
  return *pending_;
}

namespace {
[[noreturn, gnu::noinline]] void throw_stack_is_nearly_full() {
  fail_transform(
      "resume: the stack is nearly full. Each resume in `handle` runs the rest of the program inside `handle`: end "
      "`handle` with resume_last instead, which needs no stack");
}
}  // namespace

Suspension& Computation::pending(const void* ticket) {
  if (!thread_->is_here() || pending_ != ticket) [[unlikely]]
    throw_not_waiting();
  if (little_stack_is_left()) [[unlikely]]
    throw_stack_is_nearly_full();
  return *pending_;
}

void Computation::throw_not_waiting() const {
  if (!thread_->is_here())
    fail_transform("resume: the computation began on another thread, and can be resumed only there");
  if (!ended_with_.empty())
    fail_transform("resume: the computation was suspended inside " + ended_with_ +
                   ", which has ended, and the computation with it; give that handler to `with` as a std::shared_ptr "
                   "to keep it alive");
  fail_transform(
      "resume: the computation was cancelled when `with` of its controller ended; to resume it later, give `with` a "
      "std::shared_ptr of the controller");
}

void Computation::throw_not_in_handle(const void* ticket) {
  static_cast<void>(waiting(ticket));
  fail_transform(
      "resume_last: `handle` has returned; call resume_last only at the end of `handle`, and resume elsewhere");
}

// ---- with ---------------------------------------------------------------------------------------

void run_with(Computation& computation) {
  struct End {
    Computation& computation;
    ~End() { computation.end_with(); }
  } end{computation};
  try {
    computation.run();
  } catch (...) {
    if (!computation.shared()) computation.cancel_quietly();
    throw;
  }
  if (!computation.shared()) return computation.cancel();
  // The computation may be suspended while it unwinds, because a computation around it was dropped.
  // Then the code that follows here was dropped as well.
  if (!computation.ended() && computation.dropped_around()) throw Cancelled{.in_progress = true};
}

bool run_to_its_end(Computation& computation) {
  computation.run();
  if (computation.cancelled()) throw Cancelled();
  if (computation.ended()) return true;
  computation.cancel_quietly();
  return false;
}

}  // namespace stave_detail
