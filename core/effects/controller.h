// Controllers: handlers that receive the rest of the program as a value.
//
// An ordinary handler (effect.h) answers an effect by returning. A controller receives,
// with each effect that it handles, the rest of the computation as a value, a `Resumption`.
// It may resume the computation now, later or from another place, with any answer; it may throw
// into the computation; or it may never resume it:
//
//   struct Next { using Result = double; };
//   struct StopAtNan : Controls<Next> {
//     void handle(Next& next, Resumption<Next> rest) override {
//       const double x = perform(next);       // the handlers outside answer
//       if (std::isnan(x)) return rest.drop();  // unwinds: its destructors run
//       rest.resume_last(x);
//     }
//   };
//   std::optional<double> y = with(stop_at_nan, [&] { return f(); });   // empty if it was dropped
//
// The body of such a `with` runs on a stack of its own (fiber.h). When it performs an effect
// of the controller, the computation is suspended with all handlers installed inside it.
// `handle` then runs where the computation was last resumed, and the handlers outside the
// controller are current. When the computation goes on, its handlers are nested inside the handlers
// of the code that resumes it.
//
//   resume         A resumption is used once; a second use is an error. It is used on the thread
//                  on which the computation began.
//   frames         When `with` ends, computations that are still suspended are cancelled, unless
//                  they own the controller: with(shared_ptr).
//   handlers       A computation may be suspended inside the `handle` of a handler outside its
//                  controller. When that handler's `with` ends, the computation is cancelled, and
//                  resuming it is an error that names the handler. A shared handler lives on.
//   cancelling     The suspended `perform` throws Cancelled, so destructors run. Where it must not
//                  throw (an exception is in flight there, or an Uncancellable is alive), the
//                  handlers around the code that drops the computation answer the effect, and
//                  the next effect throws.
//                  A body that swallows Cancelled runs until its next effect; its result is lost.
//                  Cancelled terminates if it leaves a `noexcept` function, as any exception does.
//   threads        A resumption that is destroyed on another thread drops the computation on the
//                  computation's own thread, when that thread begins another computation or ends.
//                  A computation ends with its thread.
#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <variant>

#include <stave/core/effects/computation.h>
#include <stave/core/effects/effect.h>
#include <stave/core/effects/intrusive.h>

namespace stave {

/// The exception that unwinds a computation that was dropped. It does not derive from
/// std::exception. Code that catches it must rethrow it.
struct Cancelled {
  // True if an effect threw this exception: then the whole enclosing computation must unwind.
  bool in_progress = false;
};

/// Base class of all controllers.
class AnyController {
 public:
  virtual ~AnyController() = default;
  /// The controller's name in errors and traces. By default it is the name of the class.
  virtual std::string describe() const { return stave_detail::type_name(typeid(*this)); }
};

}  // namespace stave

namespace stave_detail {

// An effect that is never performed. A handler of this effect marks the code under it as code in
// which cancelling must not throw.
struct UncancellableMark {
  using Result = bool;
};

}  // namespace stave_detail

namespace stave {

/// While this object lives, cancelling waits: the handlers around the code that drops the
/// computation answer its effects.
class Uncancellable {
 public:
  Uncancellable() noexcept : frame_(stave_detail::current, &guard_), install_(&frame_) {}

 private:
  struct Guard final : Handles<stave_detail::UncancellableMark> {
    bool handle(stave_detail::UncancellableMark&) override { return false; }
    std::string describe() const override { return ""; }
  } guard_;
  HandlerFrame frame_;
  stave_detail::UnderFrame install_;
};

}  // namespace stave

namespace stave_detail {

[[noreturn]] void throw_used_resumption();
[[noreturn]] void throw_no_exception();

// Checks an answer where it is given: an overload check_answer(effect, answer), found
// by argument-dependent lookup, throws if the answer does not fit the effect.
template <class E, class R>
void check_answer_to(const E& effect, const R& answer) {
  if constexpr (requires { check_answer(effect, answer); }) check_answer(effect, answer);
}

template <class E>
struct SuspensionOf;

}  // namespace stave_detail

