// Controllers: handlers that hold the rest of the program.
//
// An interceptor (effect.h) answers an effect by returning. A controller is given, with each effect that it wants, the rest of
// the computation as a value, a `Resumption`, and may resume it now, later, in another place, with any answer, by throwing
// into it, or not at all:
//
//   struct StopAtNan : Controller {                                // looks at every tensor operation
//     void handle(Call& call, Resumption<Call> rest) override {
//       Outputs outputs = perform(call);
//       if (any(isnan(outputs[0]))) return rest.drop();            // the computation unwinds: its destructors run
//       rest.resume_last(std::move(outputs));
//     }
//   };
//   std::optional<Tensor> y = with(stop_at_nan, [&] { return f(x); });   // empty if it was dropped
//
// The body of such a `with` runs on a stack of its own (fiber.h). When it performs an effect that the controller wants, it
// stands still, with all handlers installed inside it, and `handle` runs where the computation was last resumed; the
// handlers that are current there are those below the controller. When it goes on, its handlers stand above whatever the
// resumer stands under.
//
//   resume         one use; a second is an error. On the thread where the computation began.
//   frames         when `with` ends, computations still suspended are cancelled, unless they own the controller: with(shared_ptr)
//   handlers       a computation may stand still inside the `handle` of a handler that stands below its controller. When that
//                  handler's `with` ends, it is cancelled, and to resume it is an error that names the handler. A shared
//                  handler lives on instead.
//   cancelling     the suspended `perform` throws Cancelled, so destructors run. Where it must not throw (an exception is in
//                  flight there, or an Uncancellable stands), the effect is answered below the one who drops instead, and the
//                  next effect throws. A body that swallows Cancelled goes on until it performs again; its result is lost.
//                  Cancelled out of a `noexcept` function terminates, as any exception does.
//   threads        a resumption that is destroyed on another thread drops the computation on its own one: when that begins
//                  another computation, or ends. With its thread a computation ends.
#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <variant>

#include <stave/core/effects/effect.h>
#include <stave/core/effects/fiber.h>
#include <stave/core/effects/intrusive.h>

namespace stave {

/// Thrown through a computation that was dropped. No std::exception: nobody should catch it but to let it go on.
struct Cancelled {
  bool in_progress = false;  // an effect throws it, and all of the computation around is to unwind
};

/// Base of all controllers.
class AnyController {
 public:
  virtual ~AnyController() = default;
  /// For errors and traces. By default the name of the class.
  virtual std::string describe() const { return stave_detail::type_name(typeid(*this)); }
};

}  // namespace stave

namespace stave_detail {

// Asked of the frames above a suspended effect; nobody performs it.
struct MayCancel {
  using Result = bool;
};

}  // namespace stave_detail

namespace stave {

/// While it stands, cancelling waits: effects are answered below the one who drops.
class Uncancellable {
 public:
  Uncancellable() noexcept : frame_(stave_detail::current, &guard_), install_(&frame_) {}

 private:
  struct Guard final : Handles<stave_detail::MayCancel> {
    bool handle(stave_detail::MayCancel&) override { return false; }
    std::string describe() const override { return ""; }
  } guard_;
  HandlerFrame frame_;
  stave_detail::UnderFrame install_;
};

}  // namespace stave

namespace stave_detail {

class Computation;
class Home;

// An effect that waits for its answer, on the stack of the computation that performed it.
struct Suspension {
  enum class Answer : std::uint8_t { none, value, exception, cancel };
  Answer answer = Answer::none;
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
  explicit Computation(ControlledPtr controlled);
  virtual ~Computation();
  Computation(const Computation&) = delete;
  Computation& operator=(const Computation&) = delete;

