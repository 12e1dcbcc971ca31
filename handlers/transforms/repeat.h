// repeat: applies a function many times over; the memory that its gradient takes can be chosen.
//
//   // captures by value: what is kept below is a copy of it
//   const auto step = [dt](const Tensor& y) { return y - dt * y; };
//   auto y = repeat(1'000'000, step, {.snapshots = 20})(y0);         // step(step(... step(y0)))
//
// Without snapshots it is an ordinary loop, and a tape keeps the values that each step's rules
// read. With snapshots, reverse mode keeps only that many states, and runs the steps again
// from the nearest one. The schedule is binomial, which is proven to run the fewest steps.
// With s snapshots, of which y0 is the first, no step runs more than r + 1 times,
// where the number of steps is at most
//   (s + r)! / (s! r!)
// (Griewank and Walther, "Algorithm 799: revolve", 2000). So memory and time both grow
// with the logarithm of the number of steps. The gradient equals that of the loop, bit for bit.
//
// trace and compile record repeat as a loop: an operation that carries its body as a program
// (core/program/loop.h), so a million steps take no more room than one. The body is performed for
// real for the first two steps. The recorder takes these steps as the loop's body if they performed
// the same operations, read no value, performed no user effect and called no function with rules
// (checkpoint, custom_vjp ...). Otherwise the loop is unrolled. Value, gradient and tangents
// equal those of the steps, bit for bit. Derivatives of higher order equal them up to rounding,
// because they are summed in another order. Values leave such a loop only through its result:
// a tensor that the body assigned to a captured variable throws an error when it is used.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include <stave/core/tensor/options.h>
#include <stave/handlers/transforms/higher_order_trees.h>
#include <stave/handlers/transforms/record_loop.h>
#include <stave/handlers/transforms/same_besides_tensors.h>

namespace stave {

struct RepeatOptions {
  [[no_unique_address]] ByName by_name{};
  /// The number of states that reverse mode keeps, along with the body. 0: reverse mode keeps the
  /// values that an ordinary loop's tape keeps.
  Index snapshots = 0;
};

}  // namespace stave

namespace stave_detail {

/// Returns how many of n > 1 steps come before the next snapshot, when they are walked back
/// with this many snapshots. With one snapshot left, these are all steps but the last.
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
      const Index left = handled ? left_by_recorder(state) : n_;
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

  // Returns how many steps are left to run, after those that a recorder took as a loop.
  template <class Tree>
  Index left_by_recorder(Tree& state) const {
    if constexpr (comparable_besides_tensors<Tree>()) {
      if (n_ <= 2 || !is_loop_recorded()) return n_;
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
      const Index left = perform(RecordLoop{n_, snapshots_, flat, changes, leaves});
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

  // Runs n steps such that a tape keeps only the snapshots. The steps up to each snapshot
  // are a checkpoint. The backward pass runs its steps again by this function.
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
    functions.rematerializes = true;
    functions.function = [=](const FunctionInputs& given) {
      return results.flat(loop(*body, n, with_leaves(*kept, given.inputs)));
    };
    functions.again = [=](const FunctionInputs& given) {
      return results.flat(reversed(body, n, snapshots, with_leaves(*kept, given.inputs)));
    };
    { const Tree ended = std::move(state); }
    return results.tree(call_function(std::move(functions), Inputs(leaves.begin(), leaves.end())));
  }

  Index n_, snapshots_;
  BodyPtr body_;
};

}  // namespace stave_detail

namespace stave {

/// Returns a callable that applies body n times; body is a function of a tree that returns a tree
/// of the same type. Throws TransformError for a negative n or a negative number of snapshots.
/// The callable keeps a copy of body, which tapes, pullbacks and programs share. With snapshots
/// the backward pass calls body again, maybe long after the call, because vjp's pullback
/// or a compiled function may outlive it. So capture by value, [dt] or [=], not by reference.
/// User effects in body get the same answers each time.
template <std::integral N, class Body>
auto repeat(N n, Body body, RepeatOptions options = {}) {
  stave_detail::check_repeat(static_cast<Index>(n), options.snapshots);
  return stave_detail::RepeatOf<Body>(static_cast<Index>(n), std::move(body), options);
}

// Overloads for the names of overloaded functions: repeat(3, sin).
#define STAVE_NAMES(Name)                                                 \
  template <std::integral N>                                              \
  auto repeat(N n, stave_detail::Name body, RepeatOptions options = {}) { \
    return repeat<N, stave_detail::Name>(n, std::move(body), options);    \
  }
STAVE_NAMES(Unary)
STAVE_NAMES(UnaryRef)
#undef STAVE_NAMES

}  // namespace stave
