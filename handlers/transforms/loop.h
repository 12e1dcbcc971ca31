// loop and scan: a function that is applied many times over, as one operation where it is recorded.
//
//   auto y = loop(1'000, [dt](const Tensor& y) { return y - dt * y; })(y0);
//
//   // a filter: one step per row of x, which returns the next state and a row of the result
//   const auto step = [a](const Tensor& state, const Tensor& x) {
//     const Tensor next = a * state + x;
//     return std::pair(next, tanh(next));
//   };
//   auto [last, outputs] = scan(step)(state0, xs);
//
// Both are ordinary loops that transforms differentiate and batch. A tape keeps the values that
// each step's rules read. With the option `snapshots`, reverse mode keeps only that many states,
// and runs the steps again from the nearest one. The schedule is binomial, which is proven to run
// the fewest steps. With s snapshots, of which the first is the first state, no step runs more than
// r + 1 times, where the number of steps is at most
//   (s + r)! / (s! r!)
// (Griewank and Walther, "Algorithm 799: revolve", 2000). So the number of snapshots, and the
// number of times that a step runs, need to grow only with the logarithm of the number of steps.
// The gradient equals that of the loop, bit for bit.
//
// trace and compile record loop and scan as an operation that carries its body as a program
// (core/program/loop.h), so a million steps take no more room than one. The body is performed for
// real for the first two steps. The recorder takes these steps as the loop's body if they performed
// the same operations, read no value, performed no user effect, called no function with rules
// (checkpoint, custom_vjp ...), and changed only tensors of the state, not their shapes or dtypes.
// Otherwise, and for a loop of at most two steps, it is unrolled. Value, gradient and tangents
// equal those of the steps, bit for bit, with three exceptions. Derivatives of higher order equal
// them up to rounding, because they are summed in another order; so does the gradient by the first
// carry of a scan, if that carry is used elsewhere too; and so does the gradient of a scan whose
// row of results is also the next carry or a value from outside, as in pair(n, n), if the steps
// read that value more than once. A zero in the gradient of a loop with
// snapshots, or of a loop inside another one, may have the other sign. Values leave such a loop
// only through its result: a tensor that the body assigned to a captured variable throws an error
// when it is used.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <stave/core/tensor/options.h>
#include <stave/handlers/transforms/higher_order_trees.h>
#include <stave/handlers/transforms/record_loop.h>
#include <stave/handlers/transforms/same_besides_tensors.h>

namespace stave {

struct LoopOptions {
  [[no_unique_address]] ByName by_name{};
  /// The number of states that reverse mode keeps, along with the body. 0: reverse mode keeps the
  /// values that an ordinary loop's tape keeps.
  Index snapshots = 0;
};

struct ScanOptions {
  [[no_unique_address]] ByName by_name{};
  /// Steps go from the last row to the first. Row i of the results still belongs to row i of xs.
  bool reverse = false;
  /// As in LoopOptions.
  Index snapshots = 0;
  /// The number of steps. It is needed only where there are no tensors to take rows of.
  std::optional<Index> length{};
};

}  // namespace stave

namespace stave_detail {

/// Returns how many of n > 1 steps come before the next snapshot, if reverse mode walks the steps
/// back with this many snapshots. With one snapshot left, all steps but the last come before.
Index steps_to_snapshot(Index n, Index snapshots);
void check_loop(const char* name, Index n, Index snapshots);
/// Returns the number of steps of a scan over these stacks. Throws ShapeError if a stack has rank
/// 0, or if the stacks' numbers of rows differ from each other or from `length`, and TransformError
/// if there are neither stacks nor a `length`.
Index scan_length(std::span<const Tensor> stacks, std::optional<Index> length);
/// Returns stacks without rows, for rows like this one.
Outputs stacks_without_rows(std::span<const Tensor> row);
[[noreturn]] void fail_rows_differ(const char* name);

// Calls f, which may move from the arguments. If f takes lvalue references, it gets the arguments
// as lvalues.
template <class F, class... A>
auto call_moving(const F& f, A&&... args) {
  if constexpr (std::is_invocable_v<const F&, A...>) return std::invoke(f, std::forward<A>(args)...);
  else return std::invoke(f, args...);
}

// The steps of loop and scan. A step takes a state, a tree of type Carry, and a row, a tree of type
// X, and returns the next state and a row of results, a tree of type Y. loop has no rows: its X and
// Y hold nothing. Leaves include the data of random-number keys.
template <class Step, class Carry, class X, class Y>
class LoopSteps {
 public:
  using Result = std::pair<Carry, Y>;
  /// `row` is a tree with the structure of each row.
  LoopSteps(const char* name, std::shared_ptr<const Step> step, const X& row, bool reverse, Index snapshots)
      : name_(name), step_(std::move(step)), row_(std::make_shared<const X>(without_leaves(copy_tree(row)))),
        reverse_(reverse), snapshots_(snapshots) {}