  /// Runs it until it ends, or its controller lets it stand. Rethrows what leaves the body.
  void run();
  /// The rest is not wanted. Rethrows what leaves the body, but for Cancelled.
  void cancel();
  void cancel_quietly() noexcept;
  /// On any thread: lets go of a reference, and drops the computation if it waits with this ticket.
  static void give_up(Computation* computation, const void* ticket) noexcept;
  enum class Outcome : std::uint8_t { answered, cancelled, below };
  /// On the computation's own stack: waits for an answer, rethrows it if it is an exception. `cancelled`: the caller throws
  /// Cancelled itself, since each function that it leaves costs half a microsecond; `below`: it performs the
  /// effect there.
  Outcome suspend(Suspension& suspension);
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
  Controlled& controlled() const noexcept { return *controlled_; }
  /// The one whose frame this is.
  static Computation& of(Frame& frame) noexcept { return static_cast<ControllerFrame&>(frame).computation; }

 protected:
  virtual void body() = 0;
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
  void go_on(Frame* resumer);
  void give_to_controller();
  void unwind_answered() noexcept;
  Outcome stand_still(Suspension& suspension);
  Outcome stand_still_inside_others(Suspension& suspension);
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
  const ControlledPtr controlled_;
  State state_ = State::ready;
  bool cancelled_ = false;
  bool unwound_by_another_ = false;  // the Cancelled of a computation around it left the body
  Fiber fiber_;
  IntrusivePtr<Home> home_;                            // of its thread
  Computation *previous_ = nullptr, *next_ = nullptr;  // at home
};
using ComputationPtr = IntrusivePtr<Computation>;

[[noreturn]] void throw_used_resumption();
[[noreturn]] void throw_no_exception();

// Where an answer is given, its type may have a say: an overload for the effect, found by its arguments, throws.
template <class E, class R>
void check_answer_to(const E& effect, const R& answer) {
  if constexpr (requires { check_answer(effect, answer); }) check_answer(effect, answer);
}

template <class E>
struct SuspensionOf;

}  // namespace stave_detail

namespace stave {

/// The rest of a computation that waits for the answer to an effect E. Used at most once; destroyed unused, it is dropped.
template <class E>
class Resumption {
 public:
  using Result = typename E::Result;

  Resumption() noexcept = default;
  Resumption(Resumption&&) noexcept = default;
  Resumption& operator=(Resumption&& other) noexcept {
    if (this != &other) {
      Resumption old = std::move(*this);
      computation_ = std::move(other.computation_);
      ticket_ = other.ticket_;
    }
    return *this;
  }
  ~Resumption() {
    if (computation_) stave_detail::Computation::give_up(computation_.release(), ticket_);
  }

  /// Whether it can still be used.
  explicit operator bool() const noexcept { return static_cast<bool>(computation_); }

  /// Goes on with the answer now; returns when the computation has ended or stands still again. Rethrows what leaves its body.
  template <class... R>
  void resume(R&&... result) {
    answer(pending(), std::forward<R>(result)...);
    use()->run();
  }
  /// The same at the end of `handle`: goes on when that has returned. Needs no stack, however many operations follow.
  template <class... R>
  void resume_last(R&&... result) {
    if (!computation_) stave_detail::throw_used_resumption();
    answer(computation_->pending_in_handle(ticket_), std::forward<R>(result)...);
    use()->continue_after_handle();
  }
  /// The suspended `perform` throws.
  void resume_throwing(std::exception_ptr exception) {
    stave_detail::Suspension& suspension = pending();
    if (!exception) stave_detail::throw_no_exception();
    computation_->answer_throwing(suspension, std::move(exception));
    use()->run();
  }
  /// The rest is not wanted: the computation unwinds now. Rethrows what leaves its body, but for Cancelled.
  void drop() {
    if (!computation_) stave_detail::throw_used_resumption();
    static_cast<void>(computation_->waiting(ticket_));
    use()->cancel();
  }