namespace stave {

/// The rest of a computation that waits for the answer to an effect E. It is used at most once;
/// if it is destroyed unused, the computation is dropped.
template <class E>
class Resumption {
 public:
  using Result = typename E::Result;
  using Answer = std::conditional_t<std::is_void_v<Result>, std::monostate, Result>;

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

  /// Returns true if this resumption was neither used nor moved from.
  explicit operator bool() const noexcept { return static_cast<bool>(computation_); }

  /// Continues the computation with the answer. Returns when the computation has ended
  /// or is suspended again. Rethrows an exception that leaves the computation's body.
  template <class... R>
  void resume(R&&... result) {
    answer(pending(), std::forward<R>(result)...);
    use()->template run<stave_detail::SuspensionOf<E>>();
  }
  void resume(Answer&& result) { resume<Answer>(std::move(result)); }  // for resume({a, b})
  /// Gives the answer at the end of `handle`; the computation goes on after `handle` has returned.
  /// This needs no stack, however many operations follow.
  template <class... R>
  void resume_last(R&&... result) {
    if (!computation_) stave_detail::throw_used_resumption();
    answer(computation_->pending_in_handle(ticket_), std::forward<R>(result)...);
    use()->continue_after_handle();
  }
  void resume_last(Answer&& result) { resume_last<Answer>(std::move(result)); }
  /// Continues the computation with an exception: the suspended `perform` throws it.
  void resume_throwing(std::exception_ptr exception) {
    stave_detail::Suspension& suspension = pending();
    if (!exception) stave_detail::throw_no_exception();
    computation_->answer_throwing(suspension, std::move(exception));
    use()->template run<stave_detail::SuspensionOf<E>>();
  }
  /// Drops the computation: it unwinds now. Rethrows an exception other than Cancelled that leaves
  /// its body.
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

/// The part of a controller that handles effects of type E.
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

}  // namespace stave

namespace stave_detail {

template <class E>
struct SuspensionOf final : Suspension {
  using Result = typename E::Result;
  using Value = typename Resumption<E>::Answer;

  E& effect;
  Controlling<E>& controller;
  std::optional<Value> value{};

  SuspensionOf(E& effect_, Controlling<E>& controller_) noexcept
      : Suspension(type()), effect(effect_), controller(controller_) {}
  static const EffectType& type() noexcept { return stave::effect_type<E>(); }
  void hand_over(Computation& computation) override {
    controller.handle(effect, Resumption<E>(ComputationPtr(&computation), this));
  }
};

// The Handling<E> of the slot effect E that performs the effect again, so that the outer handlers
// answer. The frame of a computation uses it if the controller does not handle the slot effect. It
// is needed because `nearest` never points from a frame inside a computation to one outside: the
// outer frames change whenever other code resumes the computation. The layer that defines the slot
// effect sets this variable when it is loaded.
extern constinit SlotHandling passing_on;

// The handler in a computation's frame: it answers the effects Es by suspending the computation.
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
  Controls<Es...>& controller() const noexcept { return controller_; }

 protected:
  Computation& computation() const noexcept { return computation_; }

 private:
  Controls<Es...>& controller_;
  Computation& computation_;
};

// `Place`: a pointer to the std::optional that receives the result.
template <class Body, class Place, class... Es>
class ComputationOf final : public Computation {
 public:
  ComputationOf(Controls<Es...>& controller, std::shared_ptr<AnyController> owner, ControlledPtr controlled,
                Body&& body, Place place)
      : Computation(std::move(owner), std::move(controlled)), handler_(controller, *this),
        body_(std::forward<Body>(body)), place_(std::move(place)) {
    install(&handler_, handler_.slot() ? handler_.slot() : passing_on);
  }

 private:
  void body() override {
    if constexpr (std::is_void_v<std::invoke_result_t<Body&>>) {
      body_();
      place_->emplace();
    } else {
      place_->emplace(body_());
    }
    if (cancelled()) place_->reset();  // the body swallowed Cancelled
  }
  ControlledPtr make_controlled(std::shared_ptr<AnyController> owner) override;