  /// Runs n > 0 steps from a state over the rows of the stacks.
  Result run(Index n, Carry carry, std::vector<Tensor> stacks) const {
    Progress progress{std::move(carry), {name_, reverse_}, {}, n, std::move(stacks)};
    const bool handled = current && current->nearest;
    if (handled) offer_to_recorder(progress);
    if (snapshots_ > 0 && handled) reversed(progress, snapshots_);
    else forward(progress);
    return std::move(progress).result();
  }
  /// Returns the given state and stacks of results without rows. The step runs once, on a row of
  /// zeros, to learn the shapes of its results.
  Result none(Carry carry, std::span<const Tensor> stacks) const {
    const Result result = one(copy_tree(carry), zero_row(stacks));
    const Outputs empty = stacks_without_rows(flat_outputs<true>(result.second));
    return {std::move(carry), filled(copy_tree(result.second), empty.begin())};
  }

 private:
  // The state between two steps.
  struct Progress {
    Carry carry;
    StackedRows results;
    std::optional<Y> structure;  // the structure of the results
    Index left;                  // the number of steps to run
    std::vector<Tensor> stacks;  // the rows of all steps, also of those that have run

    void add_structure(const char* name, const Y& y) {
      if (!structure) structure.emplace(without_leaves(copy_tree(y)));
      else if (!same_besides_tensors(*structure, y)) fail_rows_differ(name);
    }
    Result result() && {
      const Outputs stacked = results.take();
      return {std::move(carry), filled(std::move(*structure), stacked.begin())};
    }
  };

  // Returns a tree with these leaves (null: empty leaves). The tree must share no object with
  // another one.
  template <class Tree>
  static Tree filled(Tree tree, const Tensor* leaves) {
    PutLeaves put{leaves};
    put_leaves<true>(tree, put);
    return tree;
  }
  template <class Tree>
  static Tree without_leaves(Tree tree) {
    return filled(std::move(tree), nullptr);
  }

  Result one(Carry carry, std::span<const Tensor> leaves) const {
    return call_moving(*step_, std::move(carry), filled(copy_tree(*row_), leaves.data()));
  }
  void next(Progress& progress, const StackRows& rows) const {
    Result made = one(std::move(progress.carry), rows(reverse_ ? progress.left - 1 : first_row(progress)));
    progress.carry = std::move(made.first);
    progress.add_structure(name_, made.second);
    progress.results.add_row(flat_outputs<true>(made.second));
    --progress.left;
  }
  void forward(Progress& progress) const {
    const StackRows rows(progress.stacks);
    while (progress.left > 0) next(progress, rows);
  }
  static Index first_row(const Progress& progress) {
    return progress.stacks.empty() ? 0 : progress.stacks[0].shape(0) - progress.left;
  }

  // A recorder may take all steps as a loop, or perform the first one or two. Loops of one or two
  // steps, and states that cannot be compared, are not offered.
  void offer_to_recorder(Progress& progress) const {
    if constexpr (comparable_besides_tensors<Carry>()) {
      if (progress.left <= 2 || !is_loop_recorded()) return;
      Outputs leaves = flat_outputs<true>(progress.carry);
      Carry carry = without_leaves(std::move(progress.carry));
      bool changes = false;
      const auto flat = [&](std::span<const Tensor> xs) {
        Carry given = copy_tree(carry);
        PutLeaves put{xs.data()};
        put_leaves<true>(given, put);
        Result made = one(std::move(given), xs.subspan(static_cast<std::size_t>(put.next - xs.data())));
        Outputs outputs = flat_outputs<true>(made.first);
        for (Tensor& y : flat_outputs<true>(made.second)) outputs.push_back(std::move(y));
        changes |= !same_besides_tensors(carry, made.first);
        carry = without_leaves(copy_tree(made.first));
        progress.add_structure(name_, made.second);
        return outputs;
      };
      progress.left = perform(
          RecordLoop{progress.left, snapshots_, reverse_, flat, changes, leaves, progress.stacks, progress.results});
      progress.carry = filled(std::move(carry), leaves.begin());
    }
  }

