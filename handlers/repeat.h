// repeat: a function applied many times over, whose gradient takes as much memory as one wants.
//
//   auto y = repeat(1'000'000, step, {.snapshots = 20})(y0);       // step(step(... step(y0)))
//
// Without snapshots it is the loop that it says, and a tape keeps what each step's rules read. With them, reverse mode keeps
// that many states alone, and steps from the nearest one again: by the binomial schedule that is proven to step the fewest
// times. With s snapshots, of which y0 is the first, no step is taken more than r + 1 times, where the number of steps is at most
//   (s + r)! / (s! r!)
// (Griewank and Walther, "Algorithm 799: revolve", 2000): so memory and time both grow with the logarithm of the number.
// The gradient is that of the loop, bit for bit.
#pragma once

#include <memory>
#include <utility>

#include <stave/core/options.h>
#include <stave/handlers/carried_trees.h>

namespace stave {

struct RepeatOptions {
  [[no_unique_address]] ByName by_name{};
  Index snapshots = 0;  ///< states that reverse mode keeps; 0: all that a loop's tape keeps
};

}  // namespace stave

namespace stave_detail {

/// Of n > 1 steps that are walked back with so many snapshots: how many come before the next snapshot. Where one is left, all but
/// the last.
Index steps_to_snapshot(Index n, Index snapshots);
void check_repeat(Index n, Index snapshots);

template <class Body>
class RepeatOf {
 public:
  RepeatOf(Index n, Body body, RepeatOptions options)
      : n_(n), snapshots_(options.snapshots), body_(std::make_shared<const Body>(std::move(body))) {}

  template <class Carry>
  auto operator()(Carry&& carry) const {
    using Tree = Decayed<Carry>;
    if constexpr (can_call<Returns::tree, const Body, SelectAll<Tree>, Tree>) {
      using Result = typename Calls<const Body, SelectAll<Tree>, Tree>::Result;
      static_assert(std::is_same_v<Result, Tree>, "stave: repeat: the function must return what it takes");
      Tree state = hold<true, Carry>(std::forward<Carry>(carry));
      const bool handled = current && current->nearest;
      return snapshots_ > 0 && handled ? reversed(body_, n_, snapshots_, std::move(state))
                                       : loop(*body_, n_, std::move(state));
    } else {
      return Refused();
    }
  }

 private:
  using BodyPtr = std::shared_ptr<const Body>;

  template <class Tree>
  static Tree loop(const Body& body, Index n, Tree state) {
    for (; n > 0; --n) state = step(body, std::move(state));
    return state;
  }
  template <class Tree>
  static Tree step(const Body& body, Tree state) {
    if constexpr (std::is_invocable_v<const Body&, Tree>) return std::invoke(body, std::move(state));
    else return std::invoke(body, state);
  }

  // n steps, as they are recorded: up to each snapshot a checkpoint, which runs again as this does.
  template <class Tree>
  static Tree reversed(const BodyPtr& body, Index n, Index snapshots, Tree state) {
    for (; n > 1; --snapshots) {
      const Index before = steps_to_snapshot(n, snapshots);
      state = checkpointed(body, before, snapshots, std::move(state));
      n -= before;
    }
    return n == 1 ? step(*body, std::move(state)) : state;
  }
  template <class Tree>
  static Tree checkpointed(const BodyPtr& body, Index n, Index snapshots, Tree state) {
    const ResultStructure<Tree> results("repeat");
    const Outputs leaves = flat_outputs(state);
    const auto kept = std::make_shared<const Tree>(structure_of(state));
    FunctionAttributes functions;
    functions.name = "repeat";
    functions.runs_again = true;
    functions.function = [=](std::span<const Tensor> xs) {
      return results.flat(loop(*body, n, with_leaves(*kept, xs)));
    };
    functions.again = [=](std::span<const Tensor> xs) {
      return results.flat(reversed(body, n, snapshots, with_leaves(*kept, xs)));
    };
    { const Tree ended = std::move(state); }
    return results.tree(call_function(std::move(functions), Inputs(leaves.begin(), leaves.end())));
  }

  Index n_, snapshots_;
  BodyPtr body_;
};

}  // namespace stave_detail

namespace stave {

/// body, n times over: a function of a tree that returns such a tree. Throws TransformError for a negative n, or number of snapshots.
/// With snapshots body is called again in the backward pass, so what it captures by reference must live until then; user effects
/// in it get the same answers each time.
template <std::integral N, class Body>
auto repeat(N n, Body body, RepeatOptions options = {}) {
  stave_detail::check_repeat(static_cast<Index>(n), options.snapshots);
  return stave_detail::RepeatOf<Body>(static_cast<Index>(n), std::move(body), options);
}

// Names of overloaded functions: repeat(3, sin).
#define STAVE_NAMES(Name)                                                 \
  template <std::integral N>                                              \
  auto repeat(N n, stave_detail::Name body, RepeatOptions options = {}) { \
    return repeat<N, stave_detail::Name>(n, std::move(body), options);    \
  }
STAVE_NAMES(Unary)
STAVE_NAMES(UnaryRef)
#undef STAVE_NAMES

}  // namespace stave
