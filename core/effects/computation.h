// The implementation of controller.h: a computation, which is a body on a stack of its own under
// the frame of its controller, and the effect whose answer it waits for. Start at `Computation`.
// The code between a resume and the next effect is inlined from this file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <type_traits>
#include <utility>

#include <stave/core/effects/effect.h>
#include <stave/core/effects/fiber.h>
#include <stave/core/effects/function_ref.h>
#include <stave/core/effects/intrusive.h>

namespace stave {
class AnyController;
}

namespace stave_detail {

class Computation;
class ThreadComputations;

// An effect that waits for its answer. It lives on the stack of the computation that performed it.
struct Suspension {
  enum class Answer : std::uint8_t { none, value, exception, cancel };
  Answer answer = Answer::none;
  const EffectType& effect_type;
  explicit Suspension(const EffectType& effect_type_) noexcept : effect_type(effect_type_) {}
  /// Hands the effect to the controller.
  virtual void hand_over(Computation& computation) = 0;

 protected:
  ~Suspension() = default;
};

// The record of a controller, shared by all computations that began under one `with` of the
// controller.
class Controlled : public RefCounted {
 public:
  explicit Controlled(std::shared_ptr<AnyController> owner) noexcept : owner_(std::move(owner)) {}
  virtual ~Controlled() = default;
  /// Returns true if a computation may outlive the `with` that began it.
  bool shared() const noexcept { return static_cast<bool>(owner_); }
  /// Returns true if the controller still exists.
  bool exists() const noexcept { return shared() || !with_ended_; }
  /// Records that the `with` has ended. From then on a borrowed controller may not exist.
  void end_with() noexcept { with_ended_ = true; }
  /// Runs another body under the controller, as a computation of its own. Throws Cancelled if
  /// that computation is dropped. Returns false if the controller did not let the body end.
  virtual bool run_nested(stave::FunctionRef<void()> body) = 0;

 private:
  const std::shared_ptr<AnyController> owner_;  // null: the controller is borrowed
  bool with_ended_ = false;
};
using ControlledPtr = IntrusivePtr<Controlled>;

// A body on a stack of its own, under the frame of its controller.
//
//   state      meaning                                            next state
//   ready      it has not started                                 running, by run()
//   running    its body runs                                      waiting, by suspend(); ended
//   waiting    its body waits for the answer to an effect         handled, immediately;
//                                                                 running, by run()
//   handled    its body waits, and the controller's `handle` runs answered, by resume_last;
//                                                                 running, by run(); waiting
//   answered   `handle` has answered and is about to return       running
//   ended      its body has ended                                 -
//
// In every state it may also be cancelled: then its effects throw.
class Computation : public ThreadCounted, public InstallationListener {
 public:
  /// `owner`: the shared owner of the controller; null if the controller is borrowed. `controlled`:
  /// the existing record of the controller, if there is one.
  Computation(std::shared_ptr<AnyController> owner, ControlledPtr controlled);
  virtual ~Computation();
  Computation(const Computation&) = delete;
  Computation& operator=(const Computation&) = delete;
  static void* operator new(std::size_t bytes);
  static void operator delete(void* memory, std::size_t bytes) noexcept;
  static void* operator new(std::size_t bytes, std::align_val_t alignment) { return ::operator new(bytes, alignment); }
  static void operator delete(void* memory, std::size_t, std::align_val_t alignment) noexcept {
    ::operator delete(memory, alignment);
  }

  /// Runs the computation until it ends, or is suspended and its controller returns without
  /// an answer. Rethrows an exception that leaves the body. `Expected`: the most likely type
  /// of the next suspension, which is then handled without a virtual call.
  template <class Expected = Suspension>
  [[gnu::always_inline]] void run() {
    Frame* const resumer = current;
    const Departure departure = begin_run();
    if (!finish_run(departure.leave(), resumer)) return;
    give_to_controller<Expected>(resumer);
    if (state_ == State::answered) [[unlikely]]
      run_answered(resumer);
  }
  /// Cancels the computation. Rethrows an exception other than Cancelled that leaves the body.
  void cancel();
  void cancel_quietly() noexcept;
  /// Releases a reference, and drops the computation if it still waits at the suspension that
  /// `ticket` identifies (the address of its Suspension). May be called on any thread.
  static void give_up(Computation* computation, const void* ticket) noexcept;
  enum class Outcome : std::uint8_t { answered, cancelled, below };
  /// Suspends the computation until an answer is given; called on the computation's own stack.
  /// Rethrows an answer that is an exception. `cancelled`: the caller throws Cancelled itself,
  /// since each function that an exception leaves costs half a microsecond. `below`: the caller
  /// performs the effect again, so that the handlers outside the controller answer.
  Outcome suspend(Suspension& suspension) {
    const Departure departure = begin_suspend(suspension);
    return finish_suspend(suspension, departure.here ? departure.leave() : nullptr);
  }
  /// Answers the waiting effect with an exception.
  void answer_throwing(Suspension& suspension, std::exception_ptr exception) noexcept {
    answer_ = std::move(exception);
    suspension.answer = Suspension::Answer::exception;
  }
  /// The effect that waits. Throws if the computation is no longer suspended at this effect,
  /// or began on another thread.
  Suspension& waiting(const void* ticket);
  /// As `waiting`, for a caller that continues the computation now. Also
  /// throws if the stack is nearly full.
  Suspension& pending(const void* ticket);
  /// As `waiting`, for a caller that continues the computation after `handle` has returned. Also
  /// throws outside of `handle`.
  Suspension& pending_in_handle(const void* ticket) {
    if (pending_ != ticket || state_ != State::handled) [[unlikely]]
      throw_not_in_handle(ticket);
    return *pending_;
  }
  /// Records that the answer is given and that `handle` is about to return. When it has returned,
  /// run() continues the computation.
  void continue_after_handle() noexcept { state_ = State::answered; }
  bool waits_for(const void* ticket) const noexcept { return pending_ == ticket; }
  bool cancelled() const noexcept { return cancelled_; }
  bool ended() const noexcept { return state_ == State::ended; }
  /// Returns true if the calling code runs on this computation's stack.
  bool running() const noexcept { return fiber_.running(); }
  /// Returns true if one of the computations that the calling code runs in was dropped.
  bool dropped_around() const noexcept;
  /// Returns true if this computation may outlive the `with` that began it.
  bool shared() const noexcept { return static_cast<bool>(owner_); }
  Controlled& controlled() {
    if (!controlled_) controlled_ = make_controlled(owner_);
    return *controlled_;
  }
  void end_with() noexcept {
    if (controlled_) controlled_->end_with();
  }
  /// The computation that owns this frame.
  static Computation& of(Frame& frame) noexcept { return static_cast<ControllerFrame&>(frame).computation; }