  Suspending<ControllerOf<Es...>, Es...> handler_;
  Body body_;
  Place place_;
};
template <class Body>
using ResultOf = std::conditional_t<std::is_void_v<std::invoke_result_t<Body&>>, std::monostate,
                                    std::decay_t<std::invoke_result_t<Body&>>>;

// Runs the computation of a `with`. When this returns, no suspended computation refers to the
// caller's local variables.
void run_with(Computation& computation);
// Runs a computation that is a part of another one. Throws Cancelled if the part is dropped. If the
// part is still suspended at the end, cancels it and returns false.
bool run_to_its_end(Computation& computation);

template <class Body, class Place, class... Es>
ComputationPtr computation_of(Controls<Es...>& controller, std::shared_ptr<AnyController> owner,
                              ControlledPtr controlled, Body&& body, Place place) {
  return make_intrusive<ComputationOf<Body, Place, Es...>>(controller, std::move(owner), std::move(controlled),
                                                           std::forward<Body>(body), std::move(place));
}

template <class... Es>
class ControlledBy final : public Controlled {
 public:
  ControlledBy(Controls<Es...>& controller, std::shared_ptr<AnyController> owner) noexcept
      : Controlled(std::move(owner)), controller_(controller) {}
  bool run_nested(stave::FunctionRef<void()> body) override {
    std::optional<std::monostate> done;
    return run_to_its_end(*computation_of(controller_, nullptr, ControlledPtr(this), body, &done));
  }

 private:
  Controls<Es...>& controller_;
};

template <class Body, class Place, class... Es>
ControlledPtr ComputationOf<Body, Place, Es...>::make_controlled(std::shared_ptr<AnyController> owner) {
  return make_intrusive<ControlledBy<Es...>>(handler_.controller(), std::move(owner));
}

}  // namespace stave_detail

namespace stave {

/// The result of a body that may still be suspended when `with` returns. It is empty until the body
/// has ended, and stays empty if the computation was dropped. Copies share one result.
template <class T>
class Eventual {
 public:
  explicit Eventual(std::shared_ptr<std::optional<T>> result) noexcept : result_(std::move(result)) {}
  bool has_value() const noexcept { return result_->has_value(); }
  explicit operator bool() const noexcept { return has_value(); }
  /// Throws std::bad_optional_access if there is no result.
  T& value() const& { return result_->value(); }
  T value() && { return result_->value(); }
  T& operator*() const& { return **result_; }
  T operator*() && { return **result_; }
  T* operator->() const { return &**result_; }
  operator std::optional<T>() const { return *result_; }

 private:
  std::shared_ptr<std::optional<T>> result_;
};
template <class T>
Eventual(std::shared_ptr<std::optional<T>>) -> Eventual<T>;

/// Runs body on a stack of its own, with `controller` handling its effects.
/// Returns the result of body (std::monostate for void), or nothing if the computation was dropped.
/// Rethrows exceptions of body. A computation that is still suspended at the end is cancelled.
template <class C, class Body>
  requires std::is_base_of_v<AnyController, std::remove_reference_t<C>>
auto with(C&& controller, Body&& body) {
  std::optional<stave_detail::ResultOf<Body>> result;
  stave_detail::run_with(
      *stave_detail::computation_of(controller, nullptr, nullptr, std::forward<Body>(body), &result));
  return result;
}

/// Runs body under a controller that the computation keeps alive. If the computation is suspended
/// when this returns, the result is empty for now: the owner of its resumption may continue it,
/// and the result appears here when it has ended. The computation keeps a copy of body.
/// Objects that body captures by reference must live until it has ended, so capture by value.
template <class C, class Body>
  requires std::is_base_of_v<AnyController, C>
auto with(std::shared_ptr<C> controller, Body body) {
  const auto result = std::make_shared<std::optional<stave_detail::ResultOf<Body>>>();
  C& of = *controller;
  stave_detail::run_with(*stave_detail::computation_of(of, std::move(controller), nullptr, std::move(body), result));
  return Eventual(result);
}

}  // namespace stave