 private:
  friend struct stave_detail::SuspensionOf<E>;
  Resumption(stave_detail::ComputationPtr computation, const void* ticket) noexcept
      : computation_(std::move(computation)), ticket_(ticket) {}
  stave_detail::Suspension& pending() {
    if (!computation_) stave_detail::throw_used_resumption();
    return computation_->pending(ticket_);
  }
  template <class... R>
  static void answer(stave_detail::Suspension& pending, R&&... result) {
    auto& suspension = static_cast<stave_detail::SuspensionOf<E>&>(pending);
    suspension.value.emplace(std::forward<R>(result)...);
    stave_detail::check_answer_to(suspension.effect, *suspension.value);
    suspension.answer = stave_detail::Suspension::Answer::value;
  }
  stave_detail::ComputationPtr use() noexcept { return std::move(computation_); }

  stave_detail::ComputationPtr computation_;
  const void* ticket_ = nullptr;
};

/// The part of a controller that is given effects of type E.
template <class E>
class Controlling {
 public:
  virtual void handle(E& effect, Resumption<E> rest) = 0;

 protected:
  ~Controlling() = default;
};

/// A controller of the effects Es: derive from it and override `handle` for each.
template <class... Es>
class Controls : public AnyController, public Controlling<Es>... {
 public:
  using Controlling<Es>::handle...;
};

/// A controller of tensor operations.
using Controller = Controls<Call>;

}  // namespace stave

namespace stave_detail {

template <class E>
struct SuspensionOf final : Suspension {
  using Result = typename E::Result;
  using Value = std::conditional_t<std::is_void_v<Result>, std::monostate, Result>;

  E& effect;
  Controlling<E>& controller;
  std::optional<Value> value{};

  SuspensionOf(E& effect, Controlling<E>& controller) noexcept : effect(effect), controller(controller) {}
  void hand_over(Computation& computation) override {
    controller.handle(effect, Resumption<E>(ComputationPtr(&computation), this));
  }
};

// Calls stop at each computation, since what is below it changes; one that does not want them passes them on, by this, which
// whoever defines Call gives when it is loaded.
extern constinit Handling<Call>* passing_on;

// What stands in a computation's frame: answers the effects Es by suspending the computation.
template <class Handler, class... Es>
class Suspending;
template <class Handler>
class Suspending<Handler> : public Handler {
 public:
  using Handler::Handler;
};
template <class Handler, class E, class... Rest>
class Suspending<Handler, E, Rest...> : public Suspending<Handler, Rest...> {
 public:
  using Suspending<Handler, Rest...>::Suspending;
  using Suspending<Handler, Rest...>::handle;
  typename E::Result handle(E& effect) override {
    SuspensionOf<E> suspension(effect, this->controller());
    const Computation::Outcome outcome = this->computation().suspend(suspension);
    if (outcome == Computation::Outcome::cancelled) throw Cancelled{.in_progress = true};
    if (outcome == Computation::Outcome::below) return perform(std::move(effect));
    if constexpr (!std::is_void_v<typename E::Result>) return std::move(*suspension.value);
  }
};

template <class... Es>
class ControllerOf : public Handles<Es...> {
 public:
  ControllerOf(Controls<Es...>& controller, Computation& computation) noexcept
      : controller_(controller), computation_(computation) {}
  std::string describe() const override {
    return computation_.cancelled() ? "a cancelled controller" : controller_.describe();
  }

 protected:
  Controls<Es...>& controller() const noexcept { return controller_; }
  Computation& computation() const noexcept { return computation_; }

 private:
  Controls<Es...>& controller_;
  Computation& computation_;
};

// `Place`: where its result goes, a pointer to an optional.
template <class Body, class Place, class... Es>
class ComputationOf final : public Computation {
 public:
  ComputationOf(Controls<Es...>& controller, ControlledPtr controlled, Body&& body, Place place)
      : Computation(std::move(controlled)), handler_(controller, *this), body_(std::forward<Body>(body)),
        place_(std::move(place)) {
    install(&handler_, handler_.handling_calls() ? handler_.handling_calls() : passing_on);
  }

