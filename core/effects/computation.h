// What stands behind controller.h: a computation, which is a body on a stack of its own under the frame of its controller, and an
// effect of it that waits. Start at `Computation`; what runs between a resume and the next effect is inlined from here.
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
class Home;

// An effect that waits for its answer, on the stack of the computation that performed it.
struct Suspension {
  enum class Answer : std::uint8_t { none, value, exception, cancel };
  Answer answer = Answer::none;
  const EffectType& effect_type;
  explicit Suspension(const EffectType& effect_type_) noexcept : effect_type(effect_type_) {}
  /// Gives the effect to the controller.
  virtual void hand_over(Computation& computation) = 0;

 protected:
  ~Suspension() = default;
};

// A controller, as all computations that began under one `with` of it know it.
class Controlled : public RefCounted {
 public:
  explicit Controlled(std::shared_ptr<AnyController> owner) noexcept : owner_(std::move(owner)) {}
  virtual ~Controlled() = default;
  /// Whether a computation may outlive the `with` that began it.
  bool shared() const noexcept { return static_cast<bool>(owner_); }
  /// Whether the controller is there.
  bool stands() const noexcept { return shared() || !with_ended_; }
  /// A controller that `with` was lent may be gone.
  void end_with() noexcept { with_ended_ = true; }
  /// Another body under it, as a computation of its own. Throws Cancelled if that is dropped.
  virtual void run_nested(stave::FunctionRef<void()> body) = 0;

 private:
  const std::shared_ptr<AnyController> owner_;  // null: lent
  bool with_ended_ = false;
};
using ControlledPtr = IntrusivePtr<Controlled>;

// A body on a stack of its own, under the frame of its controller.
//
//   state      what it does                                             goes on to
//   ready      nothing yet                                              running, by run()
//   running    its body runs                                            waiting, by suspend(); ended
//   waiting    its body waits for the answer to an effect               handled, at once; running, by run()
//   handled    the same, and the controller's `handle` is at work       answered, by resume_last; running, by run(); waiting
//   answered   `handle` has given the answer and is about to return     running
//   ended      nothing any more                                         -
//
// Beside that, it may be cancelled: its effects throw.
class Computation : public ThreadCounted, public SuspendedInside {
 public:
  /// `owner` of its controller, null if that is lent; `controlled` where there is one already.
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

  /// Runs it until it ends, or its controller lets it stand. Rethrows what leaves the body.
  /// `Expected`: the suspension that it will most likely stand still at next, which is then handled without a call.
  template <class Expected = Suspension>
  [[gnu::always_inline]] void run() {
    Frame* const resumer = current;
    const Departure departure = begin_run();
    if (!stands_still(departure.leave(), resumer)) return;
    give_to_controller<Expected>(resumer);
    if (state_ == State::answered) [[unlikely]]
      run_answered(resumer);
  }
  /// The rest is not wanted. Rethrows what leaves the body, but for Cancelled.
  void cancel();
  void cancel_quietly() noexcept;
  /// On any thread: lets go of a reference, and drops the computation if it waits with this ticket.
  static void give_up(Computation* computation, const void* ticket) noexcept;
  enum class Outcome : std::uint8_t { answered, cancelled, below };
  /// On the computation's own stack: waits for an answer, rethrows it if it is an exception. `cancelled`: the caller throws
  /// Cancelled itself, since each function that it leaves costs half a microsecond; `below`: it performs the
  /// effect there.
  Outcome suspend(Suspension& suspension) {
    const Departure departure = begin_suspend(suspension);
    return finish_suspend(suspension, departure.here ? departure.leave() : nullptr);
  }
  /// Answers the effect that waits by an exception.
  void answer_throwing(Suspension& suspension, std::exception_ptr exception) noexcept {
    answer_ = std::move(exception);
    suspension.answer = Suspension::Answer::exception;
  }
  /// The effect that waits. Throws if the computation is not suspended there any more, or on another thread.
  Suspension& waiting(const void* ticket);
  /// The same for who goes on with it now. Throws if the stack is nearly full as well.
  Suspension& pending(const void* ticket);
  /// As `pending`, for who will go on with it when `handle` has returned. Throws outside of `handle` as well.
  Suspension& pending_in_handle(const void* ticket) {
    if (pending_ != ticket || state_ != State::handled) [[unlikely]]
      throw_not_in_handle(ticket);
    return *pending_;
  }
  /// The answer is given, and `handle` is about to return: run() goes on.
  void continue_after_handle() noexcept { state_ = State::answered; }
  bool waits_for(const void* ticket) const noexcept { return pending_ == ticket; }
  bool cancelled() const noexcept { return cancelled_; }
  bool ended() const noexcept { return state_ == State::ended; }
  /// Whether the calling code runs on its stack.
  bool running() const noexcept { return fiber_.running(); }
  /// Whether one that runs around the calling code was dropped.
  bool dropped_around() const noexcept;
  /// Whether it may outlive the `with` that began it.
  bool shared() const noexcept { return static_cast<bool>(owner_); }
  Controlled& controlled() {
    if (!controlled_) controlled_ = make_controlled(owner_);
    return *controlled_;
  }
  void end_with() noexcept {
    if (controlled_) controlled_->end_with();
  }
  /// The one whose frame this is.
  static Computation& of(Frame& frame) noexcept { return static_cast<ControllerFrame&>(frame).computation; }

