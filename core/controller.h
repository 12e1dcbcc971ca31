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
//   cancelling     the suspended `perform` throws Cancelled, so destructors run. Where it must not throw (an exception is in
//                  flight there, or an Uncancellable stands), the effect is answered below the one who drops instead, and the
//                  next effect throws. A body that swallows Cancelled goes on until it performs again; its result is lost.
//                  Cancelled out of a `noexcept` function terminates, as any exception does.
#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <variant>

#include <stave/core/effect.h>
#include <stave/core/fiber.h>
#include <stave/core/intrusive.h>

namespace stave {

/// Thrown through a computation that was dropped. No std::exception: nobody should catch it but to let it go on.
struct Cancelled {
  bool in_progress = false;  // an effect throws it, and all of the computation around is to unwind
};

/// While it stands, cancelling waits: effects are answered below the one who drops.
class Uncancellable {
 public:
  Uncancellable() noexcept : frame_(stave_detail::current), install_(&frame_) {}

 private:
  struct GuardFrame : Frame {
    explicit GuardFrame(Frame* below) noexcept : Frame(below, Kind::uncancellable) {}
  } frame_;
  stave_detail::UnderFrame install_;
};

}  // namespace stave

namespace stave_detail {

class Computation;

// An effect that waits for its answer, on the stack of the computation that performed it.
struct Suspension {
  enum class Answer : std::uint8_t { none, value, exception, cancel };
  Answer answer = Answer::none;
  /// Gives the effect to the controller.
  virtual void hand_over(Computation& computation) = 0;

 protected:
  ~Suspension() = default;
};

// A body on a stack of its own, under the frame of its controller.
class Computation : public ThreadCounted {
 public:
  /// `keeps_controller`: it may outlive the `with` that began it.
  explicit Computation(bool keeps_controller);
  virtual ~Computation();
  Computation(const Computation&) = delete;
  Computation& operator=(const Computation&) = delete;

  /// Runs it until it ends, or its controller lets it stand. Rethrows what leaves the body.
  void run();
  /// The rest is not wanted. Rethrows what leaves the body, but for Cancelled.
  void cancel();
  void cancel_quietly() noexcept;
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
  Suspension& pending(const void* ticket);
  bool waits_for(const void* ticket) const noexcept { return !ended_ && pending_ == ticket; }
  /// Whether `with` may return and leave it suspended.
  bool keeps_controller() const noexcept { return keeps_controller_; }
  bool cancelled() const noexcept { return cancelled_; }
  bool ended() const noexcept { return ended_; }
  /// Whether the calling code runs on its stack.
  bool running() const noexcept { return fiber_.running(); }
  /// The one whose frame this is.
  static Computation& of(Frame& frame) noexcept { return static_cast<ControllerFrame&>(frame).computation; }
  /// Another body under the same controller, as a computation of its own. Throws Cancelled if it is dropped.
  virtual void run_nested(stave::FunctionRef<void()> body) = 0;
  /// `with` ends: a controller that it was lent is gone.
  void end_with() noexcept { with_ended_ = true; }
  /// The answer is given, and `handle` is about to return: run() goes on.
  void continue_after_handle() noexcept { continues_ = true; }
  /// As `pending`, for that. Throws outside of `handle` as well.
  Suspension& pending_in_handle(const void* ticket) {
    if (pending_ != ticket || !handling_) [[unlikely]]
      throw_not_in_handle(ticket);
    return *pending_;
  }

 protected:
  virtual void body() = 0;
  void install(AnyHandler* handler, Handling<Call>* operations) noexcept;
  /// Throws TransformError if the controller may be gone.
  void check_controller() const;

 private:
  struct ControllerFrame : HandlerFrame {
    Computation& computation;
    bool unwinding = false;  // an exception is in flight where the computation was resumed
    explicit ControllerFrame(Computation& of) noexcept
        : HandlerFrame(nullptr, nullptr, nullptr, Kind::computation), computation(of) {}
  };
  void enter() noexcept;
  void give_to_controller();
  void cancel_answered() noexcept;
  [[noreturn]] void throw_not_in_handle(const void* ticket);
  bool may_throw() const noexcept;

  ControllerFrame frame_{*this};      // the lowest on its stack; what is below is the resumer's
  Frame* top_ = &frame_;              // while it stands still
  Suspension* pending_ = nullptr;     // what it waits for
  Interception* handling_ = nullptr;  // its controller at work
  std::exception_ptr answer_;         // to what it waits for, if that is an exception
  std::exception_ptr thrown_;         // what left the body
  const bool keeps_controller_;
  bool cancelled_ = false, continues_ = false, ended_ = false, with_ended_ = false;
  Fiber fiber_;
};
using ComputationPtr = IntrusivePtr<Computation>;

[[noreturn]] void throw_used_resumption();
[[noreturn]] void throw_no_exception();

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
    if (!computation_ || !computation_->waits_for(ticket_)) return;
    try {
      drop();
    } catch (...) {  // what else the body threw while it unwound: as in any destructor, there is no place for it to go
    }
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
    pending();
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

/// Base of all controllers.
class AnyController {
 public:
  virtual ~AnyController() = default;
  /// For errors and traces.
  virtual std::string describe() const { return "a controller"; }
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

// Answers effects of type E inside a computation: by suspending it.
template <class E>
class Suspending : public Handling<E> {
 public:
  Suspending(Computation& computation, Controlling<E>& controller) noexcept
      : computation_(computation), controller_(controller) {}
  typename E::Result handle(E& effect) override {
    SuspensionOf<E> suspension(effect, controller_);
    const Computation::Outcome outcome = computation_.suspend(suspension);
    if (outcome == Computation::Outcome::cancelled) throw Cancelled{.in_progress = true};
    if (outcome == Computation::Outcome::below) return perform(std::move(effect));
    if constexpr (!std::is_void_v<typename E::Result>) return std::move(*suspension.value);
  }