  // Runs the steps such that a tape keeps only the snapshots, and the values of the last step. The
  // steps from one snapshot to the next are a checkpoint. The backward pass runs its steps again by
  // this function.
  void reversed(Progress& progress, Index snapshots) const {
    for (; progress.left > 1; --snapshots)
      checkpointed(progress, steps_to_snapshot(progress.left, snapshots), snapshots);
    forward(progress);
  }
  void checkpointed(Progress& progress, Index n, Index snapshots) const {
    const ResultStructure<Result, true> results(name_);
    Outputs inputs = flat_outputs<true>(progress.carry);
    const std::size_t leaves = inputs.size();
    const Index first = reverse_ ? progress.left - n : first_row(progress);
    for (const Tensor& stack : progress.stacks) inputs.push_back(rows_of(stack, first, n));
    const auto kept = std::make_shared<const Carry>(without_leaves(std::move(progress.carry)));
    const auto start = [=, *this](const FunctionInputs& given) {
      const std::span<const Tensor> stacks = given.inputs.subspan(leaves);
      return Progress{
          filled(copy_tree(*kept), given.inputs.data()), {name_, reverse_}, {}, n, {stacks.begin(), stacks.end()}};
    };
    FunctionAttributes functions;
    functions.name = name_;
    functions.rematerializes = true;
    functions.function = [=, *this](const FunctionInputs& given) {
      Progress steps = start(given);
      forward(steps);
      return results.flat(std::move(steps).result());
    };
    functions.again = [=, *this](const FunctionInputs& given) {
      Progress steps = start(given);
      reversed(steps, snapshots);
      return results.flat(std::move(steps).result());
    };
    Result made = results.tree(call_function(std::move(functions), Inputs(inputs.begin(), inputs.end())));
    progress.carry = std::move(made.first);
    progress.add_structure(name_, made.second);
    progress.results.add_stacks(flat_outputs<true>(made.second));
    progress.left -= n;
  }

  const char* name_;
  std::shared_ptr<const Step> step_;
  std::shared_ptr<const X> row_;
  bool reverse_;
  Index snapshots_;
};

template <class Body>
class LoopCall {
 public:
  LoopCall(Index n, Body body, LoopOptions options)
      : n_(n), snapshots_(options.snapshots), step_(std::make_shared<const Step>(Step{std::move(body)})) {}

  template <class Carry>
  auto operator()(Carry&& carry) const {
    using Tree = Decayed<Carry>;
    if constexpr (can_call<Returns::tree, const Body, SelectAll<Tree>, Tree>) {
      using Result = typename Calls<const Body, SelectAll<Tree>, Tree>::Result;
      static_assert(std::is_same_v<Result, Tree>, "stave: loop: the function must return what it takes");
      Tree state = hold<true, Carry>(std::forward<Carry>(carry));
      if (n_ == 0) return state;
      const LoopSteps<Step, Tree, Nothing, Nothing> steps("loop", step_, {}, false, snapshots_);
      return steps.run(n_, std::move(state), {}).first;
    } else {
      return Refused();
    }
  }

 private:
  using Nothing = std::tuple<>;
  // The body as a step without rows.
  struct Step {
    Body body;
    template <class Tree>
    std::pair<Tree, Nothing> operator()(Tree state, Nothing) const {
      return {call_moving(body, std::move(state)), {}};
    }
  };
  Index n_, snapshots_;
  std::shared_ptr<const Step> step_;
};

template <class R, class Carry>
struct ScanResult {
  static constexpr bool valid = false;
};
template <class Carry, class Y>
struct ScanResult<std::pair<Carry, Y>, Carry> {
  static constexpr bool valid = true;
  using Row = Y;
};

template <class F>
class ScanCall {
 public:
  ScanCall(F f, ScanOptions options) : options_(options), f_(std::make_shared<const F>(std::move(f))) {}

