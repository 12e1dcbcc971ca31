// Stepper: runs a function step by step, controlled by the caller.
//
//   Stepper stepper(grad(loss), w, x);                             // nothing runs yet
//   stepper.break_at({.operation = "matmul",
//                     .scope = "layer1",
//                     .pass = Breakpoint::Pass::backward});
//   while (stepper.go_on()) {                              // to the next breakpoint, or the end
//     std::cout << stepper.at().str() << "\n" << summary_of(stepper.at().call().input(0)) << "\n";
//     // the operation gets this result instead of being performed
//     stepper.at().answer(zeros_like(stepper.at().call().input(0)));
//   }
//   if (stepper.result()) ...                                      // what the function returned
//
// stepping.h describes the visible operations, the stops and the breakpoints. The function is
// suspended between two steps. Its operations are performed under the handlers that are installed
// where the step is taken, so steps may be taken under transforms. An exception that leaves
// the function ends it, and the step rethrows the exception. The destructor of a Stepper drops
// the rest of the function and runs the destructors of its local variables. Unlike operations_of,
// a Stepper enters checkpoints and functions with custom rules. An operation without a stop costs
// a function call, not a switch of stacks.
//
// There are no stops in a function that runs again between two steps, or after the end of the
// Stepper. This happens to the function of a checkpoint in the backward pass of a grad outside of
// the Stepper.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <tuple>
#include <variant>

#include <stave/core/effects/controller.h>
#include <stave/handlers/observe/stepping.h>
#include <stave/handlers/transforms/arguments.h>

namespace stave_detail {

// The effect by which a stepped function is suspended.
struct PauseStepping {
  using Result = void;
  const Stepping* stepping;
  // Does nothing, so that the function continues. Called if the Stepper has dropped the function
  // while it is at a point where no exception may be thrown to unwind its stack.
  void unhandled() const {}
};

class SteppedComputation;

/// The part of a Stepper that does not depend on the result type of its function.
class AnyStepper {
 public:
  AnyStepper(AnyStepper&&) noexcept = default;
  AnyStepper& operator=(AnyStepper&&) = delete;

  /// Runs to the next operation. Like the following functions, it returns false if the function
  /// ends first, and throws TransformError if it has ended already or is running.
  bool step() { return go(Until::operation); }
  /// Runs to the next operation in the same scope, or outside of it if the scope ends.
  bool next() { return go(Until::same_scope); }
  /// Runs to the first operation after the end of the current scope.
  bool finish() { return go(Until::end_of_scope); }
  /// Runs to the next breakpoint. The functions above also stop at breakpoints.
  bool go_on() { return go(Until::breakpoint); }
  /// Performs the current operation and stops after it, with its outputs. If it is of higher order,
  /// breakpoints inside of it stop first. Throws TransformError if it has its outputs already.
  bool perform();
  /// Ends the function without running the rest of it: its stack is unwound, as by an exception.
  /// Rethrows an exception that the function throws meanwhile.
  void drop();

  /// Returns the current stop, which is valid until the next step. Throws TransformError before
  /// the first step and after the end.
  StopPoint& at() const;
  /// Returns whether the function has ended by returning, throwing, or being dropped.
  bool ended() const noexcept;

  /// Adds a breakpoint and returns its number, from 1. Throws TransformError if it has no
  /// condition.
  int break_at(Breakpoint breakpoint);
  /// Removes a breakpoint. Throws TransformError if there is none with this number.
  void remove_breakpoint(int number);

 protected:
  explicit AnyStepper(std::function<void()> body);
  ~AnyStepper();

 private:
  bool go(Until until);

  std::shared_ptr<SteppedComputation> computation_;
};

}  // namespace stave_detail

namespace stave {

/// A Stepper with a result of type R, the return type of f; std::monostate for void.
/// f and the arguments are copied.
template <class R>
class Stepper : public stave_detail::AnyStepper {
 public:
  template <class F, class... A>
  explicit Stepper(F f, A... args) : Stepper(std::make_shared<std::optional<R>>(), std::move(f), std::move(args)...) {}
#define STAVE_NAMES(Name)                           \
  template <class... A>                             \
  explicit Stepper(stave_detail::Name f, A... args) \
      : Stepper(std::make_shared<std::optional<R>>(), f, std::move(args)...) {}
  STAVE_OVERLOADED_NAMES(STAVE_NAMES)
#undef STAVE_NAMES

  /// Returns the result of the function; empty if it has not returned.
  const std::optional<R>& result() const { return *result_; }

 private:
  using Place = std::shared_ptr<std::optional<R>>;
  template <class F, class... A>
  explicit Stepper(Place place, F f, A... args)
      : AnyStepper([place, f = std::move(f), arguments = std::tuple<A...>(std::move(args)...)]() mutable {
          if constexpr (std::is_void_v<std::invoke_result_t<F&, A&...>>) std::apply(f, arguments), place->emplace();
          else place->emplace(std::apply(f, arguments));
        }),
        result_(std::move(place)) {}

  Place result_;
};

}  // namespace stave

namespace stave_detail {

template <class F, class... A>
struct Stepped {
  static constexpr bool valid = std::is_invocable_v<F&, A&...>;
  static_assert(valid, "stave: Stepper: the function cannot be called with these arguments");
};
template <class F, class... A>
  requires std::is_invocable_v<F&, A&...>
struct Stepped<F, A...> {
  using Returned = std::invoke_result_t<F&, A&...>;
  using Result = std::conditional_t<std::is_void_v<Returned>, std::monostate, std::decay_t<Returned>>;
};

}  // namespace stave_detail

namespace stave {

template <class F, class... A>
Stepper(F, A...) -> Stepper<typename stave_detail::Stepped<F, A...>::Result>;
#define STAVE_NAMES(Name) \
  template <class... A>   \
  Stepper(stave_detail::Name, A...) -> Stepper<Tensor>;
STAVE_OVERLOADED_NAMES(STAVE_NAMES)
#undef STAVE_NAMES

}  // namespace stave