 protected:
  virtual void body() = 0;
  virtual ControlledPtr make_controlled(std::shared_ptr<AnyController> owner) = 0;
  void install(AnyHandler* handler, Handling<Call>* operations) noexcept;

 private:
  friend class Home;
  enum class State : std::uint8_t { ready, running, waiting, handled, answered, ended };
  struct ControllerFrame : HandlerFrame {
    Computation& computation;
    bool unwinding = false;  // an exception is in flight where the computation was resumed
    explicit ControllerFrame(Computation& of) noexcept
        : HandlerFrame(nullptr, nullptr, nullptr, Kind::computation), computation(of) {}
  };
  struct Hosts;
  void enter() noexcept;
  Departure begin_run();
  bool stands_still(Context* left, Frame* resumer);
  void run_answered(Frame* resumer);
  void go_on(Frame* resumer) noexcept;
  void finish();
  void end_installation() noexcept;
  // `handle` stands where the frames below the controller's are current; what performed the effect shows in errors.
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
  void stand_still(Suspension& suspension) noexcept;
  void stand_still_inside_others(Suspension& suspension);
  void installation_ends(const std::string& handler, bool shared) noexcept override;
  bool may_throw() const noexcept;
  [[noreturn]] void throw_not_in_handle(const void* ticket);
  [[noreturn]] void throw_not_waiting() const;

  ControllerFrame frame_{*this};      // the lowest on its stack; what is below is the resumer's
  Frame* top_ = &frame_;              // while it stands still
  Suspension* pending_ = nullptr;     // what it waits for
  Interception* handling_ = nullptr;  // its controller at work
  Hosts* hosts_ = nullptr;            // while it stands still inside handlers below its controller
  std::exception_ptr answer_;         // to what it waits for, if that is an exception
  std::exception_ptr thrown_;         // what left the body
  std::string ended_with_;            // the handler with which it had to end
  const std::shared_ptr<AnyController> owner_;
  ControlledPtr controlled_;  // null until somebody asks
  State state_ = State::ready;
  bool cancelled_ = false;
  bool unwound_by_another_ = false;  // the Cancelled of a computation around it left the body
  Fiber fiber_;
  Home* const home_;                                   // of its thread, and alive as long as this
  Computation *previous_ = nullptr, *next_ = nullptr;  // at home
};
using ComputationPtr = IntrusivePtr<Computation>;

}  // namespace stave_detail