 protected:
  ~Suspending() = default;

 private:
  Computation& computation_;
  Controlling<E>& controller_;
};

// Tensor operations stop at each computation, since what is below it changes; one that does not want them passes them on.
Handling<Call>* passing_on() noexcept;

// What stands in a computation's frame.
template <class... Es>
class ComputationOf : public Computation, public AnyHandler, public Suspending<Es>... {
 public:
  ComputationOf(Controls<Es...>& controller, bool keeps_controller)
      : Computation(keeps_controller), Suspending<Es>(*this, controller)..., controller_(controller) {
    void* operations = handling(effect_tag<Call>);
    install(this, operations ? static_cast<Handling<Call>*>(operations) : passing_on());
  }
  std::string describe() const override { return cancelled() ? "a cancelled controller" : controller_.describe(); }
  void run_nested(stave::FunctionRef<void()> body) override;
  void* handling(const void* effect) noexcept override {
    void* found = nullptr;
    ((effect == effect_tag<Es> ? void(found = static_cast<Handling<Es>*>(static_cast<Suspending<Es>*>(this))) : void()),
     ...);
    return found;
  }

 private:
  Controls<Es...>& controller_;
};

template <class... Es>
ComputationOf<Es...> computation_of(Controls<Es...>&);  // names the type

// `Owner`: a reference to a controller, or a shared_ptr.
template <class C, class Body, class Owner>
class ComputationWithBody final : public decltype(computation_of(std::declval<C&>())) {
 public:
  using Base = decltype(computation_of(std::declval<C&>()));
  using Returned = std::invoke_result_t<Body&>;
  using Result = std::conditional_t<std::is_void_v<Returned>, std::monostate, std::decay_t<Returned>>;

  ComputationWithBody(C& controller, Owner owner, Body&& body, bool keeps_controller)
      : Base(controller, keeps_controller), owner_(std::move(owner)), body_(std::forward<Body>(body)) {}
  std::optional<Result> result{};

 private:
  void body() override {
    if constexpr (std::is_void_v<Returned>) {
      body_();
      result.emplace();
    } else {
      result.emplace(body_());
    }
    if (this->cancelled()) result.reset();  // it swallowed Cancelled
  }
  [[no_unique_address]] Owner owner_;
  Body body_;
};

// Runs it; at the end nothing of it stays suspended that needs this scope.
void run_with(Computation& computation);
// The same for a part of another computation: throws Cancelled if it is dropped, TransformError if it stands still.
void run_to_its_end(Computation& computation);

}  // namespace stave_detail

namespace stave {

/// Runs body on a stack of its own, with `controller` answering its effects. Returns what body returns (std::monostate for
/// void), or nothing if it was dropped. Rethrows what body throws. When it returns, a computation that is still suspended
/// is cancelled.
template <class C, class Body>
  requires std::is_base_of_v<AnyController, std::remove_reference_t<C>>
auto with(C&& controller, Body&& body) {
  using Of = std::remove_reference_t<C>;
  using T = stave_detail::ComputationWithBody<Of, Body, std::monostate>;
  const auto computation = make_intrusive<T>(controller, std::monostate(), std::forward<Body>(body), false);
  stave_detail::run_with(*computation);
  return std::move(computation->result);
}

/// The same with a controller that the computation keeps alive: if it is suspended when this returns (the result is then empty),
/// whoever holds its resumption may go on with it.
template <class C, class Body>
  requires std::is_base_of_v<AnyController, C>
auto with(std::shared_ptr<C> controller, Body body) {
  C& of = *controller;
  using T = stave_detail::ComputationWithBody<C, Body, std::shared_ptr<C>>;
  const auto computation = make_intrusive<T>(of, std::move(controller), std::move(body), true);
  stave_detail::run_with(*computation);
  return std::move(computation->result);
}

}  // namespace stave

template <class... Es>
void stave_detail::ComputationOf<Es...>::run_nested(stave::FunctionRef<void()> body) {
  check_controller();
  const auto call = [&] { body(); };
  using T = ComputationWithBody<Controls<Es...>, decltype(call)&, std::monostate>;
  run_to_its_end(*make_intrusive<T>(controller_, std::monostate(), call, false));
}