  /// Returns std::pair(carry, ys). Throws ShapeError if the tensors of xs do not have the same
  /// number of rows.
  template <class Carry, class Xs>
  auto operator()(Carry&& carry, const Xs& xs) const {
    using C = Decayed<Carry>;
    if constexpr (can_call<Returns::tree, const F, SelectTrees<C, Xs>, C, Xs>)
      return run<typename Calls<const F, SelectTrees<C, Xs>, C, Xs>::Result>(f_, std::forward<Carry>(carry), xs);
    else return Refused();
  }
  /// A scan without rows, of a function of the carry alone.
  template <class Carry>
  auto operator()(Carry&& carry) const {
    using C = Decayed<Carry>;
    if constexpr (can_call<Returns::tree, const F, SelectTrees<C>, C>)
      return run<typename Calls<const F, SelectTrees<C>, C>::Result>(
          std::make_shared<const WithoutRows>(WithoutRows{f_}), std::forward<Carry>(carry), std::tuple<>());
    else return Refused();
  }

 private:
  struct WithoutRows {
    std::shared_ptr<const F> f;
    template <class C>
    auto operator()(C carry, std::tuple<>) const {
      return call_moving(*f, std::move(carry));
    }
  };

  template <class Result, class Step, class Carry, class Xs>
  auto run(std::shared_ptr<const Step> step, Carry&& carry, const Xs& xs) const {
    using C = Decayed<Carry>;
    constexpr bool valid = ScanResult<Result, C>::valid;
    static_assert(valid,
                  "stave: scan: the function must return std::pair(carry, row of results), with a carry of the type "
                  "that it takes");
    if constexpr (valid) {
      using Y = typename ScanResult<Result, C>::Row;
      static_assert(comparable_besides_tensors<Y>(),
                    "stave: scan: a part of the function's results is not a tensor and cannot be compared by ==, so "
                    "the results of the steps cannot be stacked");
      const Outputs leaves = flat_outputs<true>(xs);
      const Index n = scan_length(leaves, options_.length);
      const LoopSteps<Step, C, Xs, Y> steps("scan", std::move(step), xs, options_.reverse, options_.snapshots);
      C state = hold<is_tree<C>, Carry>(std::forward<Carry>(carry));
      if (n == 0) return steps.none(std::move(state), leaves);
      return steps.run(n, std::move(state), {leaves.begin(), leaves.end()});
    } else {
      return Refused();
    }
  }

  ScanOptions options_;
  std::shared_ptr<const F> f_;
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
auto loop(N n, Body body, LoopOptions options = {}) {
  stave_detail::check_loop("loop", static_cast<Index>(n), options.snapshots);
  return stave_detail::LoopCall<Body>(static_cast<Index>(n), std::move(body), options);
}

// Overloads for the names of overloaded functions: loop(3, sin).
#define STAVE_NAMES(Name)                                             \
  template <std::integral N>                                          \
  auto loop(N n, stave_detail::Name body, LoopOptions options = {}) { \
    return loop<N, stave_detail::Name>(n, std::move(body), options);  \
  }
STAVE_NAMES(Unary)
STAVE_NAMES(UnaryRef)
#undef STAVE_NAMES

/// Returns a callable that applies f once for each row of a tree of tensors, as jax.lax.scan. Its
/// call scan(f)(carry, xs) begins with the given carry. Step i is f(carry, x), where x is xs with
/// row i, index i of axis 0, in place of each tensor and key. f returns std::pair(next carry, y).
/// The call returns std::pair(last carry, ys), where ys is y with all rows in place of each tensor:
/// shape [steps, ...]. The carry, xs and y are trees (core/ops/tree.h) of any type; all carries
/// have one type. With {.length = n}, scan(f)(carry) is a scan without rows, of f(carry).
///
/// For no rows, the call returns the given carry and empty stacks; f is called once for a row of
/// zeros, to learn their shapes. Throws ShapeError for tensors of rank 0 or with other numbers of
/// rows than `length` or each other, and for steps whose results differ in shape; DtypeError for
/// steps whose results differ in dtype; TransformError for a negative length or number of
/// snapshots, if there are neither tensors in xs nor a length, and for steps whose results differ
/// in anything other than tensors. Captures and effects of f are as for loop.
template <class F>
auto scan(F f, ScanOptions options = {}) {
  stave_detail::check_loop("scan", options.length.value_or(0), options.snapshots);
  return stave_detail::ScanCall<F>(std::move(f), options);
}

}  // namespace stave
