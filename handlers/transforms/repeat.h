// repeat: a function applied many times over, whose gradient takes as much memory as one wants.
//
//   const auto step = [dt](const Tensor& y) { return y - dt * y; };  // captures by value: what is kept below is a copy of it
//   auto y = repeat(1'000'000, step, {.snapshots = 20})(y0);         // step(step(... step(y0)))
//
// Without snapshots it is the loop that it says, and a tape keeps what each step's rules read. With them, reverse mode keeps
// that many states alone, and steps from the nearest one again: by the binomial schedule that is proven to step the fewest
// times. With s snapshots, of which y0 is the first, no step is taken more than r + 1 times, where the number of steps is at most
//   (s + r)! / (s! r!)
// (Griewank and Walther, "Algorithm 799: revolve", 2000): so memory and time both grow with the logarithm of the number.
// The gradient is that of the loop, bit for bit.
//
// trace and compile keep it as a loop: an operation that carries its body as a program (core/program/loop.h), of which a million steps
// take no more room than one. The body is performed for the first two steps, for real; if it did the same both times, read no value,
// performed no effect of one's own and called no function with rules (checkpoint, custom_vjp ...), what it did is the loop's
// body. Else the loop is unrolled. Value, gradient and tangents are those of the steps, bit for bit; derivatives of higher order are so up
// to rounding, for they sum in another order. What it computes leaves it by its result alone: a tensor that it assigns to a captured variable is an
// error to whoever uses it then.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include <stave/core/tensor/options.h>
#include <stave/handlers/transforms/carried_trees.h>
#include <stave/handlers/transforms/same_besides_tensors.h>

namespace stave {

struct RepeatOptions {
  [[no_unique_address]] ByName by_name{};
  Index snapshots = 0;  ///< states that reverse mode keeps, and the body with them; 0: all that a loop's tape keeps
};

}  // namespace stave

namespace stave_detail {

/// Of n > 1 steps that are walked back with so many snapshots: how many come before the next snapshot. Where one is left, all but
/// the last.
Index steps_to_snapshot(Index n, Index snapshots);
void check_repeat(Index n, Index snapshots);

/// What keeps a loop as one: a recorder of programs.
class KeepsLoops {
 public:
  /// Takes some of n steps, or all, from `state`, and gives how many are left. `changes`: the steps so far changed what a state is besides
  /// its tensors.
  virtual Index take(Index n, Index snapshots, FlatFunction step, const bool& changes, Outputs& state) = 0;

 protected:
  ~KeepsLoops() = default;
};
class PathRun;

/// One, and who stands before it.
struct LoopKeeper {
  KeepsLoops* keeper = nullptr;
  std::vector<PathRun*> paths;
  /// keeper->take(...). It may perform steps and forget them.
  Index take(Index n, Index snapshots, FlatFunction step, const bool& changes, Outputs& state) const;
};
/// The nearest; null: there is none, or somebody stands before it who is to see each step.
LoopKeeper keeper_of_loops();

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
      const Index left = handled ? left_by_keeper(state) : n_;
      return snapshots_ > 0 && handled ? reversed(body_, left, snapshots_, std::move(state))
                                       : loop(*body_, left, std::move(state));
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

  // How many steps are to be taken, after those that a recorder took as a loop.
  template <class Tree>
  Index left_by_keeper(Tree& state) const {
    if constexpr (comparable_besides_tensors<Tree>()) {
      const LoopKeeper keeper = n_ > 2 ? keeper_of_loops() : LoopKeeper();
      if (!keeper.keeper) return n_;
      Outputs leaves = flat_outputs<true>(state);
      put<Tree>(state, nullptr);
      bool changes = false;
      const auto flat = [&](std::span<const Tensor> xs) {
        Tree given = copy_tree(state);
        put<Tree>(given, xs.data());
        Tree next = step(*body_, std::move(given));
        const Outputs made = flat_outputs<true>(next);
        put<Tree>(next, nullptr);
        changes |= !same_besides_tensors(state, next);
        state = std::move(next);
        return made;
      };
      const Index left = keeper.take(n_, snapshots_, flat, changes, leaves);
      put<Tree>(state, leaves.data());
      return left;
    } else {
      return n_;
    }
  }
  template <class Tree>
  static void put(Tree& tree, const Tensor* leaves) {
    PutLeaves put{leaves};
    put_leaves<true>(tree, put);
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
/// Keeps a copy of body, which tapes, pullbacks and programs share. With snapshots it is called
/// again in the backward pass, maybe long after the call, as vjp's pullback or a compiled function
/// outlives it: so capture by value, [dt] or [=], not by reference. User effects in it get the same
/// answers each time.
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