 protected:
  virtual void body() = 0;
  virtual ControlledPtr make_controlled(std::shared_ptr<AnyController> owner) = 0;
  void install(AnyHandler* handler, SlotHandling slot) noexcept;

 private:
  friend class ThreadComputations;
  enum class State : std::uint8_t { ready, running, waiting, handled, answered, ended };
  struct ControllerFrame : HandlerFrame {
    Computation& computation;
    bool unwinding = false;  // an exception is in flight where the computation was resumed
    explicit ControllerFrame(Computation& of) noexcept : HandlerFrame(Kind::computation), computation(of) {}
  };
  struct Hosts;
  void enter() noexcept;
  Departure begin_run();
  bool finish_run(Context* left, Frame* resumer);
  void run_answered(Frame* resumer);
  void go_on(Frame* resumer) noexcept;
  void finish();
  void end_installation() noexcept;
  // Runs the controller's `handle`. Meanwhile the frames outside the controller's frame are
  // current; errors also list the handlers around the code that performed the effect.
  template <class Expected>
  [[gnu::always_inline]] void give_to_controller(Frame* resumer) {
    Interception at_work(static_cast<Interception*>(top_)->performer, &frame_);
    current = handling_ = &at_work;
    state_ = State::handled;
    try {
      hand_over<Expected>();
    } catch (...) {
      controller_left(at_work, resumer);
      return controller_threw();
    }
    controller_left(at_work, resumer);
  }
  template <class Expected>
  [[gnu::always_inline]] void hand_over() {
    if constexpr (!std::is_same_v<Expected, Suspension>) {
      if (&pending_->effect_type == &Expected::type()) return static_cast<Expected*>(pending_)->hand_over(*this);
    }
    pending_->hand_over(*this);
  }
  void controller_left(const Interception& at_work, Frame* resumer) noexcept {
    current = resumer;
    if (handling_ == &at_work) handling_ = nullptr;
    if (state_ == State::handled) state_ = State::waiting;
  }
  void controller_threw();
  Departure begin_suspend(Suspension& suspension);
  Outcome finish_suspend(Suspension& suspension, Context* left);
  Outcome finish_unanswered(Suspension& suspension);
  void mark_suspended(Suspension& suspension) noexcept;
  void suspend_inside_others(Suspension& suspension);
  void installation_ends(const std::string& handler, bool shared) noexcept override;
  bool can_unwind_here() const noexcept;
  [[noreturn]] void throw_not_in_handle(const void* ticket);
  [[noreturn]] void throw_not_waiting() const;

  // The outermost frame on the computation's stack. The frames outside it belong to the code that
  // resumes the computation.
  ControllerFrame frame_{*this};
  Frame* top_ = &frame_;              // the top frame while the computation is suspended
  Suspension* pending_ = nullptr;     // the effect whose answer the computation waits for
  Interception* handling_ = nullptr;  // the controller's running `handle`
  // The handlers outside the controller whose running `handle` is suspended together with this
  // computation; null if there are none.
  Hosts* hosts_ = nullptr;
  std::exception_ptr answer_;  // the answer to the waiting effect, if it is an exception
  std::exception_ptr thrown_;  // the exception that left the body
  std::string ended_with_;     // the name of the handler whose end cancelled this computation
  const std::shared_ptr<AnyController> owner_;
  ControlledPtr controlled_;  // null until `controlled()` is called
  State state_ = State::ready;
  bool cancelled_ = false;
  // True if the Cancelled exception of an enclosing computation left the body.
  bool unwound_by_another_ = false;
  Fiber fiber_;
  // The record of this computation's thread. It lives at least as long as this computation.
  ThreadComputations* const thread_;
  Computation *previous_ = nullptr, *next_ = nullptr;  // neighbours in the list of thread_
};
using ComputationPtr = IntrusivePtr<Computation>;

}  // namespace stave_detail
