// Stepper: a function that is run step by step, from outside.
//
//   Stepper stepper(grad(loss), w, x);                             // nothing runs yet
//   stepper.break_at({.operation = "matmul", .scope = "layer1", .pass = Breakpoint::Pass::backward});
//   while (stepper.go_on()) {                                      // to the next breakpoint, or the end
//     std::cout << stepper.at().str() << "\n" << summary_of(stepper.at().call().input(0)) << "\n";
//     stepper.at().answer(zeros_like(stepper.at().call().input(0)));    // in place of performing it
//   }
//   if (stepper.result()) ...                                      // what the function returned
//
// What it sees, where it stands and what may be said of breakpoints: stepping.h. The function stands still between two steps; what
// it performs is performed below, where the step is taken: so steps may themselves be taken under transforms. What the function
// throws leaves the step, and the function has ended. A Stepper that is destroyed in the middle drops the rest, whose destructors
// run. Unlike operations_of it goes inside of checkpoints and functions with rules of their own, and costs a function call, not a
// switch of stacks, for operations at which it does not stand still.
//
// A function that runs again when its Stepper is between two steps, or gone (a checkpoint's, in the backward pass of a grad around)
// is not stepped through.
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

// By this a stepped function stands still.
struct StandStill {
  using Result = void;
  const Stepping* stepping;
  void unhandled() const {}  // it is dropped, where it cannot unwind
};

class SteppedComputation;

/// All of a Stepper that does not depend on what its function returns.
class AnyStepper {
 public:
  AnyStepper(AnyStepper&&) noexcept = default;
  AnyStepper& operator=(AnyStepper&&) = delete;

  /// To the next operation. As all of these: false if the function ends before. Throws TransformError if it has ended already, or is
  /// running.
  bool step() { return go(Until::operation); }
  /// To the next operation in the same scope, or, where that ends, outside of it.
  bool next() { return go(Until::same_scope); }
  /// To the first operation after the end of this scope.
  bool finish() { return go(Until::end_of_scope); }
  /// To the next breakpoint, as is all that is asked of these before.
  bool go_on() { return go(Until::breakpoint); }
  /// Performs the operation at which the function stands, and stands after it: its outputs are there. Breakpoints in what it carries
  /// come first. Throws TransformError if it has its outputs.
  bool perform();
  /// The rest is not wanted: the function unwinds. Rethrows what it throws meanwhile.
  void drop();

  /// Where the function stands; ends with the next step. Throws TransformError if it does not stand: before the first step, and at the end.
  StopPoint& at() const;
  /// Whether it has ended, by returning, throwing, or being dropped.
  bool ended() const noexcept;

  /// Gives its number, from 1. Throws TransformError if it says nothing.
  int break_at(Breakpoint breakpoint);
  /// Throws TransformError if there is none of this number.
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

/// See above. f and the arguments are copied; R is what f returns, std::monostate for void.
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

  /// What the function returned; empty if it has not ended.
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