 private:
  void body() override {
    if constexpr (std::is_void_v<std::invoke_result_t<Body&>>) {
      body_();
      place_->emplace();
    } else {
      place_->emplace(body_());
    }
    if (cancelled()) place_->reset();  // it swallowed Cancelled
  }

  Suspending<ControllerOf<Es...>, Es...> handler_;
  Body body_;
  Place place_;
};
template <class Body>
using ResultOf = std::conditional_t<std::is_void_v<std::invoke_result_t<Body&>>, std::monostate,
                                    std::decay_t<std::invoke_result_t<Body&>>>;

// Runs it; at the end nothing of it stays suspended that needs this scope.
void run_with(Computation& computation);
// The same for a part of another computation: throws Cancelled if it is dropped, TransformError if it stands still.
void run_to_its_end(Computation& computation);

template <class... Es>
class ControlledBy final : public Controlled {
 public:
  ControlledBy(Controls<Es...>& controller, std::shared_ptr<AnyController> owner) noexcept
      : Controlled(std::move(owner)), controller_(controller) {}
  template <class Body, class Place>
  ComputationPtr computation(Body&& body, Place place) {
    return make_intrusive<ComputationOf<Body, Place, Es...>>(controller_, ControlledPtr(this), std::forward<Body>(body),
                                                             std::move(place));
  }
  void run_nested(stave::FunctionRef<void()> body) override {
    std::optional<std::monostate> done;
    run_to_its_end(*computation(body, &done));
  }

 private:
  Controls<Es...>& controller_;
};
template <class... Es>
IntrusivePtr<ControlledBy<Es...>> controlled_by(Controls<Es...>& controller, std::shared_ptr<AnyController> owner) {
  return make_intrusive<ControlledBy<Es...>>(controller, std::move(owner));
}

}  // namespace stave_detail

namespace stave {

/// What a body returns that may stand still when `with` does: empty until it has ended, and for good if it was dropped. Copies
/// see the same.
template <class T>
class Eventual {
 public:
  explicit Eventual(std::shared_ptr<std::optional<T>> result) noexcept : result_(std::move(result)) {}
  bool has_value() const noexcept { return result_->has_value(); }
  explicit operator bool() const noexcept { return has_value(); }
  /// Throws std::bad_optional_access if it is empty.
  T& value() const& { return result_->value(); }
  T value() && { return result_->value(); }
  T& operator*() const& { return **result_; }
  T operator*() && { return **result_; }
  T* operator->() const { return &**result_; }
  operator std::optional<T>() const { return *result_; }

 private:
  std::shared_ptr<std::optional<T>> result_;
};

/// Runs body on a stack of its own, with `controller` answering its effects. Returns what body returns (std::monostate for
/// void), or nothing if it was dropped. Rethrows what body throws. When it returns, a computation that is still suspended
/// is cancelled.
template <class C, class Body>
  requires std::is_base_of_v<AnyController, std::remove_reference_t<C>>
auto with(C&& controller, Body&& body) {
  std::optional<stave_detail::ResultOf<Body>> result;
  const auto controlled = stave_detail::controlled_by(controller, nullptr);
  stave_detail::run_with(*controlled->computation(std::forward<Body>(body), &result));
  return result;
}

/// The same with a controller that the computation keeps alive: if it is suspended when this returns (the result is then empty),
/// whoever holds its resumption may go on with it, and finds the result here when it has ended.
template <class C, class Body>
  requires std::is_base_of_v<AnyController, C>
auto with(std::shared_ptr<C> controller, Body body) {
  const auto result = std::make_shared<std::optional<stave_detail::ResultOf<Body>>>();
  C& of = *controller;
  const auto controlled = stave_detail::controlled_by(of, std::move(controller));
  stave_detail::run_with(*controlled->computation(std::move(body), result));
  return Eventual(result);
}

}  // namespace stave
