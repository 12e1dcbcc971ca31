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

#include <stave/core/effects/computation.h>
#include <stave/core/effects/effect.h>
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

  /// Whether it can still be used.
  explicit operator bool() const noexcept { return static_cast<bool>(computation_); }

  /// Goes on with the answer now; returns when the computation has ended or stands still again. Rethrows what leaves its body.
  template <class... R>
  void resume(R&&... result) {
    answer(pending(), std::forward<R>(result)...);
    use()->template run<stave_detail::SuspensionOf<E>>();
  }
  void resume(Answer&& result) { resume<Answer>(std::move(result)); }  // resume({a, b})
  /// The same at the end of `handle`: goes on when that has returned. Needs no stack, however many operations follow.
  template <class... R>
  void resume_last(R&&... result) {
    if (!computation_) stave_detail::throw_used_resumption();
    answer(computation_->pending_in_handle(ticket_), std::forward<R>(result)...);
    use()->continue_after_handle();
  }
  void resume_last(Answer&& result) { resume_last<Answer>(std::move(result)); }
  /// The suspended `perform` throws.
  void resume_throwing(std::exception_ptr exception) {
    stave_detail::Suspension& suspension = pending();
    if (!exception) stave_detail::throw_no_exception();
    computation_->answer_throwing(suspension, std::move(exception));
    use()->template run<stave_detail::SuspensionOf<E>>();
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
  Controls<Es...>& controller() const noexcept { return controller_; }

 protected:
  Computation& computation() const noexcept { return computation_; }

 private:
  Controls<Es...>& controller_;
  Computation& computation_;
};

// `Place`: where its result goes, a pointer to an optional.
template <class Body, class Place, class... Es>
class ComputationOf final : public Computation {
 public:
  ComputationOf(Controls<Es...>& controller, std::shared_ptr<AnyController> owner, ControlledPtr controlled,
                Body&& body, Place place)
      : Computation(std::move(owner), std::move(controlled)), handler_(controller, *this),
        body_(std::forward<Body>(body)), place_(std::move(place)) {
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
  ControlledPtr make_controlled(std::shared_ptr<AnyController> owner) override;

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
  void run_nested(stave::FunctionRef<void()> body) override {
    std::optional<std::monostate> done;
    run_to_its_end(*computation_of(controller_, nullptr, ControlledPtr(this), body, &done));
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
template <class T>
Eventual(std::shared_ptr<std::optional<T>>) -> Eventual<T>;

/// Runs body on a stack of its own, with `controller` answering its effects. Returns what body returns (std::monostate for
/// void), or nothing if it was dropped. Rethrows what body throws. When it returns, a computation that is still suspended
/// is cancelled.
template <class C, class Body>
  requires std::is_base_of_v<AnyController, std::remove_reference_t<C>>
auto with(C&& controller, Body&& body) {
  std::optional<stave_detail::ResultOf<Body>> result;
  stave_detail::run_with(
      *stave_detail::computation_of(controller, nullptr, nullptr, std::forward<Body>(body), &result));
  return result;
}

/// The same with a controller that the computation keeps alive: if it is suspended when this returns (the result is then empty),
/// whoever holds its resumption may go on with it, and finds the result here when it has ended. The
/// computation keeps a copy of body: what that captures by reference must live until it has ended,
/// so capture by value.
template <class C, class Body>
  requires std::is_base_of_v<AnyController, C>
auto with(std::shared_ptr<C> controller, Body body) {
  const auto result = std::make_shared<std::optional<stave_detail::ResultOf<Body>>>();
  C& of = *controller;
  stave_detail::run_with(*stave_detail::computation_of(of, std::move(controller), nullptr, std::move(body), result));
  return Eventual(result);
}

}  // namespace stave
